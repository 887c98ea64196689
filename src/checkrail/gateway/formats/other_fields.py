"""Fields of an answer that its API does not know: hooks see them as `other_fields` of its metadata.

Providers put texts there, such as sources or what they made of a prompt: what hooks change or
leave out there is what the caller gets.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Body

OTHER_FIELDS = "other_fields"

UNKNOWN = "unknown_events"
"""Under which of these names hooks see events of a stream that its API does not know."""


def find_others(body: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the fields that are not known and have any text in them, as a part of metadata."""
    found = {name: item for name, item in body.items() if name not in known and _has_text(item)}
    return {OTHER_FIELDS: found} if found else {}


def others_of(message: AssistantMessage) -> Mapping[str, Any]:
    """Return the fields of an answer that its API does not know."""
    found = message.metadata.get(OTHER_FIELDS)
    return found if isinstance(found, Mapping) else {}


def with_others(body: Mapping[str, Any], before: AssistantMessage, after: AssistantMessage) -> Body:
    """Return an object of an answer, or a part of it, with its other fields as hooks left them."""
    was, now = others_of(before), others_of(after)
    written = dict(body)
    for name in was:
        if name not in written or now.get(name) == was[name]:
            continue
        if name in now:
            written[name] = thaw(now[name])
        else:
            del written[name]
    return written


def _has_text(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(map(_has_text, item.values()))
    if isinstance(item, list | tuple):
        return any(map(_has_text, item))
    return isinstance(item, str) and bool(item)
