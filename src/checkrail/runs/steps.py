"""The steps of a run: what its events, records, questions and deliveries say, as one tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.store.approvals import Approval
from checkrail.store.deliveries import Delivery
from checkrail.store.events import RunEvent
from checkrail.store.run_lists import ListedRun
from checkrail.store.runs import Run

Record = Mapping[str, Any]

FOLD_ABOVE = 300
"""From so many steps on, hooks that passed are folded unless somebody says otherwise."""

SHOWN = ("all", "decisions", "changed", "failed", "models", "tools")
PASSED = "passed"
_LEAST_GAP = 0.05  # seconds that no step covers
_FINISH = ("after_run", "on_run_error")
_TOLD_OF_HOOKS = (
    *("point", "hook", "record_id", "decision", "reason", "failure", "error", "lane", "mode"),
    *("level", "source", "hook_type", "target_type", "target_name", "on_error_behavior"),
    *("changed", "redacted", "injected", "answer", "overran", "status", "code", "shadow"),
    *("attempt", "iteration", "tool_call_id", "agent_name"),
)
_WORDS = {"block": "blocked", "fail": "blocked", "ask": "asked", "retry": "retried"}
_WORDS |= {"replace": "replaced", "stop": "stopped"}


@dataclass(slots=True)
class Step:
    """One step of a run; times are in seconds since the epoch, and one under way has no end."""

    id: str
    kind: str
    name: str
    began: float
    ended: float | None = None
    parent: str | None = None
    result: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    depth: int = 0

    def extend_to(self, moment: float) -> None:
        """Have the step last until a moment, at least."""
        self.ended = moment if self.ended is None else max(self.ended, moment)


@dataclass(frozen=True, slots=True)
class RunStory:
    """All that is known of a run's steps. Records are without their values, and marks in order."""

    run: Run
    records: Sequence[Record]
    marks: Sequence[RunEvent]
    approvals: Sequence[Approval] = ()
    deliveries: Sequence[Delivery] = ()
    beneath: Sequence[ListedRun] = ()
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The steps of a run, each after the one above it, and where its time went."""

    steps: list[Step]
    began: float
    ended: float
    totals: dict[str, float]
    block: str | None


def build_steps(story: RunStory) -> RunSteps:
    """Build the steps of a run in one pass over what is known of it."""
    tree = _Tree(story)
    tree.add_queue()
    for mark in story.marks:
        tree.add_mark(mark)
    for record in story.records:
        tree.add_record(record)
    tree.close_tools()
    tree.place_points()
    for approval in story.approvals:
        tree.add_person(approval)
    for child in story.beneath:
        tree.add_run(child)
    for delivery in story.deliveries:
        tree.add_delivery(delivery)
    tree.add_gaps()
    steps = [*_flatten(tree.steps)]
    ended = max((step.ended or story.now for step in steps), default=story.now)
    began = min([story.run.created_at, *(step.began for step in steps)])
    return RunSteps(steps, began, max(ended, began), tree.sum_times(), tree.find_block())


def build_attempts(run: Run, marks: Sequence[RunEvent]) -> list[dict[str, Any]]:
    """Return who has worked on a run, when, and how that ended."""
    found: dict[int, dict[str, Any]] = {}
    last, asked = run.started_at, False
    for mark in marks:
        if mark.event == "attempt_started":
            before = found[max(found)] if found else None
            if before is not None and before["attempt"] != mark.data["attempt"]:
                before |= {"ended_at": last, "end": "waiting" if asked else "lost"}
            told = {name: mark.data.get(name) for name in ("worker_id", "name", "host")}
            began = {"started_at": mark.time, "ended_at": None, "end": None}
            number = mark.data["attempt"]
            began["started_at"] = found.get(number, began)["started_at"]
            found[number] = {"attempt": number, **told, **began}
            asked = False
        asked = asked or mark.event == "approval"
        last = mark.time
    if found and run.ended_at is not None:
        found[max(found)] |= {"ended_at": run.ended_at, "end": run.phase}
    elif found and run.phase == "waiting":
        found[max(found)] |= {"ended_at": last, "end": "waiting"}
    return [found[number] for number in sorted(found)]


class _Tree:
    """Steps by their ids, and what is known of those that are under way."""

    def __init__(self, story: RunStory) -> None:
        self.story = story
        self.run = story.run
        self.steps: dict[str, Step] = {}
        self._attempt = 1
        self._attempts = {
            mark.data["attempt"] for mark in story.marks if mark.event == "attempt_started"
        }
        self._open_nodes: dict[str, Step] = {}
        self._calls: dict[str, Step] = {}
        self._models: Counter[int] = Counter()
        self._by_iteration: dict[tuple[Any, ...], str] = {}
        self._open_hooks: dict[str, Step] = {}
        self._points: dict[str, list[Record]] = {}

    def add(self, step: Step) -> Step:
        return self.steps.setdefault(step.id, step)

    def add_queue(self) -> None:
        """Add the time before the run began: for its thread, its hooks, or a runner."""
        run = self.run
        if run.started_at is None and run.ended_at is not None:
            return
        step = Step("queue", "queue", "queue", run.created_at, run.started_at)
        step.details["ready_at"] = run.ready_at
        self.add(step)

    def add_mark(self, mark: RunEvent) -> None:
        """Take an event that says when a step began or ended."""
        data = mark.data if isinstance(mark.data, Mapping) else {}
        handle = _MARKS.get(mark.event)
        if handle is not None:
            handle(self, mark.time, data)

    def start_attempt(self, at: float, data: Record) -> None:
        earlier = self.steps.get(f"a{self._attempt}")
        self._attempt = data["attempt"]
        if earlier is not None and earlier.ended is None and earlier.id != f"a{self._attempt}":
            earlier.ended, earlier.result = at, "lost"
        self._open_nodes.clear()
        if len(self._attempts) > 1:
            name = f"attempt {self._attempt}"
            step = self.add(Step(f"a{self._attempt}", "attempt", name, at))
            step.details |= {key: data.get(key) for key in ("worker_id", "host", "name")}

    def end_run(self, at: float, _data: Record) -> None:
        attempt = self.steps.get(f"a{self._attempt}")
        if attempt is not None:
            attempt.ended, attempt.result = at, self.run.phase
        for step in self.steps.values():
            if step.ended is None and step.kind in ("node", "model", "tool"):
                step.ended, step.result = at, "cut off"

    def start_node(self, at: float, data: Record) -> None:
        name = f"n-{self._attempt}-{data['task']}"
        step = self.add(Step(name, "node", data["node"], at, parent=self._attempt_id))
        self._open_nodes[data["task"]] = step

    def end_node(self, at: float, data: Record) -> None:
        step = self._open_nodes.pop(data["task"], None)
        if step is not None:
            step.ended, step.result = at, data["how"]

    def start_model(self, at: float, data: Record) -> None:
        self._models[self._attempt] += 1
        number = self._models[self._attempt]
        above = self._tool_id(data.get("tool_call_id"))
        parent = above if above in self.steps else self._place
        step = Step(f"m-{self._attempt}-{number}", "model", data["model"] or "", at, parent=parent)
        told = ("model", "provider", "iteration", "agent_name", "tool_call_id")
        step.details |= {"number": number, **{name: data.get(name) for name in told}}
        self._calls[data["call"]] = self.add(step)
        key = (self._attempt, data.get("agent_name"), data.get("iteration"))
        if data.get("iteration") is not None:
            self._by_iteration[key] = step.id

    def end_model(self, at: float, data: Record) -> None:
        step = self._calls.pop(data["call"], None)
        if step is None:
            return
        step.ended, step.result = at, "failed" if data.get("error") else "done"
        told = ("usage", "stop_reason", "answered_model", "error")
        step.details |= {name: data[name] for name in told if data.get(name) is not None}

    def start_tool(self, at: float, data: Record) -> None:
        step = self._tool(data["tool_call_id"], data["tool_name"], at)
        step.details["started_at"] = at

    def end_tool(self, at: float, data: Record) -> None:
        step = self._tool(data["tool_call_id"], data["tool_name"], at)
        step.ended, step.result = at, "failed" if data.get("is_error") else "done"

    def _tool(self, tool_call_id: str, name: str, at: float, attempt: int | None = None) -> Step:
        known = self._tool_id(tool_call_id, attempt)
        step = self.steps.get(known)
        if step is None:
            step = self.add(Step(known, "tool", name, at, parent=self._place))
            step.details["tool_call_id"] = tool_call_id
        step.name = step.name or name
        step.began = min(step.began, at)
        return step

    def _tool_id(self, tool_call_id: Any, attempt: int | None = None) -> str:
        return f"t-{attempt or self._attempt}-{tool_call_id}"

    @property
    def _attempt_id(self) -> str | None:
        found = f"a{self._attempt}"
        return found if found in self.steps else None

    @property
    def _place(self) -> str | None:
        """What is under way around a step: the only node, else the attempt."""
        if len(self._open_nodes) == 1:
            return next(iter(self._open_nodes.values())).id
        return self._attempt_id

    def add_record(self, record: Record) -> None:
        """Take a record: the hook's call, and the firing of the point that it belongs to."""
        self._points.setdefault(record["dispatch"], []).append(record)
        step = self.steps.get(record["call_id"])
        if record["event_type"] == "hook_start":
            if step is None:
                told = {name: record[name] for name in _TOLD_OF_HOOKS if name in record}
                parent = f"p-{record['dispatch']}"
                at = record["time"]
                step = Step(record["call_id"], "hook", record["hook"], at, None, parent, "running")
                step.details |= told
                self.add(step)
            return
        took = (record.get("duration_ms") or 0.0) / 1000
        began, parent = record["time"] - took, f"p-{record['dispatch']}"
        if step is None:
            step = self.add(Step(record["call_id"], "hook", record["hook"], began, parent=parent))
        step.began, step.ended = min(step.began, began), record["time"]
        step.details |= {name: record[name] for name in _TOLD_OF_HOOKS if name in record}
        step.result = _hook_result(record)

    def place_points(self) -> None:
        """Add the firings of points, each in the step that it belongs to."""
        for dispatch, told in self._points.items():
            calls = [self.steps[call] for call in dict.fromkeys(each["call_id"] for each in told)]
            first = told[0]
            point = Step(f"p-{dispatch}", "point", first["point"], min(c.began for c in calls))
            open_ones = [call for call in calls if call.ended is None]
            point.ended = None if open_ones else max(c.ended or 0.0 for c in calls)
            point.result = _strictest([call.result for call in calls])
            point.details["hooks"] = len(calls)
            point.parent = self._parent_of_point(first, point)
            self.add(point)

    def _parent_of_point(self, record: Record, point: Step) -> str | None:
        name, attempt = record["point"], record.get("attempt", 1)
        if name == "before_run":
            admit = self.add(Step("admit", "admission", "admission", point.began, point.ended))
            admit.result = point.result
            return admit.id
        if name in _FINISH:
            finish = self.add(Step("finish", "finish", "finish hooks", point.began, point.ended))
            finish.began = min(finish.began, point.began)
            if point.ended is not None:
                finish.extend_to(point.ended)
            return finish.id
        tool = self._tool_id(record.get("tool_call_id"), attempt)
        if name not in ("before_llm_call", "after_llm_call") and tool in self.steps:
            return tool
        model = (attempt, record.get("agent_name"), record.get("iteration"))
        if (found := self._by_iteration.get(model)) is not None:
            return found
        if tool in self.steps:
            return tool
        attempt_id = f"a{attempt}"
        return attempt_id if attempt_id in self.steps else None

    def close_tools(self) -> None:
        """Have each tool begin with its first hook, and end with its last one."""
        for records in self._points.values():
            for record in records:
                name = record.get("tool_call_id")
                if name is None or record["point"] not in _TOOL_POINTS:
                    continue
                took = (record.get("duration_ms") or 0.0) / 1000
                at, attempt = record["time"] - took, record.get("attempt", 1)
                known = self._tool_id(name, attempt) in self.steps
                step = self._tool(name, "", at, attempt)
                if not known:
                    step.parent = f"a{attempt}" if f"a{attempt}" in self.steps else None
                if record["event_type"] != "hook_start":
                    step.extend_to(record["time"])
                if record.get("decision") in ("block", "fail") and not record.get("shadow"):
                    step.result = "blocked"

    def add_person(self, approval: Approval) -> None:
        """Add somebody who was asked, within the call of the hook that asked."""
        hook = approval.hook.partition("/")[2]
        calls = (
            step
            for step in self.steps.values()
            if step.kind == "hook"
            and (step.name, step.details.get("point")) == (hook, approval.point)
            and step.began <= approval.created_at + 1
        )
        above = max(calls, key=lambda step: step.began, default=None)
        step = Step(approval.approval_id, "person", approval.question, approval.created_at)
        step.ended = approval.answered_at if approval.status != "open" else None
        if approval.status != "open" and step.ended is None:
            step.ended = approval.expires_at or approval.created_at
        step.result = "waiting" if approval.status == "open" else approval.status
        step.parent = None if above is None else above.id
        step.details |= {"answered_by": approval.answered_by, "reason": approval.reason}
        self.add(step)

    def add_run(self, child: ListedRun) -> None:
        """Add a run that a hook or a tool of this one started, within that."""
        around = (
            step
            for step in self.steps.values()
            if step.kind in ("hook", "tool")
            and step.began <= child.created_at
            and (step.ended is None or step.ended >= child.created_at)
        )
        above = max(around, key=lambda step: step.began, default=None)
        name = f"r-{child.run_id}"
        step = Step(name, "run", child.agent_name, child.created_at, child.ended_at)
        step.parent = None if above is None else above.id
        step.result = child.phase
        step.details |= {"run_id": child.run_id, "status": child.status}
        self.add(step)

    def add_delivery(self, delivery: Delivery) -> None:
        """Add what is owed for the run's end."""
        name = delivery.delivery_id
        step = Step(name, "delivery", delivery.kind, delivery.created_at, delivery.ended_at)
        step.result = delivery.status
        step.details["attempts"] = delivery.attempts
        self.add(step)

    def add_gaps(self) -> None:
        """Add the time of an attempt that no step covers: it is the agent's own code."""
        run = self.run
        if run.started_at is None:
            return
        over = run.ended_at or self.story.now
        least = max(_LEAST_GAP, (over - run.started_at) / 100)
        covered = [
            (step.began, step.ended or over)
            for step in self.steps.values()
            if step.kind not in ("queue", "attempt", "delivery", "finish")
        ]
        until = run.started_at
        for number, (began, ended) in enumerate([*sorted(covered), (over, over)]):
            if min(began, over) - until >= least:
                gap = Step(f"g-{number}", "agent", "agent code, not measured", until)
                gap.ended = min(began, over)
                gap.parent = self._attempt_at(until)
                self.add(gap)
            until = max(until, ended)

    def _attempt_at(self, moment: float) -> str | None:
        found = (
            step for step in self.steps.values() if step.kind == "attempt" and step.began <= moment
        )
        above = max(found, key=lambda step: step.began, default=None)
        return None if above is None else above.id

    def sum_times(self) -> dict[str, float]:
        """Return where the run's time went, in milliseconds; what is at once counts once."""
        run, now = self.run, self.story.now
        started, over = run.started_at, run.ended_at or now
        hooks = [(s.began, s.ended or now) for s in self.steps.values() if s.kind == "hook"]
        people = [(s.began, s.ended or now) for s in self.steps.values() if s.kind == "person"]
        asked = [call for call in hooks if not any(_overlap(call, wait) for wait in people)]
        inside = (started or over, over)
        busy = _covered([*asked, *people], *inside)
        return {
            "total_ms": (over - run.created_at) * 1000,
            "queue_ms": ((started or over) - run.created_at) * 1000,
            "hooks_ms": _covered(asked, 0.0, float("inf")) * 1000,
            "people_ms": _covered(people, 0.0, float("inf")) * 1000,
            "agent_ms": max(0.0, inside[1] - inside[0] - busy) * 1000,
        }

    def find_block(self) -> str | None:
        """Return the call of the hook that ended the run; None: none did."""
        if self.run.blocked_by is None:
            return None
        calls = [
            step
            for step in self.steps.values()
            if step.kind == "hook"
            and step.name == self.run.blocked_by
            and step.result in ("blocked", "failed", "asked")
        ]
        return max(calls, key=lambda step: step.began).id if calls else None


