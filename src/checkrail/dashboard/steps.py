"""The steps of a run as the server tells them, each as one row of the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from checkrail.dashboard import shown
from checkrail.dashboard.shown import Status

Texture = Literal["agent", "hook", "wait"]

_WAITS = ("queue", "person", "delivery")
_HOOKS = ("admission", "point", "hook", "folded", "finish")
_WITH_KIND = ("model", "tool", "node", "run", "delivery", "person")
"""Kinds that stand before the name of their steps."""

_RUNNING = Status("running", "running", "loader")
_PASSED = Status("passed", "passed", "check")
_FAILED = Status("failed", "failed", "circle-x")
_RESULTS = {
    "failed": _FAILED,
    "error": _FAILED,
    "timeout": Status("timed out", "failed", "circle-x"),
    "lost": Status("lost", "failed", "circle-x"),
    "cut off": Status("cut off", "cancelled", "circle-slash"),
    "cancelled": Status("cancelled", "cancelled", "circle-slash"),
    "blocked": Status("blocked", "blocked", "shield-ban"),
    "refused": Status("refused", "blocked", "shield-ban"),
    "waiting": shown.WAITING,
}
_DELIVERIES = {
    "done": Status("delivered", "success", "circle-check"),
    "dead": Status("given up", "failed", "circle-x"),
}
_OWED = Status("owed", "waiting", "hourglass")


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the timeline."""

    id: str
    kind: str
    name: str
    level: int
    began: float
    ended: float | None
    result: str = ""
    parent: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    note: str = ""

    @property
    def label(self) -> str:
        """What it is called."""
        told = f"{self.kind} {self.name}".strip() if self.kind in _WITH_KIND else self.name
        if self.kind in ("person", "delivery"):
            told = f"{self.kind}: {self.name}"
        number = self.details.get("number") if self.kind == "model" else None
        return told if number is None else f"{told} #{number}"

    @property
    def texture(self) -> Texture:
        """Whose time it was."""
        return "wait" if self.kind in _WAITS else "hook" if self.kind in _HOOKS else "agent"

    @property
    def status(self) -> Status | None:
        """What came of it, where that is worth a word."""
        if self.kind == "hook":
            return _RUNNING if self.result == "running" else shown.record_status(self.details)
        if self.kind == "person":
            told = "open" if self.result == "waiting" else self.result
            return shown.approval_status({"status": told})
        if self.kind == "delivery":
            return _DELIVERIES.get(self.result, _OWED)
        if self.kind in ("point", "folded", "admission", "finish"):
            return _PASSED if self.result == "passed" else None
        return _RESULTS.get(self.result)

    @property
    def seconds(self) -> float | None:
        """How long it took, if it has ended."""
        return None if self.ended is None else max(0.0, self.ended - self.began)

    @property
    def is_decision(self) -> bool:
        """Whether a hook did something here but let pass."""
        return self.kind == "hook" and self.status is not None and self.status.kind != "passed"


def read_step(told: Mapping[str, Any]) -> Step:
    """Return a step as the API tells it."""
    details = told["details"]
    number = details.get("hooks") if told["kind"] == "point" else None
    note = "" if number is None else f"{number} {'hook' if number == 1 else 'hooks'}"
    return Step(
        told["id"],
        told["kind"],
        told["name"],
        told["depth"] + 1,
        told["began"],
        told["ended"],
        told["result"],
        told["parent"],
        details,
        note,
    )


def read_rows(told: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Return the rows of some steps: the only hook of a point stands for it."""
    found = [read_step(each) for each in told]
    alone = {
        step.id: step for step in found if step.kind == "point" and step.details.get("hooks") == 1
    }
    called = {step.parent for step in found if step.kind == "hook"}
    raised: set[str] = set()
    rows = []
    for step in found:
        if step.id in alone and step.id in called:
            raised.add(step.id)
        elif step.parent in raised:
            if step.kind == "hook":
                step = replace(step, note=alone[step.parent].name)  # noqa: PLW2901
            raised.add(step.id)
            rows.append(replace(step, level=step.level - 1))
        else:
            rows.append(step)
    return rows


def delivery_status(delivery: Mapping[str, Any]) -> Status:
    """Return what became of a delivery."""
    return _DELIVERIES.get(str(delivery.get("status")), _OWED)


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a time stands on the page, in per cent; long waits are cut."""

    began: float
    ended: float
    cuts: tuple[tuple[float, float], ...] = ()

    KEPT = 0.06
    """What is left of a wait that is cut, of all the rest."""

    def _length(self, until: float) -> float:
        whole = until - self.began
        rest = self.ended - self.began - sum(end - start for start, end in self.cuts)
        short = max(rest * self.KEPT, 1e-6)
        for start, end in self.cuts:
            spent = min(max(until - start, 0.0), end - start)
            whole -= spent
            whole += short * (spent / (end - start))
        return whole

    def place(self, moment: float) -> float:
        """Return where a moment stands."""
        whole = self._length(self.ended)
        at = min(max(moment, self.began), self.ended)
        return 0.0 if whole <= 0 else round(100 * self._length(at) / whole, 3)

    def bar(self, step: Step, now: float) -> tuple[float, float]:
        """Return where a step's bar begins and how wide it is."""
        begin = min(self.place(step.began), 99.5)
        end = self.place(now if step.ended is None else step.ended)
        return begin, max(end - begin, 0.5)


def build_axis(steps: Sequence[Step], began: float, ended: float, now: float) -> Axis:
    """Return the axis of a run, on which the first wait longer than half of it is cut."""
    ended = max(ended, began + 1e-6)
    cuts = [
        (step.began, now if step.ended is None else step.ended)
        for step in steps
        if step.texture == "wait" and (step.ended or now) - step.began > (ended - began) / 2
    ]
    return Axis(began, ended, tuple(cuts[:1]))
