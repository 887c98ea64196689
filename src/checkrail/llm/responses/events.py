"""Events of a stream of the Responses API, written and numbered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.engine.values import plain
from checkrail.llm.json_bytes import write_json
from checkrail.llm.responses.item_draft import ItemDraft
from checkrail.llm.responses.tool_calls import Item
from checkrail.llm.sse import write_event

TEXTS = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
    "summary_text": ("response.reasoning_summary_text", "text"),
}
"""By which events the text of a part comes, and in which of its fields it stands."""

CALLS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}

PARTS = {
    "content": ("response.content_part", "content_index"),
    "summary": ("response.reasoning_summary_part", "summary_index"),
}


class EventWriter:
    """Writes events that are numbered consecutively."""

    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, type: str, **fields: Any) -> bytes:
        """Write one event."""
        data = {"type": type, "sequence_number": self._number, **fields}
        self._number += 1
        return write_event(write_json(plain(data)), type)

    def write_item(self, index: int, item: Item, had: ItemDraft | None = None) -> Iterator[bytes]:
        """Write an item for a caller who has some of it, or nothing."""
        if had is not None and had.done:
            return
        begun: Mapping[str, Any] = had.item if had is not None else _initial_item(item)
        if had is None:
            yield self.write("response.output_item.added", output_index=index, item=begun)
        about = {"item_id": item.get("id"), "output_index": index}
        for field in PARTS:
            parts, known = item.get(field) or (), begun.get(field) or ()
            for place, part in enumerate(parts if isinstance(parts, list) else ()):
                if had is None or (field, place) not in had.closed:
                    ready = had is not None and (field, place) in had.ready
                    was = known[place] if place < len(known) else None
                    yield from self._write_part(about, field, place, (part, was), ready=ready)
        if item.get("type") in CALLS:
            name, field = CALLS[item["type"]]
            if had is None or (field, 0) not in had.ready:
                yield from self._write_text(about, name, field, (item, begun))
        yield self.write("response.output_item.done", output_index=index, item=item)

    def _write_part(
        self,
        about: Mapping[str, Any],
        field: str,
        place: int,
        parts: tuple[Mapping[str, Any], Mapping[str, Any] | None],
        *,
        ready: bool,
    ) -> Iterator[bytes]:
        """Write a part as it is to be, of which the caller has the second, or nothing."""
        part, was = parts
        name, by = PARTS[field]
        where = {**about, by: place}
        text, own = TEXTS.get(str(part.get("type")), ("", ""))
        if was is None:
            was = {**part, own: ""} if own else part
            yield self.write(f"{name}.added", **where, part=was)
        if own and not ready:
            yield from self._write_text(where, text, own, (part, was))
        yield self.write(f"{name}.done", **where, part=part)

    def _write_text(
        self,
        where: Mapping[str, Any],
        name: str,
        field: str,
        owners: tuple[Mapping[str, Any], Mapping[str, Any]],
    ) -> Iterator[bytes]:
        """Write what is missing of a text, and its end."""
        whole, begun = (str(owner.get(field) or "") for owner in owners)
        more = whole.removeprefix(begun) if whole.startswith(begun) else ""
        odds: dict[str, Any] = {"logprobs": []} if name == "response.output_text" else {}
        if more:
            yield self.write(f"{name}.delta", **where, delta=more, **odds)
        yield self.write(f"{name}.done", **where, **{field: whole}, **odds)


def _initial_item(item: Item) -> Mapping[str, Any]:
    """Return an item as it is announced before any of its content."""
    begun = dict(item)
    if "status" in item:
        begun["status"] = "in_progress"
    for field in PARTS:
        if isinstance(item.get(field), list):
            begun[field] = []
    if item.get("type") in CALLS:
        begun[CALLS[item["type"]][1]] = ""
    return begun
