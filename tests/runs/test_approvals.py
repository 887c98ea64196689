"""Questions of hooks at the start and at the result: the run is left, and goes on when answered."""

import asyncio
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from checkrail.engine.outcomes import Block, Continue
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.store.tables import approvals
from checkrail.store.tables import runs as table

from .approval_support import approve, asked, asks, deny, questions, told, waiting
from .support import chain, is_of_steps, procedural, say, statuses, until

START, RESULT = "on_run_start", "on_result"


class Counted:
    """What an agent does, counted."""

    def __init__(self) -> None:
        self.calls = []

    async def __call__(self, parameters):
        self.calls.append(parameters)
        return {"did": parameters}


@pytest.fixture
def work():
    return Counted()


@pytest.fixture
def project(world, work):
    """Open a service that has the agent `clerk`, a function, and `echo`, a graph."""

    def opened(*hooks, **settings):
        return world.opened({"echo": chain(say)}, *hooks, functions={"clerk": work}, **settings)

    return opened


def expire_all(tx):
    """Have the time of all questions be over, before anybody looks at the clock."""
    tx.execute(update(approvals).values(expires_at=1.0))


async def let_go(served, run):
    return run.run_id not in served.parts.live


async def test_a_run_waits_for_its_start_as_a_row_and_goes_on_when_somebody_approves(project, work):
    async with project((asks("Start it?"), START)) as served:
        run = await served.admit("clerk", {"n": 1}, await served.thread())
        row = await waiting(served, run)
        assert (row.question, row.value, row.hook) == ("Start it?", {"n": 1}, "/four_eyes")
        await until(lambda: let_go(served, run), "the process to let go")
        assert work.calls == []
        await approve(served, row)
        ended = await served.over(run)
        assert (ended.status, ended.output, work.calls) == (
            "success",
            {"did": {"n": 1}},
            [{"n": 1}],
        )
        [row] = await questions(served, run)
        assert (row.status, row.answered_by) == ("approved", "eve")
        assert row.used_at is not None
        assert await told(served, run) == [(START, "open"), (START, "approved")]


@pytest.mark.parametrize(
    ("agent", "given", "output"),
    [
        ("clerk", {"n": 1}, {"did": {"n": 1}}),
        ("echo", {"text": "hi"}, {"text": "hi", "said": ["hi"]}),
    ],
)
async def test_a_result_waits_too_and_nothing_is_done_again(project, work, agent, given, output):
    async with project((asks(), RESULT)) as served:
        thread = await served.thread()
        run = await served.admit(agent, given, thread)
        row = await waiting(served, run)
        assert row.value == output
        assert output not in [event.data for event in await served.events(run)]
        await approve(served, row)
        ended = await served.over(run)
        assert (ended.status, ended.output) == ("success", output)
        assert len(work.calls) == (agent == "clerk")
        assert (await served.row(run)).suspended_state is None
        if agent == "echo":
            assert output in [event.data for event in await served.events(run)]
            assert (await served.thread_row(thread)).values == output


@pytest.mark.parametrize("point", [START, RESULT])
@pytest.mark.parametrize("agent", ["clerk", "echo"])
async def test_an_answer_after_a_restart_of_everything_continues_the_run(
    project, work, agent, point
):
    async with project((asks(), point)) as first:
        run = await first.admit(agent, {"text": "x"}, await first.thread())
        row = await waiting(first, run)
    async with project((asks(), point)) as second:
        assert (await second.row(run)).phase == "waiting"
        await approve(second, row)
        ended = await second.over(run)
    assert (ended.status, ended.lost) == ("success", 0)
    assert len(work.calls) == (agent == "clerk")


@pytest.mark.parametrize("point", [START, RESULT])
async def test_a_no_after_a_restart_blocks_the_run_with_its_reason(project, work, point):
    async with project((asks(), point)) as first:
        run = await first.admit("clerk", {})
        row = await waiting(first, run)
    async with project((asks(), point)) as second:
        await deny(second, row, reason="not on a Friday")
        ended = await second.over(run)
    assert (ended.status, ended.phase) == ("error", "blocked")
    assert (ended.blocked_by, ended.block_reason) == ("four_eyes", "not on a Friday")
    assert len(work.calls) == (point == RESULT)


async def test_a_no_can_mean_to_go_on(project):
    async with project((asks(on_deny="continue"), START)) as served:
        run = await served.admit("clerk", {})
        await deny(served, await waiting(served, run))
        assert (await served.over(run)).status == "success"


