"""What answers cost, by the prices of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.config.gateway import PriceConfig
from checkrail.engine.matchers import compiled

MILLION = 1_000_000


def priced(
    usage: Mapping[str, Any] | None, models: Iterable[str | None], prices: Sequence[PriceConfig]
) -> Mapping[str, Any] | None:
    """Return a usage with what it cost in USD, if the model has a price; else as it is.

    `models` are the names that the model goes by: as it was asked, then as it answered.
    """
    if not usage:
        return usage
    found = (price_of(model, prices) for model in models if model)
    price = next(filter(None, found), None)
    return usage if price is None else {**usage, "cost": cost(usage, price)}


def price_of(model: str, prices: Sequence[PriceConfig]) -> PriceConfig | None:
    """Return the first price whose pattern fits a model's name."""
    return next((price for price in prices if compiled(price.model)(model)), None)


def may_have_price(model: str, prices: Sequence[PriceConfig]) -> bool:
    """Return whether a model has a price, or may answer under a longer name that has one."""
    longer = (isinstance(each.model, str) and each.model.startswith(model) for each in prices)
    return price_of(model, prices) is not None or any(longer)


def cost(usage: Mapping[str, Any], price: PriceConfig) -> float:
    """Reckon what tokens cost; those of a cache are part of the input, and may cost other."""
    details = usage.get("input_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read, written = (_count(details, name) for name in ("cached_tokens", "cache_creation_tokens"))
    fresh = max(0, _count(usage, "input_tokens") - read - written)
    total = (
        fresh * price.input
        + read * (price.input if price.cached is None else price.cached)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + _count(usage, "output_tokens") * price.output
    )
    return round(total / MILLION, 12)  # a millionth of a cent is nothing, and floats show it


def _count(counts: Mapping[str, Any], name: str) -> int:
    given = counts.get(name)
    return given if isinstance(given, int) and given > 0 else 0
