"""Random scripts, tools and hooks: what holds for every run of an agent, whatever happens in it."""

import asyncio
import json
import logging
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkrail import Agent
from checkrail.agent import Finished, ModelError, RunFailed, Tool
from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Reject, Replace, Retry, Stop
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult

from .support_streaming import CharModel, collected, others, records, settled, text_of

quick = settings(max_examples=100, derandomize=True, deadline=None)

TOOLS = ["echo", "raise", "slow", "late", "helper", "nobody"]
MILD = {
    "before_llm_call": ["change", "redact", "inject", "ask", "replace", "replace_calls"],
    "after_llm_call": ["change", "redact", "inject", "ask", "retry", "add_calls", "drop_calls"],
    "before_tool_call": ["change", "redact", "inject", "ask", "replace", "other_id", "rename"],
    "after_tool_call": ["change", "redact", "inject", "block", "other_id", "mend"],
    "on_tool_error": ["change", "redact", "inject", "block", "mend"],
    "before_final_response": ["change", "redact", "inject", "ask", "retry", "add_calls"],
    "query_end": ["change", "redact", "nothing"],
}
HARSH = {
    "before_llm_call": ["block", "fail", "stop", "stop_calls", "reject"],
    "after_llm_call": ["block", "fail", "stop", "stop_calls", "reject"],
    "before_tool_call": ["block", "fail", "reject"],
    "after_tool_call": ["block", "fail", "reject"],
    "on_tool_error": ["block", "fail", "reject"],
    "before_final_response": ["block", "fail", "stop", "reject"],
    "query_end": [],
}
GATES = {"block", "fail", "ask", "retry", "stop", "raise", "reject"}
GATED = [*MILD][:-1]
TURNS = [frozenset({0}), frozenset({0, 1}), frozenset({1}), frozenset({2}), frozenset(range(9))]
HOLDING = {"after_llm_call", "before_final_response", "query_end"}
ROLES = ["user"] * 8 + ["system", "developer", "assistant", "tool", "function", "", None, "no role"]
CONTENTS = ["text"] * 9 + ["parts", "empty", "none", "missing", "number", "no calls"]


@dataclass(frozen=True)
class Act:
    """One hook of a test: where, what, when, and which messages it injects."""

    name: str
    point: str
    does: str
    lane: str
    mode: str
    turns: frozenset
    inner: bool = False
    style: str = "sync"
    on_error: str | None = None
    role: str | None = "user"
    content: str = "text"


@dataclass(frozen=True)
class Case:
    """A whole test: what the model says, which hooks there are, and how it is run."""

    script: list
    helping: list
    acts: list
    way: str = "run"
    cancel: int | None = None
    answer: str = "approve"


@dataclass
class Seen:
    """What is found out while a case runs."""

    spent: int = 0
    ends: list = field(default_factory=list)
    began: set = field(default_factory=set)
    calls: Counter = field(default_factory=Counter)
    verdicts: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    records: list = field(default_factory=list)

    def of(self, *decisions, run="run"):
        """Give the verdicts of a run that were one of these."""
        return [v for v in self.verdicts if v.run_id == run and v.decision in decisions]


class Ruled(NamedTuple):
    """What came of one point of a run."""

    run_id: str
    point: str
    decision: str
    value: object
    inject: list


class Model:
    """Says what its script says, and counts what it said."""

    provider = "test"
    params = {}  # noqa: RUF012 - a model may have a plain dict

    def __init__(self, name, script, seen):
        self.name = name
        self.left = [*script]
        self.seen = seen

    async def complete(self, request):
        answer = await self._answer(request)
        self.seen.spent += isinstance(answer, AssistantMessage)
        return answer

    async def stream(self, request):
        answer = await self._answer(request)
        for piece in re.findall(r"\S+\s*", getattr(answer, "content", "garbage")):
            await asyncio.sleep(0)
            yield piece
        self.seen.spent += isinstance(answer, AssistantMessage)
        yield answer

    async def _answer(self, request):
        self.seen.requests.append(request.messages)
        kind, *more = self.left.pop(0) if self.left else ("say", "the end")
        await asyncio.sleep(0)
        if kind == "error":
            self.seen.spent += 1
            raise ModelError("down", usage={"tokens": 1})
        if kind == "break":
            raise OSError("line is dead")
        if kind == "garbage":
            return more[0]
        text, made = more if kind == "call" else (more[0], ())
        if text:
            text = f"{self.name} says {text} as {len(self.seen.requests)}"
        wanted = [ToolCall(own, name, {"query": f"{name}?"}) for own, name in made]
        return AssistantMessage(text, tool_calls=wanted, usage={"tokens": 1})


