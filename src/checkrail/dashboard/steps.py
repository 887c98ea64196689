"""The steps of a run, in order: where it waited, what the agent did, and which hooks looked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from checkrail.dashboard import shown
from checkrail.dashboard.shown import Status, parse_time

Record = Mapping[str, Any]
Texture = Literal["agent", "hook", "wait"]

FOLDED = 300
"""Steps from which hooks that passed are shown as one."""

GAP = 0.05
"""Seconds without any step that are worth a row."""

_PASSED = Status("passed", "passed", "check")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a hook: when it began and ended, and the record that says most of it."""

    id: str
    began: float
    ended: float | None
    record: Record

    @property
    def status(self) -> Status:
        """What came of it."""
        return shown.record_status(self.record)

    @property
    def is_pass(self) -> bool:
        """Whether nothing came of it."""
        return self.status.kind == "passed"


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the timeline."""

    id: str
    kind: str
    label: str
    level: int
    began: float
    ended: float | None
    texture: Texture
    status: Status | None = None
    note: str = ""
    calls: Sequence[Call] = field(default=(), repr=False)
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float | None:
        """How long it took, if it has ended."""
        return None if self.ended is None else max(0.0, self.ended - self.began)

    @property
    def is_decision(self) -> bool:
        """Whether a hook did something here but let pass."""
        return self.kind == "hook" and self.status is not None and self.status.kind != "passed"


@dataclass(frozen=True, slots=True)
class Told:
    """All that is known of a run."""

    run: Mapping[str, Any]
    records: Sequence[Record]
    approvals: Sequence[Mapping[str, Any]] = ()
    marks: Sequence[Mapping[str, Any]] = ()
    """Events that say when a model or a tool began and ended."""


def read_calls(records: Iterable[Record]) -> list[Call]:
    """Return the calls of hooks in the order in which they began."""
    starts: dict[tuple[Any, ...], list[Record]] = {}
    calls: list[Call] = []
    for record in records:
        key = _call_key(record)
        if record.get("event_type") == "hook_start":
            starts.setdefault(key, []).append(record)
            continue
        same = starts.get(key)
        start = same.pop(0) if same else None
        calls.append(_ended_call(record, start))
    calls += [_open_call(record) for same in starts.values() for record in same]
    return sorted(calls, key=lambda call: call.began)


def _call_key(record: Record) -> tuple[Any, ...]:
    if record.get("call_id"):
        return (record["call_id"],)
    return tuple(record.get(key) for key in ("point", "hook", "tool_call_id", "attempt"))


def _ended_call(record: Record, start: Record | None) -> Call:
    ended = float(record.get("time") or 0.0)
    began = ended - float(record.get("duration_ms") or 0.0) / 1000
    if start is not None and start.get("time"):
        began = min(float(start["time"]), ended)
    return Call(_call_id(record), began, ended, record)


def _open_call(record: Record) -> Call:
    return Call(_call_id(record), float(record.get("time") or 0.0), None, record)


def _call_id(record: Record) -> str:
    return str(record.get("call_id") or record.get("record_id") or "")


@dataclass(slots=True)
class _Dispatch:
    """The calls of one firing of a point."""

    key: Any
    point: str
    tool: str | None
    calls: list[Call]

    @property
    def began(self) -> float:
        return self.calls[0].began

    @property
    def ended(self) -> float | None:
        ends = [call.ended for call in self.calls]
        return None if None in ends else max(end for end in ends if end is not None)


def _group_calls(calls: Sequence[Call]) -> list[_Dispatch]:
    found: dict[Any, _Dispatch] = {}
    last: _Dispatch | None = None
    for call in calls:
        record = call.record
        point, tool = str(record.get("point")), record.get("tool_call_id")
        key = record.get("dispatch")
        if key is None:
            is_same = last is not None and (last.point, last.tool) == (point, tool)
            key = last.key if is_same and last is not None else ("from", call.id)
        if key not in found:
            found[key] = _Dispatch(key, point, tool, [])
        last = found[key]
        last.calls.append(call)
    return [*found.values()]


def build_steps(told: Told, now: float, *, fold: bool | None = None) -> list[Step]:
    """Return the steps of a run; hooks that passed are folded, by default where there are many."""
    calls = read_calls(told.records)
    folded = len(calls) > FOLDED if fold is None else fold
    groups = _group_calls(calls)
    spans = [_close_span(span, told.run) for span in _read_spans(told.marks)]
    rows = [*_read_waits(told.run, now), *_read_people(told.approvals)]
    tools: dict[str, list[_Dispatch]] = {}
    for group in groups:
        if group.tool is None:
            rows.append([*_dispatch_steps(group, 1, folded=folded)])
        else:
            tools.setdefault(group.tool, []).append(group)
    rows += [
        [span]
        for span in spans
        if span.about.get("tool_call_id") not in tools or span.kind != "tool"
    ]
    for tool, inside in tools.items():
        mine = (each for each in spans if each.kind == "tool")
        span = next((each for each in mine if each.about.get("tool_call_id") == tool), None)
        beneath = (step for each in inside for step in _dispatch_steps(each, 2, folded=folded))
        rows.append([_tool_step(tool, inside, span), *beneath])
    rows += [[step] for step in _read_deliveries(told.run)]
    rows.sort(key=lambda steps: steps[0].began)
    return [step for steps in rows for step in steps]


def _read_waits(run: Mapping[str, Any], now: float) -> Iterator[list[Step]]:
    created, started = parse_time(run.get("created_at")), parse_time(run.get("started_at"))
    if created is None:
        return
    ended = started or parse_time(run.get("ended_at"))
    if (ended or now) - created >= 0.0005:
        yield [
            Step("queue", "queue", "queue", 1, created, ended, "wait", note="waits to be started")
        ]


def _read_people(approvals: Iterable[Mapping[str, Any]]) -> Iterator[list[Step]]:
    for each in approvals:
        asked = parse_time(each.get("created_at"))
        if asked is None:
            continue
        label = f"person: {each.get('question') or 'asked'}"
        status = shown.approval_status(each)
        ended = parse_time(each.get("answered_at"))
        name = str(each.get("approval_id"))
        yield [Step(name, "person", label, 1, asked, ended, "wait", status, about=each)]


def _read_spans(marks: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Return what the agent did, by the events that begin and end it."""
    begun: dict[tuple[str, Any], tuple[float, Mapping[str, Any]]] = {}
    found: list[Step] = []
    for mark in marks:
        name, at = str(mark.get("event")), mark.get("time")
        data = mark.get("data")
        if at is None or not isinstance(data, Mapping):
            continue
        kind, _, what = name.partition("_")
        if kind == "attempt":
            continue
        key = (kind, data.get("call") or data.get("tool_call_id") or data.get("node"))
        if what == "started":
            begun[key] = (float(at), data)
        elif what == "finished" and key in begun:
            began, about = begun.pop(key)
            found.append(_span(kind, key[1], began, float(at), {**about, **data}))
    found += [
        _span(kind, name, began, None, about) for (kind, name), (began, about) in begun.items()
    ]
    return sorted(found, key=lambda step: step.began)


