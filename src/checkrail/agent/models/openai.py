"""Models behind an OpenAI-compatible chat API, through OpenAI's own SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkrail.agent.models.sdk_model import NO_KEY, SdkModel
from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.extras import needs
from checkrail.llm.chat.answer_draft import OpenAIDraft
from checkrail.llm.chat.conversation import openai_messages


class OpenAIModel(SdkModel):
    """A model of OpenAI, or of anything that speaks its chat API at `base_url`.

    The API key is `api_key` or OPENAI_API_KEY; with a base URL it may be absent. `timeout` is how
    many seconds may pass without a sign of life; `max_retries` is the SDK's, for what may pass.
    `client` is an `AsyncOpenAI` of your own, to which all of these belong. Params such as
    `temperature` are asked for each time; what the SDK does not know of is sent too.
    """

    key_names = ("OPENAI_API_KEY",)
    url_name = "OPENAI_BASE_URL"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = 600,
        max_retries: int = 2,
        provider: str = "openai",
        client: Any = None,
        **params: Any,
    ) -> None:
        with needs("openai", "OpenAIModel", "openai"):
            import openai
        super().__init__(
            name,
            openai,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            provider=provider,
            client=client,
            params=params,
        )

    def _make_client(self) -> Any:
        key = self._find_key() or (NO_KEY if self._find_url() else None)
        if key is None:
            raise self._missing_key()
        return self._sdk.AsyncOpenAI(api_key=key, **self._client_options())

    def _request_function(self, client: Any) -> Callable[..., Any]:
        create: Callable[..., Any] = client.chat.completions.create
        return create

    def _build_arguments(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        arguments: dict[str, Any] = thaw(request.params)
        if request.tools:
            arguments["tools"] = thaw(request.tools)
        else:  # the API refuses these where there is nothing to choose from
            arguments.pop("tool_choice", None)
            arguments.pop("parallel_tool_calls", None)
        options = arguments.pop("stream_options", {"include_usage": True})
        if stream and options:
            arguments["stream_options"] = options
        arguments["model"] = request.model or self.name
        arguments["messages"] = openai_messages(request.messages)
        return arguments

    def _open_draft(self, model: str) -> OpenAIDraft:
        return OpenAIDraft(model)
