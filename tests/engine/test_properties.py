"""Random sets of hooks, compared with a small model that was written from the contracts."""

import asyncio
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Reject, Replace, Retry, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AgentResponse, AssistantMessage, ModelRequest, RunError, Session

quick = settings(max_examples=200, derandomize=True, deadline=None)

# point: a value that carries a path, what a hook may decide, whether it may change, its lanes
POINTS = {
    "after_llm_call": (
        lambda path: AssistantMessage(content="x", metadata={"path": path}),
        {"block", "fail", "ask", "retry", "stop"},
        ["transform", "gate", "observe"],
    ),
    "before_llm_call": (
        lambda path: ModelRequest(params={"path": path}),
        {"block", "fail", "ask", "replace", "stop"},
        ["transform", "gate", "observe"],
    ),
    "on_result": (
        lambda path: {"path": path},
        {"block", "fail", "ask"},
        ["transform", "gate", "observe"],
    ),
    "before_run": (
        lambda path: {"path": path},
        {"block", "fail"},
        ["transform", "gate", "observe"],
    ),
    "query_end": (
        lambda path: AgentResponse(output={"path": path}),
        set(),
        ["transform", "observe"],
    ),
    "on_session_start": (
        lambda path: Session(session_id="s", thread_ids=path),
        {"block", "fail"},
        ["gate", "observe"],
    ),
    "on_run_error": (lambda path: RunError(input={"path": path}), set(), ["observe"]),
}
INJECTS = {"after_llm_call", "before_llm_call"}
STRICT = ["fail", "block", "retry", "ask", "stop", "replace", "continue"]


def path_of(value):
    """Read the path that a value carries."""
    for name in ("metadata", "params", "output", "input"):
        held = getattr(value, name, None)
        if held:
            return list(held["path"])
    return list(value.thread_ids) if isinstance(value, Session) else list(value["path"])


@dataclass(frozen=True)
class Plan:
    """One hook of a test."""

    name: str
    does: str
    lane: str
    level: int = 0
    priority: int = 100
    style: str = "sync"
    mode: str = "enforce"
    on_error: str | None = None
    max_retries: int = 3
    answer: str = "approve"


DOES = [
    "pass",
    "go",
    "change",
    "last",
    "inject",
    "block",
    "reject",
    "fail",
    "ask",
    "retry",
    "stop",
    "replace",
    "raise",
    "wrong",
    "mutate",
]


@st.composite
def plans(draw, point, does=DOES):
    """Some hooks for one point."""
    lanes = POINTS[point][2]
    made = []
    for number in range(draw(st.integers(1, 7))):
        lane = draw(st.sampled_from(lanes))
        may_block = lane != "observe" and "block" in POINTS[point][1]
        hang = draw(st.integers(0, 24)) == 0 and "raise" in does
        made.append(
            Plan(
                name=f"h{number}",
                does="hang" if hang else draw(st.sampled_from(does)),
                lane=lane,
                level=draw(st.integers(0, 2)),
                priority=draw(st.sampled_from([1, 100, 100, 200])),
                style=draw(st.sampled_from(["sync", "async", "suspends"])),
                mode=draw(st.sampled_from(["enforce"] * 4 + ["shadow", "off"])),
                on_error=draw(st.sampled_from([None, "continue"] + ["block"] * may_block)),
                max_retries=draw(st.integers(0, 2)),
                answer=draw(st.sampled_from(["approve", "approve", "edit", "deny"])),
            )
        )
    return made


cases = st.sampled_from([*POINTS]).flatmap(lambda point: st.tuples(st.just(point), plans(point)))


def behave(plan, point, value):
    """Do what a plan says: the one place where a plan becomes a hook's answer."""
    changed = POINTS[point][0]([*path_of(value), plan.name])
    if plan.does == "raise":
        raise ValueError(plan.name)
    if plan.does == "reject":
        raise Reject(plan.name)
    if plan.does == "mutate":
        path = value.thread_ids if isinstance(value, Session) else vars_of(value)["path"]
        path.append("damage")
    return {
        "go": Continue(),
        "change": Continue(changed),
        "last": Continue(changed, last=True),
        "inject": Continue(inject=[{"by": plan.name}]),
        "block": Block(plan.name),
        "fail": Fail(plan.name),
        "ask": Ask(plan.name),
        "retry": Retry(plan.name),
        "stop": Stop(AssistantMessage(content=plan.name)),
        "replace": Replace(AssistantMessage(content=plan.name)),
        "wrong": plan.name,
    }.get(plan.does)


def vars_of(value):
    held = [getattr(value, name, None) for name in ("metadata", "params", "output", "input")]
    return next((found for found in held if found), value)