@pytest.mark.parametrize(
    ("point", "edit", "output"),
    [(START, {"n": 2}, {"did": {"n": 2}}), (RESULT, {"did": "less"}, {"did": "less"})],
)
async def test_what_somebody_made_of_the_value_is_what_counts(project, work, point, edit, output):
    async with project((asks(), point)) as first:
        run = await first.admit("clerk", {"n": 1})
        row = await waiting(first, run)
    async with project((asks(), point)) as second:
        await approve(second, row, value=edit)
        assert (await second.over(run)).output == output
    assert work.calls == [edit if point == START else {"n": 1}]


async def test_an_edited_result_of_a_graph_is_written_back_to_its_thread(project):
    async with project((asks(), RESULT)) as served:
        thread = await served.thread()
        run = await served.admit("echo", {"text": "x"}, thread)
        await approve(served, await waiting(served, run), value={"text": "x", "said": ["y"]})
        assert (await served.over(run)).output == {"text": "x", "said": ["y"]}
        assert (await served.state("echo", thread))["said"] == ["y"]


@pytest.mark.parametrize("point", [START, RESULT])
async def test_what_does_not_fit_the_schema_is_refused_with_all_that_is_wrong(world, work, point):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    given = {"parameters_schema": schema} if point == START else {"output_schema": schema}
    agent = procedural("clerk", **given)

    async def same(parameters):
        return parameters

    functions = {"clerk": same}
    async with world.opened({}, (asks(), point), functions=functions, agents=[agent]) as served:
        run = await served.admit("clerk", {"n": 1})
        row = await waiting(served, run)
        with pytest.raises(InvalidError, match="does not fit") as caught:
            await approve(served, row, value={"n": "two"})
        [problem] = caught.value.detail
        assert (problem["path"], [*problem]) == ("/n", ["path", "message", "schema"])
        assert statuses(await questions(served, run)) == ["open"]
        await approve(served, row, value={"n": 2})
        assert (await served.over(run)).output == {"n": 2}


async def test_a_second_answer_is_told_of_the_first(project):
    async with project((asks(), START)) as served:
        run = await served.admit("clerk", {})
        row = await waiting(served, run)
        await deny(served, row, reason="no")
        for again in (approve, deny):
            with pytest.raises(ConflictError, match="denied by eve already") as caught:
                await again(served, row)
            assert (caught.value.detail["status"], caught.value.detail["reason"]) == (
                "denied",
                "no",
            )
        assert (await served.over(run)).phase == "blocked"
        with pytest.raises(ConflictError):
            await approve(served, row)


async def test_an_answer_to_another_value_than_the_one_that_is_asked_about_is_refused(project):
    async with project((asks(), START)) as served:
        run = await served.admit("clerk", {})
        row = await waiting(served, run)
        with pytest.raises(ConflictError, match="another value"):
            await approve(served, row, digest="sha256:old")
        await approve(served, row, digest=row.digest)
        assert (await served.over(run)).status == "success"


async def test_an_answer_to_nothing_is_not_found(project):
    async with project() as served:
        with pytest.raises(NotFoundError):
            await approve(served, SimpleNamespace(approval_id="nobody"))


async def test_a_changed_value_invalidates_the_approval_and_is_asked_about_anew(project, work):
    stamps = []

    def stamp(event, value):
        stamps.append(len(stamps))
        return Continue({**value, "stamp": min(stamps[-1], 1)})

    hooks = ((stamp, START, {"priority": 1}), (asks(), START, {"lane": "gate"}))
    async with project(*hooks) as served:
        run = await served.admit("clerk", {})
        first = await waiting(served, run)
        await approve(served, first)
        second = await asked(served, run, 2)
        assert (first.value, second.value) == ({"stamp": 0}, {"stamp": 1})
        assert statuses(await questions(served, run)) == ["void", "open"]
        with pytest.raises(ConflictError, match="not asked any more"):
            await approve(served, first)
        assert work.calls == []
        await approve(served, second)
        assert (await served.over(run)).output == {"did": {"stamp": 1}}


async def test_two_hooks_that_ask_need_a_yes_each_and_each_is_used_once(project):
    def first_eye(event):
        return asks("one?")(event)

    hooks = ((first_eye, START, {"lane": "gate"}), (asks("two?"), START, {"lane": "gate"}))
    async with project(*hooks) as served:
        run = await served.admit("clerk", {})
        one = await waiting(served, run)
        await approve(served, one)
        two = await asked(served, run, 2)
        assert (one.question, two.question) == ("one?", "two?")
        assert (await questions(served, run))[0].used_at is None
        await approve(served, two)
        assert (await served.over(run)).status == "success"
        rows = await questions(served, run)
        assert statuses(rows) == ["approved", "approved"]
        assert all(row.used_at for row in rows)