def _close_span(span: Step, run: Mapping[str, Any]) -> Step:
    """Return a step that a run left open as ending with the run."""
    ended = parse_time(run.get("ended_at"))
    return span if span.ended is not None or ended is None else replace(span, ended=ended)


def _span(
    kind: str, name: Any, began: float, ended: float | None, about: Mapping[str, Any]
) -> Step:
    what = {"model": "model", "tool": "tool_name", "node": "node"}.get(kind, "name")
    label = f"{kind} {about.get(what) or ''}".strip()
    if kind == "model" and about.get("iteration") is not None:
        label += f" #{about['iteration']}"
    failed = about.get("is_error") or about.get("error")
    status = Status("failed", "failed", "circle-x") if failed else None
    return Step(f"{kind[0]}-{name}", kind, label, 1, began, ended, "agent", status, about=about)


def _tool_step(tool: str, inside: Sequence[_Dispatch], span: Step | None) -> Step:
    began = min(each.began for each in inside)
    ends = [each.ended for each in inside]
    ended = None if None in ends else max(end for end in ends if end is not None)
    if span is not None:
        began = min(began, span.began)
        ended = None if span.ended is None or ended is None else max(ended, span.ended)
    about = {} if span is None else span.about
    name = about.get("tool_name") or _tool_name(inside) or tool
    blocked = any(
        call.record.get("event_type") == "hook_blocked" and not call.record.get("shadow")
        for each in inside
        for call in each.calls
    )
    status = (
        Status("blocked", "blocked", "shield-ban") if blocked else span.status if span else None
    )
    return Step(f"t-{tool}", "tool", f"tool {name}", 1, began, ended, "agent", status, about=about)