class Echo(Tool):
    """A tool that does as its name says."""

    description = "Does as its name says."
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}  # noqa: RUF012

    def __init__(self, name):
        self.name = name
        self.timeout = 0.001 if name == "late" else None

    async def call(self, args, context):
        if self.name == "raise":
            raise ValueError("no luck")
        if self.name == "slow":
            for _ in range(5):
                await asyncio.sleep(0)
        if self.name == "late":
            await asyncio.Event().wait()
        return {"echo": dict(args)}


texts = st.sampled_from(["", "this", "that is so"])
calls = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "call_2"]), st.sampled_from(TOOLS)),
    min_size=1,
    max_size=3,
)
GARBAGE = [None, 5, b"", {}]
BROKEN = ["error", "break", "garbage"]
KINDS = {True: ["call", "call", "say"], False: ["call"] * 8 + ["say"] * 4 + BROKEN}


@st.composite
def replies(draw, mild=False):
    """Something that a model says, or does not."""
    kind = draw(st.sampled_from(KINDS[mild]))
    if kind == "garbage":
        return kind, draw(st.sampled_from(GARBAGE))
    if kind in {"error", "break"}:
        return (kind,)
    text = draw(texts)
    return (kind, text, draw(calls)) if kind == "call" else (kind, text)


@st.composite
def hooks(draw, number, mild=False):
    """Some hook, where it may stand, that does what may be done there."""
    point = draw(st.sampled_from(GATED if mild else [*MILD]))
    others = [] if mild else ["observe"] + ["gate"] * (point in GATED)
    lane = draw(st.sampled_from(["transform"] * 5 + others))
    more = ["inject"] * 3 if mild else [*HARSH[point], "raise", "wrong"]
    does = draw(st.sampled_from(MILD[point] + more))
    if lane == "gate" and does not in GATES:
        does = "raise"
    blocks = lane != "observe" and point != "query_end"
    return Act(
        f"h{number}",
        point,
        does,
        lane,
        mode=draw(st.sampled_from(["enforce"] * 5 + ["shadow"])),
        turns=draw(st.sampled_from(TURNS)),
        inner=draw(st.sampled_from([False] * 4 + [True])),
        style=draw(st.sampled_from(["sync", "async", "suspends"])),
        on_error=draw(st.sampled_from([None, "continue", "continue"] + ["block"] * blocks)),
        role=draw(st.sampled_from(ROLES)),
        content=draw(st.sampled_from(CONTENTS)),
    )


@st.composite
def cases(draw, mild=False, cancelled=False):
    """A whole case; in a mild one the run is likely to go on for some time."""
    count = draw(st.integers(2, 8))
    return Case(
        script=draw(st.lists(replies(mild), min_size=1, max_size=5)),
        helping=draw(st.lists(replies(mild), max_size=3)),
        acts=[draw(hooks(number, mild)) for number in range(count)],
        way=draw(st.sampled_from(["run", "stream"] + ["leave"] * cancelled)),
        cancel=draw(st.integers(1, 40)) if cancelled else None,
        answer="approve" if mild else draw(st.sampled_from(["approve", "deny", "silence"])),
    )


def hook_of(act, seen):
    """Make the hook that an act describes."""

    def decide(event, value):
        turn = seen.calls[act.name]
        seen.calls[act.name] += 1
        if turn not in act.turns:
            return None
        return OUTCOMES[act.does](act, value, turn)

    async def awaited(event, value):
        if act.style == "suspends":
            await asyncio.sleep(0)
        return decide(event, value)

    return decide if act.style == "sync" else awaited


def changed(value, text):
    """Change what is the value's own."""
    if hasattr(value, "args"):
        return replace(value, args={**value.args, "query": text})
    if hasattr(value, "params"):
        return replace(value, params={**value.params, "changed": text})
    return replace(value, content=text)


def calling(value):
    """Have an answer call tools, without a thought for their ids."""
    return replace(value, tool_calls=[ToolCall("", "echo"), ToolCall("a", "slow")] * 2)


