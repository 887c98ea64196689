"""A streamed answer of the Responses API, put together from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.llm.other_fields import add_earlier, find_earlier
from checkrail.llm.responses.item_draft import ItemDraft
from checkrail.llm.responses.response import OF_ANSWER
from checkrail.llm.responses.tool_calls import Item, find_call_type
from checkrail.llm.wire_format import Kind, UnreadableError

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


OF_EVENTS = PLACES | {"response", "item", "part", "delta", "text", "refusal", "logprobs", "name"}
OF_EVENTS |= {"arguments", "input", "obfuscation", "error", "code", "message", "param"}
"""Fields of events that are known."""


def is_known(name: str) -> bool:
    """Return whether an event is one of those that an answer is put together from."""
    known = name in ENDS or name in BEGINNINGS or name.startswith("response.output_item.")
    return known or name.rpartition(".")[0] in (PARTS.keys() | GROWING.keys())


class ResponseDraft:
    """What has come of a stream so far. Its items are in the order in which they came."""

    def __init__(self) -> None:
        self.entries: list[ItemDraft] = []
        self.response: Mapping[str, Any] = {}
        self.end: Event | None = None
        self.number = -1
        self.unknown: list[Event] = []
        self.earlier: dict[str, Any] = {}
        self._by_index: dict[int, ItemDraft] = {}

    def add(self, event: Event) -> Kind:
        """Add an event, and return what it is about. Raises `UnreadableError`."""
        number = event.get("sequence_number")
        self.number = number if isinstance(number, int) else self.number + 1
        name = str(event.get("type"))
        if self.end is not None:
            raise UnreadableError("the stream goes on after its end")
        if is_known(name) and (beside := event.keys() - OF_EVENTS):
            self.unknown.append({key: event[key] for key in beside})
        if name in ENDS or name in BEGINNINGS:
            return self._add_response(name, event)
        if name.startswith("response.output_item."):
            return self._add_item_event(name, event)
        entry = self._find_item(event, name)
        stem = name.rpartition(".")[0]
        if stem not in PARTS and stem not in GROWING and event.keys() - PLACES:
            self.unknown.append(event)
        if entry is None:
            return "text" if event.keys() - MUTE else "quiet"
        self._add_within(entry, name, event)
        return "tool" if entry.is_call else "text"

    def _add_response(self, name: str, event: Event) -> Kind:
        response = event.get("response")
        if isinstance(response, Mapping):
            add_earlier(self.earlier, find_earlier(self.response, response, OF_ANSWER))
            self.response = response
        items = [*iter_items(self.response)]
        if name in ENDS:
            self.end = event
        for place, item in enumerate(items):
            self._add_whole_item(place, item)
        if name == "error" or (name == "response.failed" and not self.entries):
            return "error"
        if name in ENDS:
            return "end"
        if any(find_call_type(item) is not None for item in items):
            return "tool"
        return "text" if items else "quiet"

    def _add_whole_item(self, place: int, item: Item) -> None:
        """Add an item that comes with the whole answer, mostly for the second time."""
        known = self._find_known(place, item)
        if known is None:
            self._open_item(place, item).done = True
        else:
            known.finish(item)

    def _find_known(self, place: int, item: Item) -> ItemDraft | None:
        names = (("call_id", item.get("call_id")), ("id", item.get("id")))
        for name, value in names:
            for entry in self.entries:
                if value and entry.about.get(name) == value:
                    return entry
        at_place = self._by_index.get(place)
        alike = at_place is not None and at_place.about.get("type") == item.get("type")
        return at_place if alike else None

    def _add_item_event(self, name: str, event: Event) -> Kind:
        item, index = event.get("item"), event.get("output_index")
        if not isinstance(item, Mapping) or not isinstance(index, int):
            raise UnreadableError("an event of the stream has no item, or no output_index")
        entry = self._by_index.get(index)
        if name.endswith(".done"):
            (entry or self._open_item(index, item)).finish(item)
        elif entry is None or entry.done or not _same_item(entry.about, item):
            self._open_item(index, item)
        return "text" if find_call_type(item) is None else "tool"

    def _open_item(self, index: int, item: Item) -> ItemDraft:
        entry = self._by_index[index] = ItemDraft(index, item)
        self.entries.append(entry)
        return entry

    def _find_item(self, event: Event, name: str) -> ItemDraft | None:
        """Return the item that an event is about; a text may come without one."""
        index = event.get("output_index")
        entry = self._by_index.get(index) if isinstance(index, int) else None
        if entry is None and name.rpartition(".")[0] in GROWING:
            if not isinstance(index, int) or "arguments" in name or "input" in name:
                raise UnreadableError("an event of the stream belongs to no item")
            about = {"id": event.get("item_id"), "type": "message", "role": "assistant"}
            return self._open_item(index, {**about, "content": []})
        return entry

    def _add_within(self, entry: ItemDraft, name: str, event: Event) -> None:
        stem, _, ending = name.rpartition(".")
        if stem in PARTS:
            field, by = PARTS[stem]
            spot = (field, _valid_index(event.get(by)))
            if ending == "added":
                entry.add_part(spot, event.get("part"))
            else:
                entry.close(spot, event.get("part"))
        elif stem in GROWING:
            field, own, type_ = GROWING[stem]
            by = "summary_index" if field == "summary" else "content_index"
            spot = (field, _valid_index(event.get(by)))
            if ending == "delta":
                entry.add_text(spot, own, type_, _require_text(event.get("delta")))
            elif ending == "done":
                entry.check_text(spot, own, type_, event.get(own))


def iter_items(response: Mapping[str, Any]) -> Iterator[Item]:
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


def _valid_index(index: Any) -> int:
    return index if isinstance(index, int) and 0 <= index < 10_000 else 0


def _require_text(delta: Any) -> str:
    if isinstance(delta, str):
        return delta
    raise UnreadableError("a piece of a text in the stream should be a text")
