"""Fields of an answer that its API does not know: hooks see them as `other_fields` of its metadata.

Providers put texts there, such as sources or what they made of a prompt: what hooks change or
leave out there is what the caller gets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage
from checkrail.llm.wire_format import Body

OTHER_FIELDS = "other_fields"

NUMBERS = frozenset({"avgLogprobs", "completed_at", "created", "created_at", "index", "tokenCount"})
"""Known fields that are numbers: a text in one is as unknown as any."""

CALL_FIELDS = "call_fields"
"""Where hooks see such fields of tool calls, by the ids of these."""

ITEM_FIELDS = "item_fields"
"""Where hooks see such fields of messages within an answer, by their places in it."""

EARLIER = "earlier_"
"""What stands before the name of a field for the values that a stream told before its last."""

UNKNOWN = "unknown_events"
"""Under which of these names hooks see events of a stream that its API does not know."""


def find_other_fields(body: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the fields that are not known and have any text in them, as a part of metadata."""
    found = {
        name: item
        for name, item in body.items()
        if (name not in known or name in NUMBERS) and (is_text_key(name) or _has_text(item))
    }
    return {OTHER_FIELDS: found} if found else {}


def is_text_key(name: str) -> bool:
    """Return whether a key may be a text, and not only the name of a field."""
    return not name.isidentifier()


def read_other_fields(message: AssistantMessage) -> Mapping[str, Any]:
    """Return the fields of an answer that its API does not know."""
    found = message.metadata.get(OTHER_FIELDS)
    return found if isinstance(found, Mapping) else {}


def write_other_fields(
    body: Mapping[str, Any], before: AssistantMessage, after: AssistantMessage
) -> Body:
    """Return an object of an answer, or a part of it, with its other fields as hooks left them."""
    return rewrite_fields(body, read_other_fields(before), read_other_fields(after))


def with_call_fields(
    message: AssistantMessage, found: Iterable[Mapping[str, Any]]
) -> AssistantMessage:
    """Return an answer with those fields of its tool calls that have any text in them."""
    pairs = zip(message.tool_calls, found, strict=True)
    fields = {call.id: given for call, given in pairs if _has_text(given)}
    if not fields:
        return message
    return dataclasses.replace(message, metadata={**message.metadata, CALL_FIELDS: fields})


def call_fields_of(message: AssistantMessage, id: str) -> Mapping[str, Any]:
    """Return the fields of a tool call that its API does not know."""
    return _fields_at(message.metadata.get(CALL_FIELDS), id)


def find_item_fields(
    items: Iterable[Mapping[str, Any]], known: Container[str]
) -> dict[str, dict[str, Any]]:
    """Return those fields of messages that have any text in them, as a part of metadata."""
    found = {
        str(place): others[OTHER_FIELDS]
        for place, item in enumerate(items)
        if item.get("type") == "message" and (others := find_other_fields(item, known))
    }
    return {ITEM_FIELDS: found} if found else {}


def item_fields_of(message: AssistantMessage, place: int) -> Mapping[str, Any]:
    """Return the fields of a message within an answer that its API does not know."""
    return _fields_at(message.metadata.get(ITEM_FIELDS), str(place))


def _fields_at(found: Any, key: str) -> Mapping[str, Any]:
    fields = found.get(key) if isinstance(found, Mapping) else None
    return fields if isinstance(fields, Mapping) else {}


def rewrite_fields(body: Mapping[str, Any], was: Mapping[str, Any], now: Mapping[str, Any]) -> Body:
    """Return an object with those of its fields that hooks changed or left out as they are now."""
    written = dict(body)
    for name in was:
        if now.get(name) == was[name]:
            continue
        if name not in written:  # nobody knows which of the earlier ones this is
            written.pop(name.removeprefix(EARLIER), None)
        elif name in now:
            written[name] = thaw(now[name])
        else:
            del written[name]
    return written


def find_earlier(
    body: Mapping[str, Any], later: Mapping[str, Any], known: Container[str]
) -> dict[str, Any]:
    """Return the fields that are not known and that later ones leave out or replace."""
    return {
        name: value
        for name, value in body.items()
        if name not in known and not name.startswith(EARLIER) and later.get(name) != value
    }


def add_earlier(body: Body, found: Mapping[str, Any]) -> None:
    """Keep earlier values of fields, so that hooks see all that was told."""
    for name, value in found.items():
        body[f"{EARLIER}{name}"] = [*body.get(f"{EARLIER}{name}", ()), value]


def _has_text(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(is_text_key(key) or _has_text(within) for key, within in item.items())
    if isinstance(item, list | tuple):
        return any(map(_has_text, item))
    return isinstance(item, str) and bool(item)