def message(act, turn):
    """Make a message to inject, odd or not."""
    text = f"injected by {act.name} at {turn}"
    given = {
        "text": text,
        "parts": [{"type": "text", "text": text}],
        "empty": "",
        "none": None,
        "number": 5,
        "no calls": text,
    }
    made = {"role": act.role, "content": given.get(act.content)}
    if act.role == "no role":
        del made["role"]
    if act.content == "missing":
        del made["content"]
    return made | ({"tool_calls": []} if act.content == "no calls" else {})


def is_told(given):
    """Say whether an injected message is one that a conversation can take."""
    known = given.get("role", "user") in {"user", "system", "developer", "assistant"}
    return known and isinstance(given.get("content"), (str, list)) and bool(given["content"])


def fall(act, value, turn):
    raise ValueError("a hook fell")


def refuse(act, value, turn):
    raise Reject("rejected")


def named(act, turn, verb):
    """Make a text that is said only once."""
    return f"{verb} by {act.name} at {turn}"


def answer(act, turn, verb):
    """Make an answer that is given only once."""
    return AssistantMessage(named(act, turn, verb))


OUTCOMES = {
    "change": lambda act, value, turn: Continue(changed(value, named(act, turn, "changed"))),
    "redact": lambda act, value, turn: Continue(
        changed(value, named(act, turn, "redacted")), redacted=True
    ),
    "inject": lambda act, value, turn: Continue(inject=[message(act, turn)]),
    "block": lambda act, value, turn: Block("blocked"),
    "fail": lambda act, value, turn: Fail("failed"),
    "ask": lambda act, value, turn: Ask("may it?", timeout=0.001),
    "retry": lambda act, value, turn: Retry("again", [message(act, turn)] * (act.lane != "gate")),
    "replace": lambda act, value, turn: Replace(named(act, turn, "replaced")),
    "replace_calls": lambda act, value, turn: Replace(calling(answer(act, turn, "replaced"))),
    "stop": lambda act, value, turn: Stop(named(act, turn, "stopped")),
    "stop_calls": lambda act, value, turn: Stop(calling(answer(act, turn, "stopped"))),
    "add_calls": lambda act, value, turn: Continue(calling(value)),
    "drop_calls": lambda act, value, turn: Continue(replace(value, tool_calls=[])),
    "other_id": lambda act, value, turn: Continue(replace(value, id="other")),
    "rename": lambda act, value, turn: Continue(replace(value, name="echo")),
    "mend": lambda act, value, turn: Continue(ToolResult("x", "y", "mended")),
    "nothing": lambda act, value, turn: Continue(None),
    "raise": fall,
    "reject": refuse,
    "wrong": lambda act, value, turn: "no outcome",
}


def check_order(messages):
    """Hold a conversation against what providers demand of it."""
    waiting, known = [], set()
    for said in messages:
        if waiting:
            assert (said["role"], said["tool_call_id"]) == ("tool", waiting.pop(0))
            continue
        assert said["role"] in {"system", "developer", "user", "assistant"}
        assert isinstance(said["content"], (str, list))
        assert said.get("tool_calls", True)
        made = said.get("tool_calls", [])
        assert not made or said["role"] == "assistant"
        waiting = [call["id"] for call in made]
        assert len({*waiting} - known - {""}) == len(waiting)
        known |= {*waiting}
        assert all(isinstance(json.loads(c["function"]["arguments"]), dict) for c in made)
    assert not waiting


def watched(seen):
    """Make the outermost level, which sees everything before anybody else does."""
    server = HookRegistry(seen.records.append)

    def ended(event, response):
        seen.ends.append((event.run_id, response))

    def ruled(event):
        given = [str(one["content"]) for one in event.verdict.inject if is_told(one)]
        decision = str(event.verdict.decision)
        seen.verdicts.append(Ruled(event.run_id, event.point, decision, event.value, given))

    server.register(ended, "query_end", priority=-1, name="ended")
    server.register(lambda e: seen.began.add(e.run_id), "before_llm_call", lane="observe", name="b")
    server.register(ruled, *MILD, lane="observe", name="ruled")
    return server


def agent_of(case, seen):
    """Make the agent of a case, with a helper beneath it."""

    async def person(question):
        if case.answer == "silence":
            await asyncio.Event().wait()
        return Approval(approved=case.answer == "approve")

    helper = Agent(
        Model("inner", case.helping, seen), map(Echo, TOOLS[:4]), name="helper", max_iterations=3
    )
    tools = [*map(Echo, TOOLS[:4]), helper]
    model = Model("outer", case.script, seen)
    agent = Agent(model, tools, "Be good.", watched(seen), max_iterations=4, ask=person)
    for act in case.acts:
        options = {} if act.on_error is None else {"on_error": act.on_error}
        options |= {"lane": act.lane, "mode": act.mode, "name": act.name}
        level = helper if act.inner else agent
        level.registry.register(hook_of(act, seen), act.point, **options)
    return agent