def hook_of(plan, point):
    """Make the hook of a plan, in its style."""

    def sync(event, value):
        return behave(plan, point, value)

    async def no_wait(event, value):
        return behave(plan, point, value)

    async def suspends(event, value):
        await asyncio.sleep(10 if plan.does == "hang" else 0)
        return behave(plan, point, value)

    if plan.does == "hang":
        return suspends
    return {"sync": sync, "async": no_wait, "suspends": suspends}[plan.style]


@dataclass
class Budget:
    limit: int
    used: int = 0
    spent: dict = field(default_factory=dict)

    def grant(self, plan):
        spent = self.spent.get(plan.name, 0)
        if spent >= plan.max_retries or self.used >= self.limit:
            return False
        self.spent[plan.name] = spent + 1
        self.used += 1
        return True


class Model:
    """What the contracts say should happen at one point, step by step."""

    def __init__(self, point, plans, budget):
        self.point, self.budget = point, budget
        self.may = POINTS[point][1]
        order = {plan.name: number for number, plan in enumerate(plans)}
        on = [plan for plan in plans if plan.mode != "off"]
        on.sort(key=lambda plan: (plan.level, plan.priority, order[plan.name]))
        self.lanes = {
            lane: [plan for plan in on if plan.lane == lane]
            for lane in ("transform", "gate", "observe")
        }
        self.path, self.calls, self.inject = [], [], []
        self.decisions = []
        self.asks, self.approved = [], set()

    @property
    def decided(self):
        """The strictest decision; on a tie the first."""
        going_on = ("continue", None, None, None)
        return min(self.decisions, key=lambda made: STRICT.index(made[0]), default=going_on)

    @property
    def decision(self):
        return self.decided[0]

    def run(self):
        self.transform(self.lanes["transform"])
        gated = None
        while True:
            if self.decision not in ("block", "fail") and gated != self.path:
                gated = list(self.path)
                # what gates said of a value that was edited since no longer counts
                self.decisions = [made for made in self.decisions if made[3] != "gate"]
                for plan in self.lanes["gate"]:
                    self.call(plan)
            if not self.asks:
                break
            asks, self.asks = self.asks, []
            rest, self.rest = self.rest, []
            if self.stricter("ask", self.decision) and all(self.person(plan) for plan in asks):
                self.transform(rest)
        for plan in self.lanes["observe"]:
            self.call(plan)
        return self

    rest = ()

    def transform(self, plans):
        """Call transform hooks until one decides; `last` ends the lane for its level."""
        ended = set()
        for number, plan in enumerate(plans):
            if plan.level in ended:
                continue
            step = self.call(plan)
            if step == "last":
                ended.add(plan.level)
            if step == "ask":
                self.rest = [late for late in plans[number + 1 :] if late.level not in ended]
            if step in ("ask", "decided"):
                return

    def person(self, plan):
        """Put a question; a person may approve, approve with an edited value, or deny."""
        if plan.answer == "deny":
            self.decide("block", plan)
            return False
        if plan.answer == "edit" and self.path.count("edited") < 1:
            self.path = [*self.path, "edited"]
        self.approved.add((plan.name, tuple(self.path)))
        return True

    def stricter(self, one, other):
        return STRICT.index(one) < STRICT.index(other)

    def decide(self, decision, plan, brought=None):
        self.decisions.append((decision, plan.name, brought, plan.lane))

    def call(self, plan):
        """Call one hook: note its ending, and say how a transform lane goes on."""
        failure = self.failure(plan)
        if failure:
            self.calls.append((plan.name, "hook_failed", failure, None))
            return self.failed(plan, failure)
        said = {"reject": "block", "pass": "continue", "go": "continue", "change": "continue"}
        said |= {"last": "continue", "inject": "continue"}
        decision = said.get(plan.does, plan.does)
        kind = "hook_blocked" if decision in ("block", "fail") else "hook_complete"
        self.calls.append((plan.name, kind, None, decision))
        if plan.mode == "shadow":
            return "go"
        return self.apply(plan, decision)

    def failure(self, plan):
        if plan.does in ("raise", "mutate"):
            return "error"
        if plan.does == "hang":
            return "timeout"
        decides = "block" if plan.does == "reject" else plan.does
        fine = {"pass", "go"}
        if plan.lane != "observe":
            fine |= self.may
        if plan.lane == "transform":
            fine |= {"change", "last"} | ({"inject"} if self.point in INJECTS else set())
        return None if decides in fine else "invalid"

    def failed(self, plan, failure):
        if plan.lane == "observe" or plan.mode == "shadow":
            return "go"
        does = plan.on_error
        if does is None and failure == "invalid":
            does = "fail"
        if does is None:
            closed = plan.lane == "gate" or self.point == "before_run"
            does = "block" if closed else "continue"
        if does == "continue":
            return "go"
        self.decide(does, plan)
        return "decided"

    def apply(self, plan, decision):
        if plan.does in ("change", "last"):
            self.path = [*self.path, plan.name]
        if plan.does == "inject":
            self.inject.append({"by": plan.name})
        if decision == "continue":
            return plan.does
        if decision == "ask":
            if (plan.name, tuple(self.path)) in self.approved:
                return "go"
            self.asks.append(plan)
            return "ask"
        if decision == "retry" and not self.budget.grant(plan):
            decision = "fail"
        self.decide(decision, plan, plan.name if decision in ("stop", "replace") else None)
        return "decided"


