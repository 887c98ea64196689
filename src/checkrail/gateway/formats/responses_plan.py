"""How other words are put into an answer of the Responses API, with as little changed as can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.gateway.formats.aligning import aligned

Spot = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Said:
    """Something that an answer says: the place of its item, its index there, and how hooks see it.

    An item that is no message says one thing, itself, and has no index. `plain` is a mere text.
    """

    place: int
    index: int | None
    part: Mapping[str, Any]
    plain: bool

    @property
    def text(self) -> str:
        """Its text, or an empty one."""
        name = {"text": "text", "refusal": "refusal"}.get(str(self.part.get("type")), "")
        return str(self.part.get(name) or "")


@dataclass(slots=True)
class Plan:
    """What is to be said otherwise (None is left out), and what is to be said besides."""

    otherwise: dict[Spot, Any] = field(default_factory=dict)
    _within: dict[Spot, list[Any]] = field(default_factory=dict)
    _before: dict[int, list[Any]] = field(default_factory=dict)

    def touches(self, place: int) -> bool:
        """Return whether anything in the item at this place changes."""
        return any(spot[0] == place for spot in (*self.otherwise, *self._within))

    def instead(self, place: int, index: int | None, part: Any = None) -> Any:
        """Return what is said there now."""
        return self.otherwise.get((place, index), part)

    def within(self, place: int, index: int) -> list[Any]:
        """Return what is added behind a part, in the same message."""
        return self._within.get((place, index), [])

    def before(self, place: int) -> list[Any]:
        """Return what is added ahead of the item at this place."""
        return self._before.get(place, [])

    def add(
        self, part: Any, behind: Said | None, ahead: Said | None, gone: Sequence[int], had: int
    ) -> None:
        """Say something besides: in the place of a call that is left out, if one was there."""
        place = -1 if behind is None else behind.place
        if behind is not None and ahead is not None and ahead.place == place:
            self._within.setdefault((place, behind.index), []).append(part)
            return
        free = (one for one in gone if one > place and (ahead is None or one < ahead.place))
        self._before.setdefault(max(next(free, place + 1), had), []).append(part)


def new_plan(said: Sequence[Said], content: Any, gone: Sequence[int], had: int) -> Plan:
    """Find how an answer that says this comes to say `content`.

    `gone` are the places of calls that are left out; nothing is put ahead of the place `had`.
    """
    wanted = _split(content, said) if isinstance(content, str) else [*content]
    origins = aligned([one.part for one in said], wanted, _alike)
    plan = Plan()
    kept = {origin for origin in origins if origin is not None}
    for one in (one for place, one in enumerate(said) if place not in kept):
        plan.otherwise[one.place, one.index] = None
    behind: Said | None = None
    for place, (part, origin) in enumerate(zip(wanted, origins, strict=True)):
        if origin is None:
            later = (said[one] for one in origins[place:] if one is not None)
            plan.add(part, behind, next(later, None), gone, had)
            continue
        behind = said[origin]
        if behind.part != part:
            plan.otherwise[behind.place, behind.index] = part
    return plan


def _alike(was: Mapping[str, Any], part: Any) -> bool:
    if isinstance(part, str):
        return was.get("type") == "text"
    return (was.get("type"), was.get("id")) == (part.get("type"), part.get("id"))


def _split(text: str, said: Sequence[Said]) -> list[Any]:
    """Tell a text in the parts in which it was told before, as long as they begin it."""
    parts: list[Any] = []
    for one in said:
        if not one.text or not text:
            continue
        if text.startswith(one.text):
            parts.append(one.part if one.plain else {"type": "text", "text": one.text})
            text = text[len(one.text) :]
            continue
        refusal = one.plain and one.part.get("type") == "refusal"
        name = "refusal" if refusal else "text"
        return [*parts, {"type": name, name: text}]
    return [*parts, {"type": "text", "text": text}] if text else parts
