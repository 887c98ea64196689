"""A streamed answer of the Responses API, put together from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.gateway.formats.base import Kind, UnreadableError
from checkrail.gateway.formats.responses_calls import Item, calling_of
from checkrail.gateway.formats.responses_entry import Entry

Event = Mapping[str, Any]

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})
MUTE = frozenset({"type", "sequence_number"})
PLACES = MUTE | {"item_id", "output_index", "content_index", "summary_index"}
"""Fields of events that tell nothing of the answer."""

GROWING = {
    "response.output_text": ("content", "text", "output_text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "text", "reasoning_text"),
    "response.reasoning_summary_text": ("summary", "text", "summary_text"),
    "response.function_call_arguments": ("arguments", "arguments", ""),
    "response.custom_tool_call_input": ("input", "input", ""),
}
"""What grows by events: the field of the item, the field of a part in it, and the type of that."""

PARTS = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}


class Draft:
    """What a stream has told up to now. Its items are in the order in which they came."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.response: Mapping[str, Any] = {}
        self.end: Event | None = None
        self.number = -1
        self.unknown: list[Event] = []
        self._by_index: dict[int, Entry] = {}

    def add(self, event: Event) -> Kind:
        """Take an event, and say what it is about. Raises `UnreadableError`."""
        number = event.get("sequence_number")
        self.number = number if isinstance(number, int) else self.number + 1
        name = str(event.get("type"))
        if self.end is not None:
            raise UnreadableError("the stream goes on after its end")
        if name in ENDS or name in BEGINNINGS:
            return self._whole(name, event)
        if name.startswith("response.output_item."):
            return self._item(name, event)
        entry = self._entry(event, name)
        stem = name.rpartition(".")[0]
        if stem not in PARTS and stem not in GROWING and event.keys() - PLACES:
            self.unknown.append(event)
        if entry is None:
            return "text" if event.keys() - MUTE else "quiet"
        self._within(entry, name, event)
        return "tool" if entry.is_call else "text"

    def _whole(self, name: str, event: Event) -> Kind:
        response = event.get("response")
        if isinstance(response, Mapping):
            self.response = response
        items = [*items_in(self.response)]
        if name in ENDS:
            self.end = event
        for place, item in enumerate(items):
            self._tell(place, item)
        if name == "error" or (name == "response.failed" and not self.entries):
            return "error"
        if name in ENDS:
            return "end"
        if any(calling_of(item) is not None for item in items):
            return "tool"
        return "text" if items else "quiet"

    def _tell(self, place: int, item: Item) -> None:
        """Take an item that is told with the whole answer, mostly for the second time."""
        known = self._known(place, item)
        if known is None:
            self._open(place, item).done = True
        else:
            known.finish(item)

    def _known(self, place: int, item: Item) -> Entry | None:
        names = (("call_id", item.get("call_id")), ("id", item.get("id")))
        for name, value in names:
            for entry in self.entries:
                if value and entry.about.get(name) == value:
                    return entry
        at_place = self._by_index.get(place)
        alike = at_place is not None and at_place.about.get("type") == item.get("type")
        return at_place if alike else None

    def _item(self, name: str, event: Event) -> Kind:
        item, index = event.get("item"), event.get("output_index")
        if not isinstance(item, Mapping) or not isinstance(index, int):
            raise UnreadableError("an event of the stream has no item, or no output_index")
        entry = self._by_index.get(index)
        if name.endswith(".done"):
            (entry or self._open(index, item)).finish(item)
        elif entry is None or entry.done or not _same_item(entry.about, item):
            self._open(index, item)
        return "text" if calling_of(item) is None else "tool"

    def _open(self, index: int, item: Item) -> Entry:
        entry = self._by_index[index] = Entry(index, item)
        self.entries.append(entry)
        return entry

    def _entry(self, event: Event, name: str) -> Entry | None:
        """Find the item that an event is about; a text may come without one."""
        index = event.get("output_index")
        entry = self._by_index.get(index) if isinstance(index, int) else None
        if entry is None and name.rpartition(".")[0] in GROWING:
            if not isinstance(index, int) or "arguments" in name or "input" in name:
                raise UnreadableError("an event of the stream belongs to no item")
            about = {"id": event.get("item_id"), "type": "message", "role": "assistant"}
            return self._open(index, {**about, "content": []})
        return entry

    def _within(self, entry: Entry, name: str, event: Event) -> None:
        stem, _, ending = name.rpartition(".")
        if stem in PARTS:
            field, by = PARTS[stem]
            spot = (field, _place(event.get(by)))
            if ending == "added":
                entry.part(spot, event.get("part"))
            else:
                entry.closed.add(spot)
        elif stem in GROWING:
            field, own, type_ = GROWING[stem]
            by = "summary_index" if field == "summary" else "content_index"
            spot = (field, _place(event.get(by)))
            if ending == "delta":
                entry.grow(spot, own, type_, _text(event.get("delta")))
            elif ending == "done":
                entry.told(spot, own, type_, event.get(own))


def items_in(response: Mapping[str, Any]) -> Iterator[Item]:
    """Yield the items of an answer. Raises `UnreadableError`."""
    output = response.get("output") or ()
    if not isinstance(output, list | tuple):
        raise UnreadableError("`output` of the answer should be a list")
    for item in output:
        if not isinstance(item, Mapping):
            raise UnreadableError("an item of the answer should be an object")
        yield item


def _same_item(known: Item, item: Item) -> bool:
    return all(known.get(name) == item.get(name) for name in ("id", "type", "call_id", "name"))


def _place(index: Any) -> int:
    return index if isinstance(index, int) and 0 <= index < 10_000 else 0


def _text(delta: Any) -> str:
    if isinstance(delta, str):
        return delta
    raise UnreadableError("a piece of a text in the stream should be a text")
