"""What lists say of a run: what was asked for in a line, its tokens, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from checkrail.gateway.costs import find_price, token_cost
from checkrail.llm.usage import total_tokens
from checkrail.runs import jsons
from checkrail.store.runs import Run

if TYPE_CHECKING:
    from checkrail.config.gateway import PriceConfig

SUMMARY = 240  # characters
_ERROR = 240


def summarize_input(given: Any, command: Any = None) -> str | None:
    """Return in a line what was asked for: the last message, the only text, or the JSON."""
    found = _find_text(given if given is not None else command)
    if found is None:
        return None
    line = " ".join(found[: 4 * SUMMARY].split())
    return line if len(line) <= SUMMARY else f"{line[: SUMMARY - 1]}…"


def _find_text(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        messages = given.get("messages")
        if isinstance(messages, list) and messages and (said := _message_text(messages[-1])):
            return said
        values = [*given.values()]
        if len(values) == 1 and isinstance(values[0], str):
            return values[0]
    return jsons.dumps(given).decode(errors="replace")


def _message_text(message: Any) -> str | None:
    """Return the text of a message in one of the forms that clients send."""
    if isinstance(message, (list, tuple)) and len(message) == 2:
        message = {"content": message[1]}
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return " ".join(text for text in texts if isinstance(text, str)) or None
    return content if isinstance(content, str) else None


def summary_columns(row: Run, given: Any, error: str | None = None) -> dict[str, Any]:
    """Return what lists say of a run that was given something, and what it is found by."""
    told: dict[str, Any] = {"summary": summarize_input(given, row.kwargs.get("command"))}
    return told | {"search_text": search_text(replace(row, **told), error)}


def search_text(row: Run, error: str | None = None) -> str:
    """Return what a run is found by: its id, its summary, and why it went wrong."""
    words = [row.run_id, row.summary or "", (error or "")[:_ERROR]]
    return " ".join(filter(None, words)).casefold()


def sum_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Return the tokens of all models together; None: no model has told any."""
    found = [total_tokens(used) for used in (usage or {}).values() if isinstance(used, Mapping)]
    known = [total for total in found if total is not None]
    return sum(known) if known else None


def sum_costs(usage: Mapping[str, Any] | None, prices: Sequence[PriceConfig]) -> float | None:
    """Return what the tokens of all models cost in USD; None: none of them has a price."""
    if not prices or not usage:
        return None
    costs = [
        token_cost(_with_cache_counts(used), price)
        for model, used in usage.items()
        if isinstance(used, Mapping) and (price := find_price(model, prices)) is not None
    ]
    return round(sum(costs), 12) if costs else None


def _with_cache_counts(used: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return usage in LangChain's form with the counts of the cache as prices name them."""
    details = used.get("input_token_details")
    if not isinstance(details, Mapping):
        return used
    read, written = details.get("cache_read"), details.get("cache_creation")
    counts = {"cached_tokens": read, "cache_creation_tokens": written}
    return {**used, "input_tokens_details": counts}
