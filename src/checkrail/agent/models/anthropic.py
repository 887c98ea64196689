"""Models behind Anthropic's messages API, through Anthropic's own SDK."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.agent.models.model import ModelError
from checkrail.agent.models.sdk_model import NO_KEY, SdkModel
from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.extras import needs
from checkrail.llm.messages.answer_draft import AnthropicDraft
from checkrail.llm.messages.conversation import anthropic_messages

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def anthropic_params(
    request: ModelRequest, transform: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Write a request's params and tools; those with a name of Anthropic's own stay as they are.

    `transform` is what the SDK has to make a schema one that the API takes.
    """
    params: dict[str, Any] = thaw(request.params)
    stop = params.pop("stop", None)
    if stop:
        params.setdefault("stop_sequences", [stop] if isinstance(stop, str) else stop)
    choice = _render_tool_choice(
        params.pop("tool_choice", None), params.pop("parallel_tool_calls", None)
    )
    if request.tools:
        params["tools"] = [_render_tool(tool) for tool in thaw([*request.tools])]
        params |= {"tool_choice": choice} if choice else {}
    wanted = _render_output_format(params.pop("response_format", None), transform)
    if wanted:
        params["output_config"] = {**(params.get("output_config") or {}), "format": wanted}
    return params


def _render_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping):  # one of Anthropic's own, such as its web search
        return tool
    schema = {"type": "object"} | (function.get("parameters") or {})
    told = {name: function[name] for name in ("description", "strict") if function.get(name)}
    return {"name": function.get("name"), "input_schema": schema, **told}


def _render_tool_choice(choice: Any, parallel: Any) -> dict[str, Any] | None:
    chosen = _parse_tool_choice(choice)
    if parallel is False and (chosen is None or chosen.get("type") != "none"):
        return {"type": "auto"} | (chosen or {}) | {"disable_parallel_tool_use": True}
    return chosen


def _parse_tool_choice(choice: Any) -> dict[str, Any] | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        return {"type": CHOICES.get(choice, choice)}
    function = choice.get("function")
    return {"type": "tool", "name": function["name"]} if function else dict(choice)


def _render_output_format(
    wanted: Any, transform: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    kind = wanted.get("type") if wanted else "text"
    if kind == "text":
        return None
    if kind != "json_schema":
        raise ModelError(
            f"Anthropic's API has no response_format {kind!r}: ask for a json_schema instead"
        )
    schema = wanted["json_schema"]["schema"]
    try:
        return {"type": "json_schema", "schema": transform(schema)}
    except (AssertionError, AttributeError, TypeError, ValueError):
        # The SDK knows less of JSON Schema than there is: the API is the better judge.
        return {"type": "json_schema", "schema": schema}


class AnthropicModel(SdkModel):
    """A model of Anthropic, or of anything that speaks its messages API at `base_url`.

    The API key is `api_key`, ANTHROPIC_API_KEY, or what else the SDK finds by itself; with a base
    URL it may be absent. `timeout` is how many seconds may pass without a sign of life;
    `max_retries` is the SDK's, for what may pass. `client` is an `AsyncAnthropic` of your own, to
    which all of these belong. `max_tokens` holds unless a request says otherwise: the API wants a
    number. Params such as `temperature` are asked for each time.
    """

    key_names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    url_name = "ANTHROPIC_BASE_URL"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = 600,
        max_retries: int = 2,
        max_tokens: int = 4096,
        provider: str = "anthropic",
        client: Any = None,
        **params: Any,
    ) -> None:
        with needs("anthropic", "AnthropicModel", "anthropic"):
            import anthropic
        super().__init__(
            name,
            anthropic,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            provider=provider,
            client=client,
            params={"max_tokens": max_tokens, **params},
        )

    def _make_client(self) -> Any:
        key = self._find_key()
        if self._find_url() and not (key or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
            key = NO_KEY  # or the SDK would look for a login at Anthropic's, and take it there
        client = self._sdk.AsyncAnthropic(api_key=key, **self._client_options())
        if not any((client.api_key, client.auth_token, getattr(client, "credentials", None))):
            raise self._missing_key()
        return client

    def _request_function(self, client: Any) -> Callable[..., Any]:
        create: Callable[..., Any] = client.messages.create
        return create

    def _build_arguments(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:  # noqa: ARG002 - both are asked for alike
        arguments = anthropic_params(request, self._sdk.transform_schema)
        arguments.setdefault("max_tokens", self.params["max_tokens"])
        arguments["model"] = request.model or self.name
        system, arguments["messages"] = anthropic_messages(request.messages)
        if system:
            arguments["system"] = system
        return arguments

    def _open_draft(self, model: str) -> AnthropicDraft:
        return AnthropicDraft(model)