async def test_hooks_of_one_name_at_two_levels_are_two_hooks(world, work):
    from checkrail.engine.hook import declare

    own = declare(asks("the agent's?"), (START,), "four_eyes", lane="gate")
    agent = procedural("clerk", hooks=(own,))
    theirs = (asks("the server's?"), START, {"lane": "gate"})
    async with world.opened({}, theirs, functions={"clerk": work}, agents=[agent]) as served:
        run = await served.admit("clerk", {})
        await approve(served, await waiting(served, run))
        row = await asked(served, run, 2)
        assert (row.question, row.hook) == ("the agent's?", "clerk/four_eyes")
        await deny(served, row)
        assert (await served.over(run)).phase == "blocked"


@pytest.mark.parametrize(
    ("on_timeout", "phase"), [("block", "blocked"), ("fail", "error"), ("continue", "success")]
)
@pytest.mark.parametrize("point", [START, RESULT])
async def test_silence_means_what_the_hook_says_also_when_the_time_passes_while_all_is_down(
    project, point, on_timeout, phase
):
    hook = (asks(timeout=3600, on_timeout=on_timeout), point)
    async with project(hook, capacity=1, sweep_every=3600.0) as first:
        run = await first.admit("clerk", {})
        row = await asked(first, run)
        await first.write(expire_all)
    async with project(hook) as second:
        ended = await second.over(run)
        assert ended.phase == phase
        [row] = await questions(second, run)
        assert (row.status, row.answered_by) == ("expired", None)
        with pytest.raises(ConflictError, match="in time"):
            await approve(second, row)
        assert await told(second, run) == [(point, "open"), (point, "expired")]


async def test_the_clock_is_woken_for_a_question_whose_time_is_over(project):
    async with project(
        (asks(timeout=0.05), START), sweep_every=3600.0, beat=60.0, lease=120.0
    ) as s:
        run = await s.admit("clerk", {})
        ended = await s.over(run)
        assert (ended.phase, ended.block_reason) == (
            "blocked",
            "may it?: nobody answered in time",
        )


@pytest.mark.parametrize("point", [START, RESULT])
@pytest.mark.parametrize("temporary", [True, False])
async def test_a_run_that_waits_is_cancelled_at_once(project, point, temporary):
    async with project((asks(), point)) as served:
        run = await served.admit(
            "echo", {"text": "x"}, None if temporary else await served.thread()
        )
        await waiting(served, run)
        await served.service.cancel(run.run_id, "interrupt")
        row = await served.row(run)
        assert (row.status, row.phase, row.suspended_state) == (
            "interrupted",
            "cancelled",
            None,
        )
        assert statuses(await questions(served, run)) == ["void"]
        with pytest.raises(ConflictError, match="not asked any more"):
            await approve(served, (await questions(served, run))[0])


async def test_a_run_that_waits_can_be_rolled_back_with_what_it_did(project):
    async with project((asks(), RESULT)) as served:
        thread = await served.thread()
        run = await served.admit("echo", {"text": "x"}, thread)
        await waiting(served, run)
        await served.service.cancel(run.run_id, "rollback")

        async def gone():
            return await served.row(run) is None

        await until(gone, "the run to be gone")
        assert await served.state("echo", thread) == {}
        assert await questions(served, run) == []


async def test_the_thread_of_a_run_that_waits_is_held(project):
    async with project((asks(), START)) as served:
        thread = await served.thread()
        first = await served.admit("clerk", {}, thread)
        row = await waiting(served, first)
        second = await served.admit("clerk", {}, thread)
        assert (await served.row(second)).phase == "queued"
        await approve(served, row)
        assert (await served.over(first)).status == "success"
        await approve(served, await waiting(served, second))
        assert (await served.over(second)).status == "success"


async def test_the_time_of_a_run_does_not_pass_while_it_waits(project):
    async with project((asks(), RESULT)) as served:
        run = await served.admit("clerk", {}, timeout_seconds=0.4)
        row = await waiting(served, run)
        await asyncio.sleep(0.5)  # longer than it may take
        await approve(served, row)
        assert (await served.over(run)).status == "success"


async def test_records_tell_that_it_was_asked_and_what_was_answered(project):
    async with project((asks(), START)) as served:
        run = await served.admit("clerk", {})
        await approve(served, await waiting(served, run))
        await served.over(run)
        found = [
            (each["kind"], each.get("decision"), each.get("answer"))
            for each in await served.records(run)
        ]
        assert found == [
            ("hook_start", None, None),
            ("hook_complete", "ask", "waiting"),
            ("hook_start", None, None),
            ("hook_complete", "ask", "approved"),
        ]


