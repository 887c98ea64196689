"""What a refusal may say: refused when it is made, and once more where it leaves the hook."""

from http import HTTPStatus

import pytest

from checkrail import Ask, Block, Fail, HookRegistry, Reject, Replace, Retry, Stop, ToolCall
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.hooks import RejectRun, RunHooks

CALL = ToolCall("1", "transfer", {"amount": 5})

WRONG_STATUSES = [200, 99, 600, 399, 402.5, "402", True, [402]]


@pytest.mark.parametrize("status", WRONG_STATUSES)
@pytest.mark.parametrize(
    "make",
    [
        lambda status: Block("no", status),
        lambda status: Fail("no", None, status),
        lambda status: Reject("no", status),
        lambda status: RejectRun("no", status_code=status),
    ],
    ids=["Block", "Fail", "Reject", "RejectRun"],
)
def test_a_status_that_is_no_refusal_is_refused_when_it_is_made(make, status):
    with pytest.raises(InvalidOutcomeError, match="a whole number from 400 to 599"):
        make(status)


def test_who_carries_a_block_chooses_a_status_for_it_and_a_failure_has_one():
    assert (Block("no", None), Reject("no", None).as_block()) == (Block("no"), Block("no"))
    assert RejectRun("no", None).status_code == 403
    with pytest.raises(InvalidOutcomeError, match="a whole number from 400 to 599"):
        Fail("no", None, None)


@pytest.mark.parametrize("reason", [{"why": "no"}, 5, b"no", None, ["no"]])
@pytest.mark.parametrize(
    "make",
    [
        *(Block, Fail, Ask, Retry, Reject, RejectRun),
        lambda reason: Replace("x", reason),
        lambda reason: Stop("x", reason),
    ],
)
def test_a_reason_that_is_no_text_is_refused_when_it_is_made(make, reason):
    with pytest.raises(InvalidOutcomeError, match="has to be a text"):
        make(reason)


@pytest.mark.parametrize("code", [5, {"a": 1}])
def test_so_is_a_code_that_is_no_text(code):
    with pytest.raises(InvalidOutcomeError, match="the code of Block"):
        Block("no", code=code)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "5", True])
def test_so_is_a_wait_that_is_no_time(seconds):
    with pytest.raises(InvalidOutcomeError, match="a number from 0 on"):
        Block("no", 429, retry_after=seconds)
    with pytest.raises(InvalidOutcomeError, match="a number from 0 on"):
        RejectRun(retry_after=seconds)


@pytest.mark.parametrize("status", [400, 429, 599, HTTPStatus.PAYMENT_REQUIRED])
def test_every_status_of_a_refusal_can_be_said(status):
    assert Block("no", status).status == status
    assert RejectRun("no", status).status_code == status


async def test_a_verdict_tells_when_it_is_worth_asking_again():
    registry = HookRegistry()
    registry.register(lambda event: Block("later", 429, retry_after=2.5), "before_tool_call")
    verdict = await registry.fire("before_tool_call", CALL)
    assert (verdict.status, verdict.retry_after) == (429, 2.5)
    registry = HookRegistry()
    registry.register(lambda event: None, "before_tool_call")
    assert (await registry.fire("before_tool_call", CALL)).retry_after is None


async def test_a_run_hook_can_say_it_too():
    hooks = RunHooks()

    @hooks.before_run
    async def full(ctx):
        raise hooks.RejectRun("Come back later", retry_after=30)

    registry = HookRegistry()
    hooks.register(registry)
    verdict = await registry.fire("before_run", {})
    assert (verdict.status, verdict.reason, verdict.retry_after) == (429, "Come back later", 30)


class Careless(Block):
    """A decision that forgets to check itself."""

    def __post_init__(self):
        """Check nothing."""


class Forgetful(Reject):
    """A refusal that forgets to call its base."""

    def __init__(self):
        self.status = 200


class Bare(Reject):
    def __init__(self):
        """Say nothing at all."""


def later_changed(event):
    error = RejectRun("no", 402)
    error.status_code = 200
    raise error


def forgetful(event):
    raise Forgetful


@pytest.mark.parametrize(
    "hook",
    [
        lambda event: Block("no", 200),
        lambda event: Careless("no", 200),
        lambda event: Careless({"why": "no"}),
        later_changed,
        forgetful,
    ],
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_hook_that_refuses_wrongly_still_lets_nothing_pass(hook, lane):
    registry = HookRegistry()
    registry.register(hook, "before_tool_call", lane=lane, name="wrong")
    verdict = await registry.fire("before_tool_call", CALL)
    assert verdict.decision in ("block", "fail")
    assert (verdict.status, verdict.code) == (500, "hook_invalid")
    assert "broke its contract" in verdict.reason
    assert verdict.records[-1].failure == "invalid"


async def test_a_refusal_that_says_nothing_at_all_is_one():
    def bare(event):
        raise Bare

    registry = HookRegistry()
    registry.register(bare, "before_tool_call", name="bare")
    verdict = await registry.fire("before_tool_call", CALL)
    assert (verdict.decision, verdict.status) == ("block", 403)
    assert "bare" in verdict.reason


def test_a_run_hooks_words_are_the_ones_of_every_refusal():
    error = RejectRun("no", 402)
    assert (error.message, error.reason, error.status_code, error.status) == ("no", "no", 402, 402)
    error.message = "still no"
    assert error.as_block() == Block("still no", 402)
