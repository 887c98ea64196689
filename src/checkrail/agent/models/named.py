"""Models by name: `openai/gpt-5`, `anthropic/claude-sonnet-5`, `litellm/...`."""

from __future__ import annotations

import importlib
from typing import Any

from checkrail.agent.models.model import Model
from checkrail.engine.errors import CheckrailError, suggestion

PROVIDERS = {
    "openai": ("checkrail.agent.models.openai", "OpenAIModel"),
    "anthropic": ("checkrail.agent.models.anthropic", "AnthropicModel"),
    "litellm": ("checkrail.agent.models.litellm", "LiteLLMModel"),
}


def named_model(name: str, **options: Any) -> Model:
    """Make the model that a name stands for; the options are those of its class."""
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
