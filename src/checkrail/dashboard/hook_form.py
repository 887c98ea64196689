"""The hooks of a blueprint as a form; what the form does not know is kept as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from checkrail.dashboard.forms import parse_json
from checkrail.engine.points import CONTRACTS, Decision, HookPoint

TYPES = {
    "rule": "Rule",
    "approval": "Approval by a person",
    "agent": "Another agent",
    "http": "Web service",
    "builtin": "Built-in",
    "$ref": "Named hook",
    "other": "Something else (JSON)",
}
"""The types of hooks that the form knows."""

_SESSION = (
    HookPoint.ON_SESSION_START,
    HookPoint.ON_SESSION_END,
    HookPoint.BEFORE_INBOUND,
    HookPoint.BEFORE_OUTBOUND,
)

RULES = ("block", "ask", "fail", "retry")
MODES = ("enforce", "shadow", "off")
_COMMON = ("name", "type", "when", "timeout", "on_error", "mode", "priority", "tools")
_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "rule": (*RULES, "status"),
    "approval": ("question", "on_deny", "on_timeout"),
    "agent": ("agent_name",),
    "http": ("url", "method"),
    "builtin": ("builtin",),
    "$ref": ("$ref",),
    "other": (),
}


@dataclass(frozen=True, slots=True)
class HookCard:
    """A hook as it stands in the form: all of it texts, and the rest of its keys as JSON."""

    point: str
    type: str = "rule"
    texts: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""
    rule: str = "block"

    def get(self, name: str) -> str:
        """Return one of the texts."""
        return self.texts.get(name, "")

    @property
    def is_refusing_by_default(self) -> bool:
        """Whether what fails here blocks, unless it says otherwise."""
        return self.type == "approval" or (self.type == "rule" and self.rule in ("block", "fail"))


def read_hooks(blueprint: Mapping[str, Any]) -> list[HookCard]:
    """Return the cards of a blueprint's hooks, in their order at each point."""
    hooks = blueprint.get("hooks")
    found: list[HookCard] = []
    for point, said in hooks.items() if isinstance(hooks, Mapping) else ():
        found += [
            _read_card(str(point), hook) for hook in (said if isinstance(said, list) else [said])
        ]
    return found


def type_of(hook: Mapping[str, Any]) -> str:
    """Return the type of a hook, by its keys where it does not say it."""
    said = hook.get("type")
    if said in _OF_TYPE and said != "other":
        return str(said)
    if said is not None:
        return "other"
    marks = {"$ref": "$ref", "builtin": "builtin", "question": "approval", "url": "http"}
    marks |= {"agent_name": "agent", **dict.fromkeys(RULES, "rule")}
    return next((kind for key, kind in marks.items() if key in hook), "other")


def _read_card(point: str, hook: Any) -> HookCard:
    if not isinstance(hook, Mapping):
        return HookCard(point, "other", rest=_write(hook))
    kind = type_of(hook)
    if kind == "other":
        return HookCard(point, kind, {"name": str(hook.get("name") or "")}, _write(hook))
    known = {*_COMMON, *_OF_TYPE[kind]}
    texts = {key: _to_text(hook[key]) for key in known if key in hook and _fits(key, hook[key])}
    rest = {key: value for key, value in hook.items() if key not in texts and key != "type"}
    rule = next((name for name in RULES if name in texts), "block")
    if kind == "rule":
        texts["text"] = texts.pop(rule, "")
    return HookCard(point, kind, texts, _write(rest) if rest else "", rule)


