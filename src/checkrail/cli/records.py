"""Hook records as a server tells them: read back, and put beside the time of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from checkrail.engine.points import Decision
from checkrail.engine.records import RecordKind


@dataclass(frozen=True)
class Recorded:
    """A record, with the names that a `HookRecord` has for what a timeline shows."""

    told: Mapping[str, Any]

    @cached_property
    def kind(self) -> RecordKind:
        """Which of the four kinds of records it is."""
        return RecordKind(self.told["event_type"])

    @property
    def time(self) -> float:
        """When it happened."""
        return float(self.told["time"])

    @property
    def point(self) -> str:
        """The point at which the hook was called."""
        return str(self.told["point"])

    @property
    def hook(self) -> str:
        """The hook's name."""
        return str(self.told["hook"])

    @property
    def lane(self) -> str:
        """The hook's lane."""
        return str(self.told["lane"])

    @property
    def shadow(self) -> bool:
        """Whether this only says what would have been done."""
        return bool(self.told.get("shadow"))

    @property
    def decision(self) -> Decision | None:
        """What the hook decided."""
        said = self.told.get("decision")
        return None if said is None else Decision(said)

    @property
    def reason(self) -> str:
        """The hook's reason."""
        return str(self.told.get("reason") or "")

    @property
    def failure(self) -> str | None:
        """The kind of failure."""
        return self.told.get("failure")

    @property
    def error(self) -> str | None:
        """What went wrong."""
        return self.told.get("error")

    @property
    def duration_ms(self) -> float:
        """How long the hook took; of one that was cut off nobody knows."""
        return float(self.told.get("duration_ms") or 0.0)

    @property
    def changed(self) -> bool:
        """Whether the hook changed the value."""
        return bool(self.told.get("changed")) or self.redacted

    @property
    def redacted(self) -> bool:
        """Whether no value is kept of the change."""
        return bool(self.told.get("redacted"))

    @property
    def before(self) -> Any:
        """The value that the hook changed."""
        return self.told.get("before")

    @property
    def after(self) -> Any:
        """What the hook made of the value."""
        return self.told.get("after")

    @property
    def injected(self) -> int:
        """How many messages the hook put into the conversation."""
        return int(self.told.get("injected") or 0)

    @property
    def answer(self) -> str | None:
        """What came of an `ask`."""
        return self.told.get("answer")

    @property
    def overran(self) -> bool:
        """Whether the hook took longer than its timeout."""
        return bool(self.told.get("overran"))

    @property
    def began(self) -> float:
        """When the hook was called."""
        return self.time - self.duration_ms / 1000


def finished_calls(records: Iterable[Recorded]) -> list[Recorded]:
    """Return the calls that have ended."""
    return [record for record in records if record.kind is not RecordKind.START]


def unfinished_calls(records: Iterable[Recorded]) -> list[Recorded]:
    """Return the starts of the calls that have not ended."""
    open_calls: dict[str, Recorded] = {}
    for record in records:
        if record.kind is RecordKind.START:
            open_calls[record.told["call_id"]] = record
        else:
            open_calls.pop(record.told["call_id"], None)
    return [*open_calls.values()]


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Where the time of a run went, in seconds: to waiting, to hooks, to the agent."""

    waiting: float
    hooks: float
    agent: float


def split_time(run: Mapping[str, Any], ended: Sequence[Recorded], now: float) -> TimeSplit:
    """Return how the time of a run is split; hooks after its end count as hooks' time."""
    created, over = parse_time(run["created_at"]) or now, parse_time(run["ended_at"]) or now
    started = parse_time(run["started_at"]) or over
    return TimeSplit(
        waiting=max(0.0, started - created - _busy_seconds(ended, created, started)),
        hooks=sum(record.duration_ms for record in ended) / 1000,
        agent=max(0.0, over - started - _busy_seconds(ended, started, over)),
    )


def _busy_seconds(ended: Sequence[Recorded], first: float, last: float) -> float:
    """Return for how long hooks were running between two times; two at once count once."""
    spent, until = 0.0, first
    for record in sorted(ended, key=lambda each: each.began):
        begin, end = max(record.began, until), min(record.time, last)
        spent += max(0.0, end - begin)
        until = max(until, end)
    return spent


def parse_time(when: str | None) -> float | None:
    """Return a time as the server writes it, in seconds."""
    return None if when is None else datetime.fromisoformat(when).timestamp()
