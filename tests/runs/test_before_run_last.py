"""`before_run` is asked when nothing else is left to refuse a run: its hooks may charge for it."""

import asyncio
from dataclasses import replace

import pytest

from checkrail.engine.outcomes import RejectRun
from checkrail.runs.admit.quotas import Quotas
from checkrail.runs.admit.requests import Idempotency, RunRequest
from checkrail.runs.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TooManyError,
)

from .support import ADA, Gate, chain, graph_agent, say

TAKES_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


class Charges:
    """A hook that charges for every run that it is asked about."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()

    async def charge(self, event):
        self.runs.append(event.run_id)
        self.asked.set()
        await self.open.wait()


@pytest.fixture
def charges():
    return Charges()


async def admitted_at_once(charges, *admissions):
    """Let admissions come to their hooks together, and give what became of each."""
    charges.open.clear()
    tasks = [asyncio.create_task(each) for each in admissions]
    await charges.asked.wait()
    for _ in range(50):  # so that all of them are where they have to wait
        await asyncio.sleep(0)
    charges.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_run_that_its_thread_refuses_is_not_charged(world, charges):
    gate = Gate()
    served = await world.open(
        {"slow": gate.graph()}, (charges.charge, "before_run"), queued_per_thread=1
    )
    thread = await served.thread()
    first = await served.admit("slow", {}, thread)
    queued = await served.admit("slow", {}, thread)
    with pytest.raises(ConflictError, match=f"busy with the run {first.run_id}"):
        await served.admit("slow", {}, thread, multitask_strategy="reject")
    with pytest.raises(TooManyError, match="1 runs wait"):
        await served.admit("slow", {}, thread)
    assert charges.runs == [first.run_id, queued.run_id]
    gate.open.set()
    await served.over(queued)


async def test_a_run_that_is_only_scheduled_is_in_the_way_of_one_that_rejects(world, charges):
    served = await world.open({"say": chain(say)}, (charges.charge, "before_run"))
    thread = await served.thread()
    later = await served.admit("say", {}, thread, after_seconds=3600)
    with pytest.raises(ConflictError):
        await served.admit("say", {}, thread, multitask_strategy="reject")
    assert charges.runs == [later.run_id]


async def test_of_two_runs_at_once_the_one_that_is_refused_is_not_charged(world, charges):
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, (charges.charge, "before_run"))
    thread = await served.thread()
    asked = [
        served.admit("slow", {}, thread, multitask_strategy=strategy)
        for strategy in ("reject", "reject", "enqueue", "reject")
    ]
    made = await admitted_at_once(charges, *asked)
    rows = [each for each in made if not isinstance(each, ConflictError)]
    assert len(rows) == 2
    assert charges.runs == [row.run_id for row in rows]
    gate.open.set()
    await served.over(rows[1])


async def test_runs_of_one_thread_keep_their_order_however_long_hooks_take(lite_world):
    first = asyncio.Event()

    async def slow_at_first(event):
        if event.value["text"] == "a":
            await first.wait()

    served = await lite_world.open({"say": chain(say)}, (slow_at_first, "before_run"))
    thread = await served.thread()
    tasks = [asyncio.create_task(served.admit("say", {"text": text}, thread)) for text in "abc"]
    other = await served.admit("say", {"text": "d"}, await served.thread())  # does not wait
    assert not any(task.done() for task in tasks)
    first.set()
    rows = await asyncio.gather(*tasks)
    assert (await served.over(rows[-1])).output["said"] == ["a", "b", "c"]
    await served.over(other)


async def test_a_client_that_goes_away_leaves_its_thread_to_others(lite_world, charges):
    served = await lite_world.open({"say": chain(say)}, (charges.charge, "before_run"))
    thread = await served.thread()
    charges.open.clear()
    gone = asyncio.create_task(served.admit("say", {"text": "x"}, thread))
    await charges.asked.wait()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    charges.open.set()
    assert (await served.run("say", {"text": "y"}, thread)).output["said"] == ["y"]


async def test_the_same_request_at_once_is_charged_once(world, charges):
    served = await world.open({"say": chain(say)}, (charges.charge, "before_run"))
    once = Idempotency("key", "/runs", "digest")
    rows = await admitted_at_once(charges, *(served.admit("say", {}, once=once) for _ in range(5)))
    assert {row.run_id for row in rows} == set(charges.runs)
    assert len(charges.runs) == 1
    with pytest.raises(InvalidError, match="another body"):
        await served.admit("say", {}, once=replace(once, digest="other"))
    assert len(charges.runs) == 1


async def test_what_an_owner_may_not_have_is_not_charged(world, charges):
    gate = Gate()
    served = await world.open(
        {"slow": gate.graph()}, (charges.charge, "before_run"), quotas=Quotas(live_runs=3)
    )
    made = await admitted_at_once(charges, *(served.admit("slow", {}) for _ in range(5)))
    rows = [row for row in made if not isinstance(row, TooManyError)]
    assert len(rows) == 3
    assert sorted(charges.runs) == sorted(row.run_id for row in rows)
    with pytest.raises(TooManyError):
        await served.admit("slow", {})
    assert len(charges.runs) == 3
    gate.open.set()
    for row in rows:
        await served.over(row)
    await served.run("slow", {})
    assert len(charges.runs) == 4


async def test_threads_that_an_owner_may_not_have_are_not_charged(lite_world, charges):
    served = await lite_world.open(
        {"say": chain(say)}, (charges.charge, "before_run"), quotas=Quotas(threads=2)
    )
    new = {"thread": None, "keep_thread": True}
    made = await admitted_at_once(charges, *(served.admit("say", {}, **new) for _ in range(4)))
    rows = [row for row in made if not isinstance(row, TooManyError)]
    assert sorted(charges.runs) == sorted(row.run_id for row in rows)
    assert len(rows) == 2
    await served.over(rows[1])
    assert (await served.run("say", {})).status == "success"  # which needs none


async def test_runs_of_hooks_are_made_beyond_a_quota_and_count_for_others(lite_world, charges):
    served = await lite_world.open(
        {"say": chain(say)}, (charges.charge, "before_run"), quotas=Quotas(live_runs=1)
    )
    hooks = [served.admit("say", {}, origin="hook") for _ in range(3)]
    made = await admitted_at_once(charges, hooks[0], served.admit("say", {}), *hooks[1:])
    rows = [row for row in made if not isinstance(row, TooManyError)]
    assert sorted(charges.runs) == sorted(row.run_id for row in rows)
    assert len(rows) == 3
    for row in rows:
        await served.over(row)
    assert (await served.run("say", {})).status == "success"


async def test_of_a_batch_no_run_is_charged_before_all_of_them_are_valid(world, charges):
    agent = graph_agent("strict", parameters_schema=TAKES_TEXT)
    served = await world.open(
        {"say": chain(say), "strict": chain(say)}, (charges.charge, "before_run"), agents=[agent]
    )
    good = RunRequest(assistant_id="strict", input={"text": "x"})
    wrong = {
        InvalidError: replace(good, input={"text": 1}),
        NotFoundError: replace(good, assistant_id="nobody"),
    }
    for problem, bad in wrong.items():
        with pytest.raises(problem):
            await served.service.admit([good, good, bad], ADA)
    assert charges.runs == []
    rows = await served.service.admit([good, good], ADA)
    assert charges.runs == [row.run_id for row in rows]
    for row in rows:
        await served.over(row)


async def test_a_refusal_by_a_hook_frees_the_thread_for_the_next(lite_world):
    async def pick(event):
        if event.value["text"] == "bad":
            raise RejectRun("no", 402)

    served = await lite_world.open({"say": chain(say)}, (pick, "before_run"))
    thread = await served.thread()
    with pytest.raises(RefusedError):
        await served.admit("say", {"text": "bad"}, thread, multitask_strategy="reject")
    row = await served.run("say", {"text": "good"}, thread, multitask_strategy="reject")
    assert row.status == "success"
