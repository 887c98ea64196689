"""What a model is to the loop: something that answers a request; and models by their names."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.values import AssistantMessage, ModelRequest

FailureKind = Literal["error", "timeout", "unreachable", "invalid"]


@runtime_checkable
class Model(Protocol):
    """A model behind its provider.

    `name`, `provider` and `params` go into every request, where hooks see and may change them:
    the model is asked for what the request says.
    """

    @property
    def name(self) -> str:
        """What events and rules call it."""

    @property
    def provider(self) -> str | None:
        """Whose it is."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of every call, such as `temperature`."""

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the whole answer, or raise `ModelError`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[str | AssistantMessage]:
        """Return the answer's text as it comes, and at last the whole answer."""


class ModelError(CheckrailError):
    """A model did not answer, for good: what its own retries could mend is mended before.

    `kind` is one of those that hooks fail with: the provider refused (`error`), took too long
    (`timeout`), could not be reached or was overloaded (`unreachable`), or answered garbage
    (`invalid`). `usage` is what was used up all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "error",
        status: int | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.status = status
        self.usage = usage


PROVIDERS = {
    "openai": ("checkrail.agent.models.openai", "OpenAIModel"),
    "anthropic": ("checkrail.agent.models.anthropic", "AnthropicModel"),
    "litellm": ("checkrail.agent.models.litellm", "LiteLLMModel"),
}


def named_model(name: str, **options: Any) -> Model:
    """Build the model that a name stands for; the options are those of its class."""
    provider, slash, model = name.partition("/")
    if not slash:
        raise CheckrailError(f"{name!r} names no provider: write it as openai/{name or 'gpt-5'}")
    if not model:
        raise CheckrailError(f"{name!r} names no model: write it as {provider}/gpt-5")
    if provider not in PROVIDERS:
        hint = suggestion(provider, PROVIDERS)
        known = ", ".join(PROVIDERS)
        told = f"there is no provider {provider!r}{hint}. Known are: {known}"
        raise CheckrailError(f"{told}; LiteLLM knows more: litellm/{name}")
    module, made = PROVIDERS[provider]
    return getattr(importlib.import_module(module), made)(model, **options)  # type: ignore[no-any-return]
