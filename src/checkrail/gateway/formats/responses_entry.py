"""One item of a streamed answer of the Responses API, put together from its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from checkrail.agent.models.arguments import json_object
from checkrail.gateway.formats.base import UnreadableError
from checkrail.gateway.formats.growing import whole_letters
from checkrail.gateway.formats.json_bytes import names_twice
from checkrail.gateway.formats.responses_calls import Item, arguments_text, calling_of, tool_of

Spot = tuple[str, int]

ARGUMENTS = "the arguments of a tool call"
PARTS = ("summary", "content")
"""Where an item keeps its parts."""


@dataclass(slots=True)
class Text:
    """A text that comes in pieces: which field of what type of part it is, and how it began."""

    field: str
    type: str
    start: str
    pieces: list[str]

    @property
    def whole(self) -> str:
        """All of it."""
        return whole_letters(self.start + "".join(self.pieces))


class Entry:
    """An item on its way: `about` is how it was told last, without what has grown since.

    `ready` are its texts that have come to their end, and `closed` its parts.
    """

    __slots__ = ("_grown", "about", "closed", "done", "index", "ready")

    def __init__(self, index: int, item: Item) -> None:
        self.index = index
        self.done = False
        self.about: dict[str, Any] = dict(item)
        self.ready: set[Spot] = set()
        self.closed: set[Spot] = set()
        self._grown: dict[Spot, Text] = {}

    @property
    def item(self) -> dict[str, Any]:
        """The item, with what has come of it."""
        item = dict(self.about)
        for (field, place), text in sorted(self._grown.items(), key=itemgetter(0)):
            if not text.type:
                item[field] = text.whole
                continue
            parts = [*(item.get(field) or ())]
            more: dict[str, Any] = {"annotations": []} if text.type == "output_text" else {}
            empty = {"type": text.type, **more, text.field: ""}
            parts += [empty] * (place + 1 - len(parts))
            parts[place] = {**empty, **parts[place], text.field: text.whole}
            item[field] = parts
        return item

    @property
    def is_call(self) -> bool:
        """Whether the caller is to run something."""
        return calling_of(self.about) is not None

    def grow(self, spot: Spot, field: str, type_: str, piece: str) -> None:
        """Add a piece of a text."""
        if spot not in self._grown:
            self._grown[spot] = Text(field, type_, self._begun(spot, field, type_), [])
        self._grown[spot].pieces.append(piece)

    def _begun(self, spot: Spot, field: str, type_: str) -> str:
        found = self.about.get(spot[0])
        if type_:
            part = found[spot[1]] if isinstance(found, list) and spot[1] < len(found) else {}
            found = part.get(field)
        return found if isinstance(found, str) else ""

    def told(self, spot: Spot, field: str, type_: str, text: Any) -> None:
        """Take a text that came in pieces as a whole: it has to be the same."""
        self.ready.add(spot)
        if not isinstance(text, str):
            return
        grown = self._grown.get(spot)
        if grown is not None and whole_letters("".join(grown.pieces)) != text:
            _agree(grown.whole, text, "a text" if type_ else ARGUMENTS)
        self._grown[spot] = Text(field, type_, "", [text])

    def part(self, spot: Spot, part: Any) -> None:
        """Take a part of the item that begins."""
        parts = [*(self.about.get(spot[0]) or ())]
        parts += [{}] * (spot[1] + 1 - len(parts))
        parts[spot[1]] = dict(part) if isinstance(part, Mapping) else {}
        self.about[spot[0]] = parts

    def finish(self, item: Item) -> None:
        """Take the whole item: what came of it in pieces has to be the same."""
        told = dict(item)
        if self._grown or self.done:
            came = self.item
            if item.get("type") == "reasoning" and not _texts(item):
                told |= {name: came[name] for name in PARTS if came.get(name)}
            _check_same(came, told)
        self.about, self._grown = told, {}
        self.done = True


def _check_same(streamed: Item, told: Item) -> None:
    """Refuse a stream that says one thing in pieces and another as a whole.

    Rules hold for what was read: a caller who reads the other of the two would get around them.
    """
    calling = calling_of(told)
    if calling is None:
        before, now = _texts(streamed), _texts(told)
        if before:
            _agree(before, now, "a text")
        return
    _agree(tool_of(streamed, calling), tool_of(told, calling), "the name of a tool")
    before, now = (arguments_text(item, calling) for item in (streamed, told))
    if before != "{}":
        _agree(before, now, ARGUMENTS)


def _texts(item: Item) -> str:
    lists = [item.get(name) for name in PARTS]
    parts = [part for found in lists if isinstance(found, list) for part in found]
    texts = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def _agree(first: str, second: str, what: str) -> None:
    """Refuse two texts that should be one. Raises `UnreadableError`."""
    one, other = (whole_letters(text).strip() for text in (first, second))
    if one == other or (what == ARGUMENTS and _same_json(one, other)):
        return
    raise UnreadableError(f"the stream tells {what} in two ways that differ")


def _same_json(first: str, second: str) -> bool:
    if names_twice(first) or names_twice(second):
        return False
    try:
        return json_object(first) == json_object(second)
    except ValueError:
        return False
