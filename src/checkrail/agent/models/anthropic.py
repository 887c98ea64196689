"""Models behind Anthropic's messages API, through Anthropic's own SDK."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from checkrail.agent.models.anthropic_answer import AnthropicDraft
from checkrail.agent.models.anthropic_messages import anthropic_messages
from checkrail.agent.models.anthropic_params import anthropic_params
from checkrail.agent.models.sdk_model import NO_KEY, SdkModel
from checkrail.engine.extras import needs
from checkrail.engine.values import ModelRequest


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
        key = self._key()
        if self._url() and not (key or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
            key = NO_KEY  # or the SDK would look for a login at Anthropic's, and take it there
        client = self._sdk.AsyncAnthropic(api_key=key, **self._connection())
        if not any((client.api_key, client.auth_token, getattr(client, "credentials", None))):
            raise self._missing_key()
        return client

    def _create(self, client: Any) -> Callable[..., Any]:
        create: Callable[..., Any] = client.messages.create
        return create

    def _arguments(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:  # noqa: ARG002 - both are asked for alike
        arguments = anthropic_params(request, self._sdk.transform_schema)
        arguments.setdefault("max_tokens", self.params["max_tokens"])
        arguments["model"] = request.model or self.name
        system, arguments["messages"] = anthropic_messages(request.messages)
        if system:
            arguments["system"] = system
        return arguments

    def _draft(self, model: str) -> AnthropicDraft:
        return AnthropicDraft(model)