def _tool_name(inside: Sequence[_Dispatch]) -> str | None:
    for each in inside:
        for call in each.calls:
            for key in ("before", "after"):
                value = call.record.get(key)
                if isinstance(value, Mapping) and value.get("name"):
                    return str(value["name"])
    return None


def _dispatch_steps(group: _Dispatch, level: int, *, folded: bool) -> Iterator[Step]:
    passed = [call for call in group.calls if call.is_pass]
    if len(group.calls) == 1 and not (folded and passed):
        yield _hook_step(group.calls[0], level, note=group.point)
        return
    status = _PASSED if len(passed) == len(group.calls) else None
    some = len(group.calls) if not folded or not passed else len(passed)
    note = f"{some} {'hook' if some == 1 else 'hooks'}{' passed' if folded and passed else ''}"
    name = f"p-{group.calls[0].id}"
    head = Step(name, "point", group.point, level, group.began, group.ended, "hook", status, note)
    yield replace(head, calls=tuple(group.calls))
    for call in group.calls:
        if not (folded and call.is_pass):
            yield _hook_step(call, level + 1)


def _hook_step(call: Call, level: int, note: str = "") -> Step:
    label = str(call.record.get("hook") or "hook")
    return Step(
        call.id, "hook", label, level, call.began, call.ended, "hook", call.status, note, (call,)
    )


def _read_deliveries(run: Mapping[str, Any]) -> Iterator[Step]:
    for each in run.get("deliveries") or ():
        ended = parse_time(each.get("ended_at"))
        began = parse_time(each.get("created_at")) or parse_time(run.get("ended_at")) or ended
        if began is None:
            continue
        status = delivery_status(each)
        label = f"delivery: {each.get('kind')}"
        name = str(each.get("delivery_id"))
        yield Step(name, "delivery", label, 1, began, ended, "wait", status, about=each)


def delivery_status(delivery: Mapping[str, Any]) -> Status:
    """Return what became of a delivery."""
    return {
        "done": Status("delivered", "success", "circle-check"),
        "dead": Status("given up", "failed", "circle-x"),
    }.get(str(delivery.get("status")), Status("owed", "waiting", "hourglass"))


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


def build_axis(steps: Sequence[Step], run: Mapping[str, Any], now: float) -> Axis:
    """Return the axis of a run, on which waits longer than half of it are cut."""
    began = min([step.began for step in steps], default=parse_time(run.get("created_at")) or now)
    ends = [now if step.ended is None else step.ended for step in steps]
    own_end = parse_time(run.get("ended_at"))
    ended = max([*ends, *([] if own_end is None else [own_end])], default=now)
    ended = max(ended, began + 1e-6)
    half = (ended - began) / 2
    cuts = [
        (step.began, now if step.ended is None else step.ended)
        for step in steps
        if step.texture == "wait" and (step.ended or now) - step.began > half
    ]
    return Axis(began, ended, tuple(cuts[:1]))


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the time of a run went, in seconds."""

    agent: float
    hooks: float
    queue: float
    people: float


def share_time(told: Told, now: float) -> Shares:
    """Return how much of a run's time was the agent's, its hooks', the queue's and people's."""
    run = told.run
    created = parse_time(run.get("created_at")) or now
    ended = parse_time(run.get("ended_at")) or now
    started = parse_time(run.get("started_at")) or ended
    calls = read_calls(told.records)
    hooks = _covered([(call.began, call.ended or now) for call in calls], started, ended)
    people = _covered(
        [
            (asked, parse_time(each.get("answered_at")) or ended)
            for each in told.approvals
            if (asked := parse_time(each.get("created_at"))) is not None
        ],
        started,
        ended,
    )
    agent = max(0.0, ended - started - hooks - people)
    return Shares(agent, hooks, max(0.0, started - created), people)


def _covered(spans: Iterable[tuple[float, float]], first: float, last: float) -> float:
    spent, until = 0.0, first
    for begin, end in sorted(spans):
        spent += max(0.0, min(end, last) - max(begin, until))
        until = max(until, min(end, last))
    return spent