def built(point, plans, limit, sink=None):
    """Make the registries of three levels, and a scope over them all."""
    people = {plan.name: plan.answer for plan in plans}

    async def ask(question):
        path = path_of(question.value)
        if people[question.hook] == "deny":
            return Approval(approved=False)
        if people[question.hook] == "edit" and "edited" not in path:
            return Approval(approved=True, value=POINTS[point][0]([*path, "edited"]))
        return Approval(approved=True)

    scope = None
    for level in range(3):
        registry = HookRegistry(sink if level == 0 else None, ask=ask, max_retries=limit)
        for plan in plans:
            if plan.level == level:
                options = {} if plan.on_error is None else {"on_error": plan.on_error}
                registry.register(
                    hook_of(plan, point),
                    point,
                    name=plan.name,
                    lane=plan.lane,
                    priority=plan.priority,
                    mode=plan.mode,
                    timeout=0.01 if plan.does == "hang" else 60,
                    max_retries=plan.max_retries,
                    **options,
                )
        scope = registry.scope(parent=scope, run_id="r")
    return scope


def check(point, plans, limit, times):
    """Fire some times, and hold each verdict against the model's."""

    async def fire_all():
        told = []
        scope = built(point, plans, limit, told.append)
        value = POINTS[point][0]([])
        for _ in range(times):
            told.clear()
            model = Model(point, plans, budget).run()
            verdict = await scope.fire(point, value)
            compare(model, verdict, told)
            assert value == POINTS[point][0]([])

    budget = Budget(limit)
    asyncio.run(fire_all())
    assert budget.used <= limit


@quick
@given(case=cases, limit=st.integers(0, 4), times=st.integers(1, 3))
def test_verdict_and_records_are_those_of_the_model(case, limit, times):
    check(*case, limit, times)


ASKING = {
    "transform": ["ask", "ask", "change", "last", "stop", "retry", "pass"],
    "gate": ["ask", "pass", "pass", "stop"],
    "observe": ["pass"],
}


@st.composite
def asking(draw):
    """Hooks of which many ask, and few keep that from mattering."""
    made = []
    for number in range(draw(st.integers(2, 6))):
        lane = draw(st.sampled_from(["transform", "transform", "gate", "observe"]))
        does = draw(st.sampled_from(ASKING[lane]))
        answer = draw(st.sampled_from(["approve", "edit", "edit", "deny"]))
        style = draw(st.sampled_from(["sync", "suspends"]))
        made.append(Plan(f"h{number}", does, lane, number % 2, style=style, answer=answer))
    return made


@settings(quick, max_examples=400)
@given(plans=asking(), limit=st.integers(1, 4))
def test_asking_a_person_goes_as_in_the_model(plans, limit):
    check("after_llm_call", plans, limit, 2)


def compare(model, verdict, told):
    """Hold a verdict against the model's."""
    calls = [
        (end.hook, str(end.kind), end.failure, end.decision and str(end.decision))
        for end in verdict.records[1::2]
    ]
    assert calls == model.calls
    assert [start.hook for start in verdict.records[::2]] == [call[0] for call in calls]
    assert {str(start.kind) for start in verdict.records[::2]} <= {"hook_start"}
    assert [record.record_id for record in told] == [r.record_id for r in verdict.records]
    decision, by, brought, _ = model.decided
    assert (str(verdict.decision), verdict.hook) == (decision, by)
    if brought is not None:
        assert verdict.value.content == brought
    elif verdict.records:
        assert path_of(verdict.value) == model.path
    dropped = decision in ("block", "fail", "stop")
    assert list(verdict.inject) == ([] if dropped else model.inject)


@quick
@given(
    point=st.sampled_from(["on_result", "after_llm_call"]),
    data=st.data(),
)
def test_shadow_hooks_change_nothing_whatever_they_do(point, data):
    plans_there = [replace(plan, mode="shadow", max_retries=0) for plan in data.draw(plans(point))]

    async def fired():
        return await built(point, plans_there, 0).fire(point, POINTS[point][0]([]))

    verdict = asyncio.run(fired())
    assert (verdict.decision, verdict.hook, list(verdict.inject)) == ("continue", None, [])
    assert path_of(verdict.value) == []
    assert len(verdict.records) == 2 * len(plans_there)
