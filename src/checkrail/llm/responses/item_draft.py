"""One item of a streamed answer of the Responses API, put together from its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from checkrail.llm.json_bytes import has_duplicate_names
from checkrail.llm.responses.tool_calls import (
    Item,
    find_call_type,
    read_arguments_text,
    tool_name,
)
from checkrail.llm.stream_reader import join_surrogates
from checkrail.llm.tool_arguments import json_object
from checkrail.llm.wire_format import UnreadableError

Spot = tuple[str, int]

ARGUMENTS = "the arguments of a tool call"
PARTS = ("summary", "content")
"""Where an item keeps its parts."""


@dataclass(slots=True)
class TextDraft:
    """A text that comes in pieces: which field of what type of part it is, and how it began."""

    field: str
    type: str
    start: str
    pieces: list[str]

    @property
    def full_text(self) -> str:
        """The whole text."""
        return join_surrogates(self.start + "".join(self.pieces))


class ItemDraft:
    """An item on its way: `about` is its latest version, without what has grown since.

    `ready` are its texts that have come to their end, and `closed` its parts.
    """

    __slots__ = ("_grown", "about", "closed", "done", "index", "ready")

    def __init__(self, index: int, item: Item) -> None:
        self.index = index
        self.done = False
        self.about: dict[str, Any] = dict(item)
        self.ready: set[Spot] = set()
        self.closed: set[Spot] = set()
        self._grown: dict[Spot, TextDraft] = {}

    @property
    def item(self) -> dict[str, Any]:
        """The item, with what has come of it."""
        item = dict(self.about)
        for (field, place), text in sorted(self._grown.items(), key=itemgetter(0)):
            if not text.type:
                item[field] = text.full_text
                continue
            parts = [*(item.get(field) or ())]
            more: dict[str, Any] = {"annotations": []} if text.type == "output_text" else {}
            empty = {"type": text.type, **more, text.field: ""}
            parts += [empty] * (place + 1 - len(parts))
            parts[place] = {**empty, **parts[place], text.field: text.full_text}
            item[field] = parts
        return item

    @property
    def is_call(self) -> bool:
        """Whether the caller is to run something."""
        return find_call_type(self.about) is not None

    def add_text(self, spot: Spot, field: str, type_: str, piece: str) -> None:
        """Add a piece of a text."""
        if spot not in self._grown:
            self._grown[spot] = TextDraft(field, type_, self._initial_text(spot, field, type_), [])
        self._grown[spot].pieces.append(piece)

    def _initial_text(self, spot: Spot, field: str, type_: str) -> str:
        found = self.about.get(spot[0])
        if type_:
            part = found[spot[1]] if isinstance(found, list) and spot[1] < len(found) else {}
            found = part.get(field)
        return found if isinstance(found, str) else ""

    def check_text(self, spot: Spot, field: str, type_: str, text: Any) -> None:
        """Store the whole of a text that came in pieces: it has to be the same."""
        self.ready.add(spot)
        if not isinstance(text, str):
            return
        grown = self._grown.get(spot)
        repeated = grown is not None and join_surrogates("".join(grown.pieces)) == text
        if grown is not None and not (repeated and text.startswith(grown.start)):
            _check_equal(grown.full_text, text, "a text" if type_ else ARGUMENTS)
        self._grown[spot] = TextDraft(field, type_, "", [text])

    def add_part(self, spot: Spot, part: Any) -> None:
        """Add a part of the item that begins."""
        parts = [*(self.about.get(spot[0]) or ())]
        parts += [{}] * (spot[1] + 1 - len(parts))
        parts[spot[1]] = dict(part) if isinstance(part, Mapping) else {}
        self.about[spot[0]] = parts

    def close(self, spot: Spot, part: Any) -> None:
        """Take a part of the item that ends: what came of it in pieces has to be the same."""
        self.closed.add(spot)
        if not isinstance(part, Mapping):
            return
        field, place = spot
        came = [*(self.item.get(field) or ())][place : place + 1]
        before, now = _join_texts({field: came}), _join_texts({field: [part]})
        if not before:
            self._grown.pop(spot, None)
            self.add_part(spot, part)
        elif now:
            _check_equal(before, now, "a text")

    def finish(self, item: Item) -> None:
        """Store the whole item: what came of it in pieces has to be the same."""
        told = dict(item)
        if self._grown or self.done:
            came = self.item
            if item.get("type") == "reasoning" and not _join_texts(item):
                told |= {name: came[name] for name in PARTS if came.get(name)}
            _check_agreement(came, told)
        self.about, self._grown = told, {}
        self.done = True


def _check_agreement(streamed: Item, told: Item) -> None:
    """Refuse a stream whose pieces and whole differ.

    Rules hold for what was read: a caller who reads the other of the two would get around them.
    """
    calling = find_call_type(told)
    if calling is None:
        before, now = _join_texts(streamed), _join_texts(told)
        if before:
            _check_equal(before, now, "a text")
        return
    _check_equal(tool_name(streamed, calling), tool_name(told, calling), "the name of a tool")
    before, now = (read_arguments_text(item, calling) for item in (streamed, told))
    if before != "{}":
        _check_equal(before, now, ARGUMENTS)


def _join_texts(item: Item) -> str:
    lists = [item.get(name) for name in PARTS]
    parts = [part for found in lists if isinstance(found, list) for part in found]
    texts = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def _check_equal(first: str, second: str, what: str) -> None:
    """Refuse two texts that should be one. Raises `UnreadableError`."""
    one, other = (join_surrogates(text).strip() for text in (first, second))
    if one == other or (what == ARGUMENTS and _same_json(one, other)):
        return
    raise UnreadableError(f"the stream tells {what} in two ways that differ")


def _same_json(first: str, second: str) -> bool:
    if has_duplicate_names(first) or has_duplicate_names(second):
        return False
    try:
        return json_object(first) == json_object(second)
    except ValueError:
        return False
