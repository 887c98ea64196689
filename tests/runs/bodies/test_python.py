"""Python functions as the bodies of runs."""

import asyncio
import contextvars
import dataclasses
import datetime as dt
import functools
import threading

import pytest

from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.executors.python import AgentContext, run_callable

GIVEN = {"a": 1, "b": [2]}


async def test_one_parameter_is_given_all_of_them(make_work):
    work, _ = make_work(GIVEN)
    done = await run_callable(work, lambda parameters: {"got": parameters})
    assert (done.output, done.error) == ({"got": GIVEN}, None)


async def test_whatever_a_caller_sends_one_parameter_is_given_it_whole(make_work):
    work, _ = make_work({"parameters": 5})
    assert (await run_callable(work, lambda parameters: parameters)).output == {"parameters": 5}
    work, _ = make_work([1, 2])
    assert (await run_callable(work, len)).output == 2


async def test_several_are_given_them_by_their_names(make_work):
    def add(a, b, c=10):
        return a + b[0] + c

    work, _ = make_work(GIVEN)
    assert (await run_callable(work, add)).output == 13


async def test_one_behind_a_star_is_given_its_own(make_work):
    def only(*, a):
        return a

    def rest(a, **others):
        return [a, others]

    work, _ = make_work({"a": 1})
    assert (await run_callable(work, only)).output == 1
    work, _ = make_work(GIVEN)
    assert (await run_callable(work, rest)).output == [1, {"b": [2]}]


async def test_it_may_take_nothing(make_work):
    work, _ = make_work(GIVEN)
    assert (await run_callable(work, lambda: "done")).output == "done"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": 1}, "takes a, b, and cannot be called with what was sent: missing a required"),
        ({"a": 1, "b": 2, "c": 3}, "got an unexpected keyword argument 'c'"),
        ([1, 2], "takes its parameters by their names, a, b"),
        ({"a": 1, "b": 2, "context": "mine"}, "send an object without 'context'"),
    ],
)
async def test_parameters_that_do_not_fit_are_said(make_work, given, told):
    def add(a, b, context):
        raise AssertionError

    work, _ = make_work(given)
    done = await run_callable(work, add)
    assert done.error_type == "InvalidParameters"
    assert told in done.error
    assert "add" in done.error


async def test_it_is_told_of_its_run(make_work):
    seen = []

    async def look(parameters, context: AgentContext):
        seen.append(context)

    work, _ = make_work({}, context={"tenant": {"id": 7}})
    await run_callable(work, look)
    (context,) = seen
    assert (context.run_id, context.thread_id, context.session_id) == ("r-1", "t-1", "s-1")
    assert (context.agent_name, context.attempt, context.user.identity) == ("helper", 2, "ann")
    assert (context.idempotency_key, context.scope) == ("r-1:2", {"tenant": {"id": 7}})
    with pytest.raises(TypeError):
        context.scope["tenant"]["id"] = 8
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.run_id = "other"


@pytest.mark.parametrize(
    "fn",
    [
        lambda context: context.run_id,
        lambda context, parameters: context.run_id,
        lambda parameters, context: context.run_id,
        lambda a, b, context: context.run_id,
        lambda *, a, b, context: context.run_id,
        lambda parameters, *, context: context.run_id,
    ],
)
async def test_the_context_is_given_by_its_name_wherever_it_stands(make_work, fn):
    work, _ = make_work(GIVEN)
    assert (await run_callable(work, fn)).output == "r-1"


async def test_async_functions_run_in_the_loop_and_others_in_a_thread(make_work):
    here = threading.get_ident()

    async def inline(parameters):
        return threading.get_ident() == here

    class Callable:
        async def __call__(self, parameters):
            return threading.get_ident() == here

    def coroutine(parameters):
        return inline(parameters)

    def apart(parameters):
        return threading.get_ident() == here

    work, _ = make_work({})
    assert (await run_callable(work, inline)).output is True
    assert (await run_callable(work, Callable())).output is True
    assert (await run_callable(work, apart)).output is False
    assert (await run_callable(work, coroutine)).output is True
    assert (await run_callable(work, functools.partial(apart))).output is False


async def test_a_thread_has_the_context_of_whoever_started_it(make_work):
    variable = contextvars.ContextVar("variable")
    variable.set("seen")
    work, _ = make_work({})
    assert (await run_callable(work, lambda parameters: variable.get())).output == "seen"


async def test_a_function_that_blocks_keeps_nobody_waiting(make_work):
    go_on = threading.Event()

    def wait(parameters):
        return go_on.wait(60)

    work, _ = make_work({})
    running = asyncio.ensure_future(run_callable(work, wait))
    other, _ = make_work({})
    assert (await run_callable(other, lambda: "quick")).output == "quick"
    assert not running.done()
    go_on.set()
    assert (await running).output is True