async def test_a_result_that_stands_for_the_whole_run_is_asked_about_too(project, work):
    from checkrail.engine.outcomes import Replace

    def cached(event):
        return Replace({"did": "before"})

    async with project((cached, START), (asks(), RESULT)) as first:
        run = await first.admit("clerk", {})
        row = await waiting(first, run)
        assert row.value == {"did": "before"}
    async with project((cached, START), (asks(), RESULT)) as second:
        await approve(second, row)
        ended = await second.over(run)
    assert (ended.status, ended.output, work.calls) == ("success", {"did": "before"}, [])


async def test_hooks_that_are_gone_after_a_restart_let_a_waiting_result_through(project):
    async with project((asks(), RESULT)) as first:
        run = await first.admit("echo", {"text": "x"}, await first.thread())
        row = await waiting(first, run)
    async with project() as second:
        await approve(second, row)
        assert (await second.over(run)).status == "success"
        assert {"text": "x", "said": ["x"]} in [e.data for e in await second.events(run)]


async def test_other_gates_still_rule_over_what_was_approved(project):
    def closed(event):
        return Block("closed") if event.value.get("n") == 2 else None

    async with project((asks(), START), (closed, START, {"lane": "gate"})) as served:
        run = await served.admit("clerk", {"n": 1})
        await approve(served, await waiting(served, run), value={"n": 2})
        ended = await served.over(run)
        assert (ended.phase, ended.blocked_by) == ("blocked", "closed")


async def test_a_client_that_follows_sees_one_stream_across_the_wait(project):
    async with project((asks(), START)) as served:
        run = await served.admit("echo", {"text": "x"}, await served.thread())
        following = asyncio.ensure_future(served.followed(run))
        await approve(served, await waiting(served, run))
        told = [event.event for event in await following]
        seen = [name for name in told if not is_of_steps(name)]
        assert seen == ["metadata", "approval", "approval", "metadata", "values", "values", "end"]
        assert [event.seq for event in await following] == sorted(
            {event.seq for event in await following}
        )


async def test_of_two_servers_that_take_an_answer_at_once_exactly_one_does(postgres_world):
    async def work(parameters):
        return parameters

    both = [
        await postgres_world.open({}, (asks(), START), functions={"clerk": work}) for _ in range(2)
    ]
    for round_ in range(5):
        run = await both[0].admit("clerk", {"round": round_})
        row = await waiting(both[0], run)
        answers = [approve(both[0], row), deny(both[1], row, reason="no")]
        took, refused = sorted(
            await asyncio.gather(*answers, return_exceptions=True),
            key=lambda each: isinstance(each, ConflictError),
        )
        assert isinstance(refused, ConflictError)
        ended = await both[1].over(run)
        assert ended.phase == ("success" if took.status == "approved" else "blocked")


@pytest.mark.parametrize("point", [START, RESULT])
async def test_answers_and_cancels_that_meet_leave_no_run_behind(world, point):
    async def same(parameters):
        return parameters

    hook = (asks(), point)
    served = await world.open({}, hook, functions={"clerk": same})

    async def answered(run, *, late):
        row = await (waiting if late else asked)(served, run)
        both = (approve(served, row), served.service.cancel(run.run_id, "interrupt"))
        took, _ = await asyncio.gather(*both, return_exceptions=True)
        assert isinstance(took, (dict, ConflictError)), took

    async def cancelled(run):
        await served.service.cancel(run.run_id, "interrupt")

    made = [await served.admit("clerk", {"n": n}) for n in range(24)]
    ways = [cancelled(run) if n % 3 else answered(run, late=n % 2) for n, run in enumerate(made)]
    await asyncio.gather(*ways)
    ends = [(await served.over(run)).phase for run in made]
    assert {*ends} <= {"success", "cancelled"}
    for run in made:
        assert "open" not in statuses(await questions(served, run))


@pytest.mark.parametrize("point", [START, RESULT])
async def test_a_process_that_dies_right_after_the_answer_loses_nothing(project, work, point):
    """Nothing is executed again either, whatever the agent's policy for a crash says."""
    hook = (asks(), point)
    async with project(hook) as first:
        run = await first.admit("clerk", {"n": 1})
        row = await waiting(first, run)
    async with project(hook, capacity=0) as second:
        await approve(second, row)
        dead = update(table).where(table.c.run_id == run.run_id).values(worker_id="dead")
        await second.write(lambda tx: tx.execute(dead))  # it had been claimed
    async with project(hook) as third:
        ended = await third.over(run)
        assert (ended.status, ended.lost) == ("success", 1)
        assert work.calls == [{"n": 1}]
        [row] = await questions(third, run)
        assert row.used_at is not None
