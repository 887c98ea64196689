"""What answers cost, by the prices of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.config.gateway import PriceConfig
from checkrail.engine.matchers import compile_pattern
from checkrail.engine.values import AssistantMessage

MILLION = 1_000_000


def add_cost(
    usage: Mapping[str, Any] | None, models: Iterable[str | None], prices: Sequence[PriceConfig]
) -> Mapping[str, Any] | None:
    """Return a usage with its cost in USD, if one of the models has a price; else unchanged.

    `models` are the names that the model goes by: as it was asked, then as it answered.
    """
    if not usage:
        return usage
    found = (find_price(model, prices) for model in models if model)
    price = next(filter(None, found), None)
    return usage if price is None else {**usage, "cost": token_cost(usage, price)}


def add_answer_cost(
    message: AssistantMessage, asked: str | None, prices: Sequence[PriceConfig]
) -> AssistantMessage:
    """Return an answer with its cost, where the model that was asked, or answered, has a price."""
    usage = add_cost(message.usage, (asked, message.model), prices)
    return message if usage is message.usage else dataclasses.replace(message, usage=usage)


def find_price(model: str, prices: Sequence[PriceConfig]) -> PriceConfig | None:
    """Return the first price whose pattern fits a model's name."""
    return next((price for price in prices if compile_pattern(price.model)(model)), None)


def can_have_price(model: str, prices: Sequence[PriceConfig]) -> bool:
    """Return whether a model has a price, or may answer under a longer name that has one."""
    longer = (isinstance(each.model, str) and each.model.startswith(model) for each in prices)
    return find_price(model, prices) is not None or any(longer)


def token_cost(usage: Mapping[str, Any], price: PriceConfig) -> float:
    """Return what tokens cost; cached ones are part of the input, and may have another price."""
    details = usage.get("input_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read, written = (
        _read_count(details, name) for name in ("cached_tokens", "cache_creation_tokens")
    )
    fresh = max(0, _read_count(usage, "input_tokens") - read - written)
    total = (
        fresh * price.input
        + read * (price.input if price.cached is None else price.cached)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + _read_count(usage, "output_tokens") * price.output
    )
    return round(total / MILLION, 12)  # a millionth of a cent is nothing, and floats show it


def _read_count(counts: Mapping[str, Any], name: str) -> int:
    given = counts.get(name)
    return given if isinstance(given, int) and given > 0 else 0