async def test_what_it_changes_of_its_parameters_is_its_own(make_work):
    def change(parameters):
        parameters["b"].append(3)
        return parameters

    given = {"b": [2]}
    work, _ = make_work(given)
    assert (await run_callable(work, change)).output == {"b": [2, 3]}
    assert given == {"b": [2]}


@dataclasses.dataclass
class Point:
    x: int
    at: dt.date


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (None, None),
        ("text", "text"),
        ((1, 2.5, True), [1, 2.5, True]),
        ({"a": {1: "b"}}, {"a": {"1": "b"}}),
        (Point(1, dt.date(2026, 1, 2)), {"x": 1, "at": "2026-01-02"}),
    ],
)
async def test_what_it_returns_is_data(make_work, returned, output):
    work, _ = make_work({})
    assert (await run_callable(work, lambda: returned)).output == output


def numbers():
    yield 1


@pytest.mark.parametrize(
    ("returned", "named"),
    [(object(), "object"), ({"a": [threading.Event()]}, "Event"), (numbers(), "generator")],
)
async def test_what_is_no_data_is_refused_by_its_type(make_work, returned, named):
    work, _ = make_work({})
    done = await run_callable(work, lambda: returned)
    assert done.error_type == "NotJson"
    assert f"of type {named}, which is no JSON" in done.error
    assert done.output is None


async def test_what_contains_itself_is_refused(make_work):
    circle = []
    circle.append(circle)
    work, _ = make_work({})
    done = await run_callable(work, lambda: circle)
    assert (done.error_type, "a list that contains itself" in done.error) == ("NotJson", True)


class Odd(Exception):
    pass


@pytest.mark.parametrize(
    ("raised", "error", "kind"),
    [
        (ValueError("no such order"), "no such order", "ValueError"),
        (Odd(), "Odd", "Odd"),
        (SystemExit(3), "called sys.exit(3)", "SystemExit"),
        (StopIteration(), "the function raised StopIteration", "RuntimeError"),
        (asyncio.CancelledError(), "was cancelled from within", "CancelledError"),
    ],
)
async def test_what_it_raises_is_the_error_of_the_run(make_work, raised, error, kind):
    def raising(parameters):
        raise raised

    work, _ = make_work({})
    done = await run_callable(work, raising)
    assert error in done.error
    assert (done.output, done.error_type) == (None, kind)


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
async def test_what_an_async_function_raises_too(make_work, raised):
    async def raising(parameters):
        raise raised

    work, _ = make_work({})
    done = await run_callable(work, raising)
    assert done.error_type == type(raised).__name__


async def test_what_it_tells_is_told_in_order_from_wherever(make_work):
    def apart(parameters, context):
        data = {"step": 0}
        for step in range(100):
            data["step"] = step
            context.emit(data)

    async def inline(parameters, context):
        context.emit("one")
        await asyncio.to_thread(context.emit, "two")
        context.emit({"three": 3})

    work, told = make_work({})
    await run_callable(work, apart)
    assert [data["step"] for data in told.of("custom")] == [*range(100)]
    work, told = make_work({})
    await run_callable(work, inline)
    assert told.of("custom") == ["one", "two", {"three": 3}]


async def test_a_function_that_blocks_the_loop_may_tell_from_its_threads(make_work):
    async def blocking(parameters, context):
        thread = threading.Thread(target=context.emit, args=["from a thread"])
        thread.start()
        thread.join(60)
        await asyncio.sleep(0)
        return thread.is_alive()

    work, told = make_work({})
    assert (await run_callable(work, blocking)).output is False
    assert told.of("custom") == ["from a thread"]


@pytest.mark.parametrize("stubborn", [False, True])
async def test_one_that_tells_too_much_is_ended(make_work, stubborn):
    def flood(parameters, context):
        while True:
            try:
                context.emit("again")
            except EventLimitError:
                if stubborn:
                    return "fine"
                raise

    async def inline(parameters, context):
        return flood(parameters, context)

    for fn in (flood, inline):
        work, told = make_work({}, most=10)
        with pytest.raises(EventLimitError):
            await run_callable(work, fn)
        assert len(told.events) == 10


async def test_cancelled_an_async_function_is_cancelled(make_work):
    began, seen = asyncio.Event(), []

    async def wait(parameters):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    work, _ = make_work({})
    running = asyncio.ensure_future(run_callable(work, wait))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["cancelled"]


async def test_cancelled_nobody_waits_for_a_thread_and_what_it_says_is_dropped(make_work):
    began, go_on, over = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stubborn(parameters, context):
        context.emit("before")
        loop.call_soon_threadsafe(began.set)
        go_on.wait(60)
        context.emit("after")
        loop.call_soon_threadsafe(over.set)
        return "late"

    work, told = make_work({})
    running = asyncio.ensure_future(run_callable(work, stubborn))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not go_on.is_set()  # it is still at it
    go_on.set()
    await over.wait()
    await asyncio.sleep(0)
    assert told.of("custom") == ["before"]
