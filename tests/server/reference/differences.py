"""How a server's answers differ from the reference's, and which differences are on the list."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

LIST = Path(__file__).parent / "differences.yaml"
MISSING = "<missing>"


@dataclass(frozen=True)
class Difference:
    """One place of an answer where two servers say different things."""

    question: str
    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.question} | {self.path}\n    ours:   {self.ours}\n    theirs: {self.theirs}"


@dataclass(frozen=True)
class Listed:
    """A difference that is known: what it is, why it is there, and where it is met."""

    says: str
    reason: str
    where: tuple[tuple[str, str], ...]
    added: bool = False

    def covers(self, difference: Difference) -> bool:
        return any(self.covers_by(place, difference) for place in self.where)

    def covers_by(self, place: tuple[str, str], difference: Difference) -> bool:
        if self.added and difference.theirs != MISSING:
            return False
        question, path = place
        return fnmatchcase(difference.question, question) and fnmatchcase(difference.path, path)


@cache
def load_list() -> list[Listed]:
    """Return the known differences."""
    return [
        Listed(
            one["says"].strip(),
            one["reason"],
            tuple((question, path) for question, path in one["where"]),
            added=one.get("added", False),
        )
        for one in YAML(typ="safe", pure=True).load(LIST)
    ]


def find_unlisted(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences that nobody has written down."""
    return [each for each in differences if not any(one.covers(each) for one in load_list())]


def find_unneeded(differences: Collection[Difference]) -> list[str]:
    """Return the places on the list where nothing differs."""
    return [
        f"{entry.says} {place}"
        for entry in load_list()
        for place in entry.where
        if not any(entry.covers_by(place, difference) for difference in differences)
    ]


def render_list(entries: Iterable[Listed]) -> str:
    """Return the differences as the docs show them."""
    return "\n".join(f"- {entry.says} {entry.reason}" for entry in entries)


def find_differences(question: str, ours: list[Any], theirs: list[Any]) -> list[Difference]:
    """Return every place where the answers to a question differ."""
    assert len(ours) == len(theirs), f"{question} has other steps now: record the answers again"
    return [
        Difference(question, *found)
        for number, answers in enumerate(zip(ours, theirs, strict=True))
        for found in _compare_answers(str(number), *answers)
    ]


def _compare_answers(path: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """Compare two answers: where one is a refusal and the other is not, that is all to say."""
    if ours["status"] == theirs["status"]:
        yield from _compare(path, ours, theirs)
    else:
        yield f"{path}.status", *(f"{one['status']} {one.get('body')}" for one in (ours, theirs))


def _compare(path: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            place = f"{path}.{key}".lstrip(".")
            if key == "events" and key in ours and key in theirs:
                yield from _compare_events(place, ours[key], theirs[key])
                continue
            yield from _compare(place, ours.get(key, MISSING), theirs.get(key, MISSING))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
            yield from _compare(f"{path}.{number}".lstrip("."), mine, yours)
    elif ours != theirs or type(ours) is not type(theirs):
        yield path, ours, theirs


def _compare_events(
    path: str, ours: list[Any], theirs: list[Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Compare which events there are, and then the data of those that both have."""
    mine, yours = ([_describe_event(*event) for event in events] for events in (ours, theirs))
    if mine != yours:
        yield f"{path}.names", mine, yours
    blocks = SequenceMatcher(None, mine, yours, autojunk=False).get_matching_blocks()
    for first, second, size in blocks:
        for number in range(size):
            place = f"{path}.{yours[second + number]}"
            yield from _compare(place, ours[first + number][1], theirs[second + number][1])


def _describe_event(name: str, data: Any) -> str:
    """Return what an event is about: its name, and what its data say of it."""
    words = [name]
    if isinstance(data, dict):
        inner = data.get("params", {}).get("data") if name == data.get("method") else data
        said = inner if isinstance(inner, dict) else {}
        words += [said[key] for key in ("event", "type", "name") if isinstance(said.get(key), str)]
    return " ".join(words)
