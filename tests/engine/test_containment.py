"""Tasks of a process of ours: what their code raises is their error, and ends nothing else."""

import asyncio
import sys
import threading

import pytest

from checkrail.engine.containment import (
    contain,
    contain_errors,
    contain_tasks,
    create_contained_task,
    is_process_ours,
    is_unasked,
)
from checkrail.engine.errors import CodeExited, ControlFlow, describe_error, error_type


class Own(BaseException):
    pass


async def leave(code=3):
    await asyncio.sleep(0)
    sys.exit(code)


async def nothing():
    pass


async def interrupt():
    raise KeyboardInterrupt


async def test_a_task_that_exits_has_an_error_and_the_loop_goes_on():
    contain_tasks()
    exiting, interrupting = asyncio.create_task(leave()), asyncio.create_task(interrupt())
    await asyncio.wait({exiting, interrupting})
    assert str(exiting.exception()).startswith("called sys.exit(3) in leave, line ")
    assert describe_error(exiting.exception()).startswith("SystemExit: called sys.exit(3)")
    assert error_type(interrupting.exception()) == "KeyboardInterrupt"
    assert isinstance(exiting.exception().__cause__, SystemExit)


async def test_tasks_of_others_are_contained_too():
    contain_tasks()
    found = await asyncio.gather(leave(), leave(None), interrupt(), return_exceptions=True)
    assert [type(error) for error in found] == [CodeExited] * 3
    assert "called sys.exit()" in str(found[1])
    with pytest.raises(ExceptionGroup) as group:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(leave())
    assert error_type(group.value.exceptions[0]) == "SystemExit"


async def test_a_task_that_exits_when_it_is_cancelled_is_contained():
    contain_tasks()

    async def exits():
        try:
            await asyncio.sleep(60)
        finally:
            sys.exit(4)

    task = asyncio.create_task(exits())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert error_type(task.exception()) == "SystemExit"


@pytest.mark.filterwarnings("error")
async def test_a_task_is_what_it_would_be_without():
    contain_tasks()
    task = asyncio.create_task(asyncio.sleep(0, "done"), name="mine")
    assert (task.get_name(), task.get_coro().cr_code.co_name) == ("mine", "sleep")
    assert await task == "done"
    never = asyncio.create_task(asyncio.sleep(60))
    never.cancel()  # before it begins: nobody is warned of a coroutine that was not awaited
    with pytest.raises(asyncio.CancelledError):
        await never
    closed = create_contained_task(asyncio.get_running_loop(), asyncio.sleep(0)).get_coro()
    closed.close()
    assert await create_contained_task(asyncio.get_running_loop(), nothing()).get_coro() is None


def test_an_interrupt_passes_where_the_process_is_the_users():
    async def main():
        assert not is_process_ours()
        await create_contained_task(asyncio.get_running_loop(), interrupt())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert not is_process_ours()


async def test_another_factory_of_tasks_is_left_alone():
    def create(loop, coroutine, **options):
        return asyncio.Task(coroutine, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(create)
    contain_tasks()
    assert asyncio.get_running_loop().get_task_factory() is create


@pytest.mark.parametrize("error", [ValueError(), GeneratorExit(), ControlFlow()])
def test_what_is_ordinary_or_meant_to_pass_is_left_as_it_is(error):
    assert contain(error) is error
    with pytest.raises(type(error)), contain_errors():
        raise error


def test_an_error_without_a_place_is_told_without_one():
    assert str(CodeExited(Own())) == "raised Own"


async def test_a_cancellation_is_an_error_only_if_nobody_asked_for_it():
    with pytest.raises(CodeExited, match="raised CancelledError"), contain_errors():
        raise asyncio.CancelledError

    async def waits():
        with contain_errors():
            await asyncio.sleep(60)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_in_a_thread_a_cancellation_is_left_as_it_is():
    found = []
    thread = threading.Thread(target=lambda: found.append(is_unasked(asyncio.CancelledError())))
    thread.start()
    thread.join()
    assert found == [False]
    assert not is_unasked(ValueError())