async def done(case, agent):
    """Run a case to its end; give its events, its conversation and how it ended."""
    talk = agent.conversation()
    events = []

    async def go():
        if case.way == "run":
            await talk.run("go", run_id="run")
            return
        async with talk.stream("go", run_id="run") as stream:
            async for event in stream:
                events.append(event)
                if (case.way, len(events)) == ("leave", case.cancel):
                    break

    task = asyncio.create_task(go())
    if case.cancel is not None and case.way != "leave":
        for _ in range(case.cancel):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    await agent.aclose()
    await settled()
    error = None if task.cancelled() else task.exception()
    left = case.way == "leave" and len(events) == case.cancel
    return events, talk, error, task.cancelled() or left


def played(case):
    """Run a case, check what holds for all of them, and give what was seen."""
    seen = Seen()

    async def play():
        events, talk, error, cancelled = await done(case, agent_of(case, seen))
        assert not others()
        return events, talk.messages, error, cancelled

    events, messages, error, cancelled = asyncio.run(play())
    for conversation in (messages, *seen.requests, *(r.messages for _, r in seen.ends)):
        check_order(conversation)
    check_ends(seen, error, cancelled)
    check_records(seen)
    if case.way != "run":
        check_text(case, seen, events, messages)
        if error is None and not cancelled:
            assert records(events) == seen.records
            assert isinstance(events[-1], Finished)
    return seen, events, messages, error


def check_ends(seen, error, cancelled):
    """`query_end` came once for each run, with all that was used, and says how it ended."""
    ended = [run_id for run_id, _ in seen.ends]
    assert len({*ended}) == len(ended)
    assert seen.began <= {*ended}
    assert error is None or isinstance(error, RunFailed)
    if "run" not in ended:
        assert cancelled
        return
    response = dict(seen.ends)["run"]
    assert ended[-1] == "run"
    assert response.usage.get("tokens", 0) == seen.spent
    assert (response.error is None) == (response.stop_reason in {"answer", "stop"})
    for run_id, other in seen.ends:
        check_history(seen, run_id, other)
    if not cancelled:
        broken = any(v.point == "query_end" for v in seen.of("fail"))  # by a hook, at the very end
        failed = response.stop_reason in {"fail", "error"} or broken
        assert response.stop_reason != "cancelled"
        assert failed == (error is not None)
        check_reason(seen, response)


def check_reason(seen, response):
    """A run ends as its hooks said; what fails beneath it fails it too."""
    failing = [verdict for verdict in seen.verdicts if verdict.decision == "fail"]
    before = [v for v in failing if (v.run_id, v.point) != ("run", "query_end")]
    assert bool(before) == (response.stop_reason == "fail")
    points = {verdict.point for verdict in seen.of("block")}
    refused = not points.isdisjoint({"before_llm_call", "after_llm_call", "before_final_response"})
    assert refused == (response.stop_reason == "block")


def check_history(seen, run_id, response):
    """What hooks put into a conversation is there once, and what they refused is not."""
    told = Counter(str(said["content"]) for said in response.messages)
    if response.stop_reason in {"answer", "stop", "max_iterations"}:
        placed = seen.of("continue", "retry", "replace", run=run_id)
        assert all(told[content] == 1 for verdict in placed for content in verdict.inject)
    assert not any(told[text] for text in rejected(seen, run_id))


def rejected(seen, run_id):
    """Give the texts of answers that were not let pass."""
    points = {"after_llm_call", "before_final_response"}
    refused = [v for v in seen.of("retry", "block", "fail", run=run_id) if v.point in points]
    return {v.value.content for v in refused} - {""}


def check_records(seen):
    """Every call of a hook has a start and one ending, and there are no others."""
    open_calls = Counter()
    started = Counter()
    for record in seen.records:
        key = (record.hook, record.point, *record.ids.values())
        if record.kind is RecordKind.START:
            open_calls[key] += 1
            started[record.hook] += 1
        else:
            open_calls[key] -= 1
            assert open_calls[key] >= 0
    assert not +open_calls
    assert all(started[name] >= number for name, number in seen.calls.items())


