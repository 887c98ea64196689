"""What LiteLLM knows of models: whose they are, and what they cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def provider_of(model: str | None) -> str | None:
    """Return whose model stands behind a name, if all that LiteLLM may choose from are of one.

    A name that LiteLLM does not list tells it by what stands before a slash.
    """
    found = {_provider(params) for params in _deployments(model)}
    if len(found) == 1:
        return found.pop()
    prefix, slash, _ = (model or "").partition("/")
    return prefix if slash and not found else None


def provider_called(logged: Any) -> str | None:
    """Return whom LiteLLM has called in the end, which may be one to fall back to, if it says so.

    `logged` is the object that it logs a call with.
    """
    details = getattr(logged, "model_call_details", None)
    found = details.get("custom_llm_provider") if isinstance(details, Mapping) else None
    return found if isinstance(found, str) and found else None


def cost_of(usage: Mapping[str, Any], *models: str | None) -> float | None:
    """Reckon what tokens cost in USD by LiteLLM's prices; None: it has none."""
    reckon: Any = getattr(sys.modules.get("litellm"), "cost_per_token", None)
    if reckon is None:
        return None
    details = usage.get("input_tokens_details") or {}
    counts = {
        "prompt_tokens": usage.get("input_tokens") or 0,
        "completion_tokens": usage.get("output_tokens") or 0,
        "cache_read_input_tokens": details.get("cached_tokens") or 0,
        "cache_creation_input_tokens": details.get("cache_creation_tokens") or 0,
    }
    names = [*models, *(params.get("model") for each in models for params in _deployments(each))]
    for name in names:
        try:
            total = float(sum(reckon(model=name or "", **counts)))
        except Exception:  # noqa: BLE001, S112 - it raises anything for a model that it has no price of
            continue
        if total:
            return round(total, 12)
    return None


def _deployments(model: str | None) -> list[Mapping[str, Any]]:
    """Return what a proxy's config says of those that answer to a name."""
    router = getattr(sys.modules.get("litellm.proxy.proxy_server"), "llm_router", None)
    if router is None or not model:
        return []
    try:
        listed = router.get_model_list(model_name=model) or []
    except Exception:  # noqa: BLE001 - who has the model is only good to know
        return []
    given = [each.get("litellm_params") for each in listed if isinstance(each, Mapping)]
    return [params for params in given if isinstance(params, Mapping)]


def _provider(params: Mapping[str, Any]) -> str | None:
    if named := params.get("custom_llm_provider"):
        return str(named)
    prefix, slash, _ = str(params.get("model") or "").partition("/")
    return prefix if slash else None