_TOOL_POINTS = ("before_tool_call", "after_tool_call", "on_tool_error")
_MARKS = {
    "attempt_started": _Tree.start_attempt,
    "node_started": _Tree.start_node,
    "node_finished": _Tree.end_node,
    "model_started": _Tree.start_model,
    "model_finished": _Tree.end_model,
    "tool_started": _Tree.start_tool,
    "tool_finished": _Tree.end_tool,
    "end": _Tree.end_run,
}


def _hook_result(record: Record) -> str:
    if record.get("failure") is not None:
        return "failed"
    word = _WORDS.get(record.get("decision") or "")
    if word == "blocked" and record.get("shadow"):
        return "would_block"
    if word is not None:
        return f"would_{record['decision']}" if record.get("shadow") else word
    return "changed" if record.get("changed") else PASSED


_STRICT = (
    *("blocked", "failed", "asked", "retried", "stopped", "replaced", "would_block", "changed"),
    *("running", PASSED),
)


def _strictest(results: Sequence[str]) -> str:
    return next((word for word in _STRICT if word in results), results[0])


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _covered(spans: Iterable[tuple[float, float]], first: float, last: float) -> float:
    """Return for how long some spans last between two moments; two at once count once."""
    spent, until = 0.0, first
    for began, ended in sorted(spans):
        begin, end = max(began, until), min(ended, last)
        spent += max(0.0, end - begin)
        until = max(until, end)
    return spent