def check_text(case, seen, events, messages):
    """What was streamed is what was let pass, and nothing else, if a hook could refuse it."""
    acting = [a for a in case.acts if a.mode == "enforce" and a.lane != "observe" and not a.inner]
    held = any(act.point in HOLDING for act in acting)
    response = dict(seen.ends).get("run")
    passed = {said["content"] for said in messages if isinstance(said["content"], str)}
    if events and isinstance(events[-1], Finished):
        passed.add(events[-1].response.content)
    iterations = {event.iteration for event in events if hasattr(event, "text")}
    for iteration in iterations:
        text = text_of(events, iteration)
        unfinished = response is None or response.stop_reason in {"error", "cancelled", "fail"}
        assert text in passed or (unfinished and not held and iteration == max(iterations))
        assert text not in rejected(seen, "run")
    if events and isinstance(events[-1], Finished) and response.error is None:
        final = events[-1].response.content
        assert text_of(events, max(iterations, default=0)) == final or not final


@pytest.fixture(autouse=True)
def quiet():
    """Do not format what is logged of thousands of failures that are meant."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@quick
@given(case=cases())
def test_a_run_keeps_its_promises_whatever_happens(case):
    played(case)


@quick
@given(case=cases(mild=True))
def test_a_run_that_goes_on_for_long_keeps_its_promises(case):
    played(case)


@quick
@given(case=cases(cancelled=True))
def test_a_run_that_is_cancelled_anywhere_keeps_its_promises(case):
    played(case)


@settings(quick, max_examples=60)
@given(script=st.lists(replies(), max_size=4), helping=st.lists(replies(), max_size=2))
def test_a_stream_ends_as_the_run_does(script, helping):
    ends = []
    for way in ("run", "stream"):
        seen, _, messages, error = played(Case(script, helping, [], way))
        ends.append((messages, str(error), seen.spent, dict(seen.ends)["run"].stop_reason))
    assert ends[0] == ends[1]


words = st.lists(st.sampled_from(["K1234", "K12", "4567", "a", " ", "K", "-"]), max_size=20)


@settings(quick, max_examples=100)
@given(
    text=words.map("".join),
    size=st.integers(1, 6),
    window=st.integers(6, 12),
    label=st.sampled_from(["", "*", "[this is quite a long label]"]),
    points=st.sampled_from(
        [["after_llm_call"], ["before_final_response"], ["after_llm_call", "before_final_response"]]
    ),
)
def test_what_goes_out_of_a_window_is_always_the_beginning_of_what_is_let_pass(
    text, size, window, label, points
):
    def hide(event, message):
        return Continue(re.sub(r"K\d{4}|\b\d{4}\b", label, message.content), redacted=True)

    agent = Agent(CharModel([text], size))
    for number, point in enumerate(points):
        agent.registry.register(hide, point, stream=f"window:{window}", name=f"h{number}")
    events = asyncio.run(collected(agent.stream("go")))
    assert text_of(events) == events[-1].response.content


@settings(quick, max_examples=60)
@given(
    pieces=st.lists(st.text("abx", min_size=1, max_size=4), min_size=1, max_size=12),
    window=st.integers(1, 8),
    way=st.sampled_from(["after_llm_call", "before_final_response"]),
)
def test_nothing_goes_out_past_what_a_window_refuses(pieces, window, way):
    text = "".join(pieces)

    def refuse(event, message):
        return Block("x") if "x" in message.content else None

    class Pieces(CharModel):
        async def stream(self, request):
            for piece in pieces:
                yield piece
            yield await self.complete(request)

    agent = Agent(Pieces([text]))
    agent.registry.register(refuse, way, stream=f"window:{window}")
    events = asyncio.run(collected(agent.stream("go")))
    until = text.find("x")
    assert text_of(events) == text if until < 0 else text[:until].startswith(text_of(events))


def test_the_order_that_is_checked_is_the_one_that_providers_demand():
    call = {"id": "1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "1", "content": "x"}
    check_order([{"role": "user", "content": "x"}, asked, result])
    broken = [[result], [asked], [asked, {"role": "user", "content": "x"}, result]]
    for messages in [*broken, [asked, result, result], [{**asked, "tool_calls": [call] * 2}]]:
        with suppress(KeyError), pytest.raises(AssertionError):
            check_order(messages)
