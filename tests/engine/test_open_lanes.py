"""Hooks that refuse, but would let everything pass when they fail: they are warned of."""

import functools

import pytest

import checkrail
from checkrail import (
    Ask,
    Block,
    Continue,
    Fail,
    Hook,
    HookRegistry,
    ModelRequest,
    Reject,
    Replace,
    Retry,
    ToolResult,
)
from checkrail import Block as No
from checkrail.engine.event import Context
from checkrail.engine.outcomes import Outcome, RejectRun
from checkrail.engine.points import HookPoint

POINT = "before_tool_call"


def blocks(event):
    return Block("no")


def raises(event):
    raise Reject("no")


def raises_for_runs(event):
    raise RejectRun("no")


def fails(event):
    return Fail("no")


async def asks(event):
    return Ask("may it?")


def by_another_name(event):
    return No("no")


def by_its_module(event):
    return checkrail.Block("no")


def by_a_helper_inside(event):
    def refuse():
        return Block("no")

    return refuse()


def annotated(event) -> "Block | None":
    return globals()["blocks"](event)


def with_more(event, value=None, limit=0):
    return Block(f"more than {limit}")


class Callable:
    def __call__(self, event):
        return Block("no")

    def method(self, event):
        return Block("no")


class Classy(Hook):
    name = "classy"
    points = (POINT,)

    def execute(self, event, ctx: Context):
        return Block(str(ctx.run_id))


REFUSING = {
    "a return": blocks,
    "a raise": raises,
    "a raise for runs": raises_for_runs,
    "a failure": fails,
    "a question": asks,
    "another name": by_another_name,
    "a module's": by_its_module,
    "a helper": by_a_helper_inside,
    "an annotation": annotated,
    "a partial": functools.partial(with_more, limit=3),
    "a lambda": lambda event: Block("no"),
    "an object": Callable(),
    "a method": Callable().method,
    "a class": Classy(),
}


@pytest.mark.parametrize("hook", REFUSING.values(), ids=REFUSING)
def test_a_hook_that_refuses_in_a_lane_that_fails_open_is_warned_of(hook, caplog):
    HookRegistry().register(hook, POINT, name="limit")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("checkrail", "WARNING")
    assert record.getMessage() == (
        "hook 'limit' at before_tool_call: it can refuse, but in lane transform its failure or "
        'timeout lets the work go on. Say lane="gate"'
    )


def changes_and_refuses(event, call):
    return Block("no") if call.name == "x" else Continue(call)


def test_a_hook_that_changes_too_is_told_to_block_on_errors(caplog):
    registry = HookRegistry()
    registry.register(changes_and_refuses, POINT)
    assert caplog.messages[0].endswith('Say on_error="block"')
    registry.replace(changes_and_refuses, POINT, name="changes_and_refuses", priority=3)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("said", [{"timeout": "block"}, {"error": "block"}, {"invalid": "block"}])
def test_a_hook_that_says_only_what_some_failures_do_is_warned_of(said, caplog):
    HookRegistry().register(blocks, POINT, on_error=said)
    assert caplog.messages[0].endswith('lets the work go on. Say on_error="block"')


def only_names_it(event):
    return isinstance(event.value, (Outcome, Hook)) or None


SAFE = {
    "a gate": (blocks, {"lane": "gate"}),
    "an observer": (blocks, {"lane": "observe"}),
    "said to block": (blocks, {"on_error": "block"}),
    "said to go on": (blocks, {"on_error": "continue"}),
    "said of both": (blocks, {"on_error": {"error": "continue", "timeout": "block"}}),
    "said as a mode": (blocks, {"failure_mode": "FailOpen"}),
    "a shadow": (blocks, {"mode": "shadow"}),
    "off": (blocks, {"mode": "off"}),
    "no refusal": (lambda event: Continue(event.value), {}),
    "a replacement": (lambda event: Replace(ToolResult()), {}),
    "mere names": (only_names_it, {}),
    "a function in C": (len, {}),
    "declared": (blocks, {"target_type": "rule"}),
}


@pytest.mark.parametrize(("hook", "options"), SAFE.values(), ids=SAFE)
def test_a_hook_that_is_safe_or_chosen_is_not_warned_of(hook, options, caplog):
    HookRegistry().register(hook, POINT, name="h", **options)
    assert caplog.messages == []


def test_where_failures_block_anyway_nothing_is_said(caplog):
    registry = HookRegistry()
    registry.register(blocks, "before_run", name="admission")
    registry.register(blocks, "on_session_start", name="door")
    assert caplog.messages == []


def test_a_class_of_ones_own_that_has_the_name_is_no_decision(caplog):
    namespace = {"Block": dict}
    exec("def paints(event): return Block() and None", namespace)
    HookRegistry().register(namespace["paints"], POINT)
    assert caplog.messages == []


def test_moving_hooks_says_nothing_again(caplog):
    first, second = HookRegistry(), HookRegistry()
    first.register(blocks, POINT)
    second.swap(first.list())
    assert len(caplog.messages) == 1


def requests_only(event, request):
    return None


def test_a_hook_that_says_what_it_reads_is_refused_where_that_is_not():
    requests_only.hook_reads = lambda config: (ModelRequest,)
    registry = HookRegistry()
    assert registry.register(requests_only, "before_llm_call")
    with pytest.raises(checkrail.CheckrailError) as refused:
        registry.register(requests_only, POINT)
    assert str(refused.value) == (
        "hook 'requests_only' was refused: it reads ModelRequest, but before_tool_call carries "
        "ToolCall. Register it at before_llm_call"
    )
    with pytest.raises(checkrail.CheckrailError, match="before_run carries data of any shape"):
        registry.register(requests_only, "before_run")


def test_what_reads_anything_stands_anywhere():
    def reads_all(event):
        return None

    reads_all.hook_reads = lambda config: ()
    spec = HookRegistry().register(reads_all, *HookPoint, lane=None)
    assert len(spec.places) == len(HookPoint)


def test_a_retry_is_no_refusal(caplog):
    HookRegistry().register(lambda event: Retry("again"), "after_llm_call")
    assert caplog.messages == []


def test_a_hook_whose_style_fails_open_is_told_the_word_of_its_style(caplog):
    class Styled(Classy):
        hook_options = {"failure_mode": "fail_open"}  # noqa: RUF012

    HookRegistry().register(Styled())
    assert "failure_mode" in caplog.text
    assert "fail_closed" in caplog.text