def _flatten(steps: Mapping[str, Step]) -> Iterator[Step]:
    """Yield steps in their order, each after the one that it is a part of."""
    beneath: dict[str | None, list[Step]] = {}
    for step in steps.values():
        above = step.parent if step.parent in steps else None
        beneath.setdefault(above, []).append(step)
    for each in beneath.values():
        each.sort(key=lambda step: step.began)
    left = [(step, 0) for step in reversed(beneath.get(None, []))]
    while left:
        step, depth = left.pop()
        step.depth = depth
        yield step
        left += [(each, depth + 1) for each in reversed(beneath.get(step.id, []))]


def fold_passed(steps: Sequence[Step]) -> list[Step]:
    """Put firings in which all hooks passed together, where they follow each other."""
    kept: list[Step] = []
    folded: set[str] = set()
    for step in steps:
        if step.kind == "point" and step.result == PASSED:
            folded.add(step.id)
            last = kept[-1] if kept else None
            if last is not None and (last.kind, last.parent) == ("folded", step.parent):
                last.extend_to(step.ended or step.began)
                last.details["hooks"] += step.details["hooks"]
            else:
                name = f"f-{step.id[2:]}"
                fold = Step(name, "folded", "", step.began, step.ended, step.parent, PASSED)
                fold.depth = step.depth
                fold.details["hooks"] = step.details["hooks"]
                kept.append(fold)
        elif step.parent not in folded:
            kept.append(step)
    for step in kept:
        if step.kind == "folded":
            number = step.details["hooks"]
            step.name = f"{number} {'hook' if number == 1 else 'hooks'} passed"
    return kept


def filter_steps(steps: Sequence[Step], show: str = "all", text: str = "") -> list[Step]:
    """Return the steps that are wanted, and those that they are within."""
    if show == "all" and not text:
        return [*steps]
    by_id = {step.id: step for step in steps}
    wanted: set[str] = set()
    for step in steps:
        if _is_shown(step, show) and text.casefold() in _words_of(step):
            above: str | None = step.id
            while above is not None and above not in wanted:
                wanted.add(above)
                above = by_id[above].parent if above in by_id else None
    return [step for step in steps if step.id in wanted]


def _is_shown(step: Step, show: str) -> bool:
    if show in ("models", "tools"):
        return step.kind == show[:-1]
    if show == "failed":
        return step.result == "failed"
    if show == "changed":
        return step.kind == "hook" and bool(step.details.get("changed"))
    if show == "decisions":
        return step.kind == "hook" and step.result not in (PASSED, "running")
    return True


def _words_of(step: Step) -> str:
    told = (step.name, step.kind, step.result, step.details.get("reason") or "")
    return " ".join(told).casefold()