def _fits(key: str, value: Any) -> bool:
    """Return whether a field of the form can hold a value, which may have forms of its own."""
    if key == "tools":
        return isinstance(value, str) or (
            isinstance(value, list) and all(isinstance(each, str) for each in value)
        )
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _to_text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _write(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def write_hooks(cards: Sequence[HookCard]) -> dict[str, list[Any]]:
    """Return the hooks of a blueprint, or raise where a card's JSON cannot be read."""
    found: dict[str, list[Any]] = {}
    for card in cards:
        found.setdefault(card.point, []).append(write_card(card))
    return found


def write_card(card: HookCard) -> Any:
    """Return a hook as it stands in a blueprint."""
    rest = (
        parse_json(card.rest, f"What else {card.get('name') or 'the hook'} has")
        if card.rest.strip()
        else {}
    )
    if card.type == "other":
        return rest
    hook: dict[str, Any] = {"type": card.type} if card.type in ("approval", "agent", "http") else {}
    told = dict(card.texts)
    if card.type == "rule":
        told[card.rule] = told.pop("text", "")
        if not told[card.rule]:
            told[card.rule] = "Not allowed" if card.rule in RULES else ""
    for key in (*_COMMON, *_OF_TYPE[card.type]):
        text = told.get(key, "").strip()
        is_default = key == "mode" and text == "enforce"
        if key != "type" and text and not is_default:
            hook[key] = _to_value(key, text)
    return {**hook, **rest} if isinstance(rest, Mapping) else hook


def _to_value(key: str, text: str) -> Any:
    if key == "tools":
        return [part.strip() for part in text.split(",") if part.strip()]
    if key in ("timeout", "priority", "status"):
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            return text  # the check says what was expected
    return text


def read_form(form: Mapping[str, Any]) -> list[HookCard]:
    """Return the cards that a browser sent."""
    cards: list[HookCard] = []
    for number in range(200):
        point = form.get(f"h{number}.point")
        if point is None:
            break
        told = {
            key.partition(".")[2]: str(value)
            for key, value in form.items()
            if key.startswith(f"h{number}.")
        }
        kind = told.get("type", "rule")
        rule = told.get("rule", "block")
        names = {*_COMMON, *_OF_TYPE.get(kind, ()), "text"} - {"type"}
        texts = {name: text for name, text in told.items() if name in names and text.strip()}
        cards.append(
            HookCard(
                str(point),
                kind if kind in TYPES else "rule",
                texts,
                told.get("rest", ""),
                rule if rule in RULES else "block",
            )
        )
    return cards


def apply_step(cards: Sequence[HookCard], step: str) -> list[HookCard]:
    """Return the cards after a step: `add:POINT`, `remove:N`, `up:N`, `down:N`, or none."""
    verb, _, told = step.partition(":")
    found = list(cards)
    if verb == "add" and told in offered_points():
        names = {card.get("name") for card in found}
        name = next(name for n in range(1, 1000) if (name := f"hook_{n}") not in names)
        return [*found, HookCard(told, "rule", {"name": name, "text": ""})]
    if not told.isdigit() or int(told) >= len(found):
        return found
    at = int(told)
    if verb == "remove":
        return [*found[:at], *found[at + 1 :]]
    if verb in ("up", "down"):
        same = [n for n, card in enumerate(found) if card.point == found[at].point]
        place = same.index(at) + (1 if verb == "down" else -1)
        if 0 <= place < len(same):
            other = same[place]
            found[at], found[other] = found[other], found[at]
    return found


def offered_points() -> list[str]:
    """Return the points at which an agent may have hooks, in the order of a run."""
    return [str(point) for point in HookPoint if point not in _SESSION]


def offered_types(point: str) -> dict[str, str]:
    """Return the types that make sense at a point: nobody refuses where nothing can be decided."""
    contract = CONTRACTS[HookPoint(point)] if point in offered_points() else None
    if contract is None or Decision.BLOCK in contract.decisions:
        return dict(TYPES)
    return {kind: word for kind, word in TYPES.items() if kind not in ("rule", "approval")}


def grouped(cards: Sequence[HookCard]) -> Iterator[tuple[str, list[tuple[int, HookCard]]]]:
    """Yield the points that have hooks, each with its cards and their numbers."""
    points = dict.fromkeys([*offered_points(), *(card.point for card in cards)])
    for point in points:
        mine = [(number, card) for number, card in enumerate(cards) if card.point == point]
        yield point, mine
