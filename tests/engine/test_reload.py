"""A dispatch uses one chain from beginning to end; the next point sees the new one."""

import asyncio
import threading

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.hook import declare
from checkrail.engine.registry import HookRegistry


def noting(seen, name, **options):
    return declare(lambda event: seen.append(name), ["before_run"], name, **options)


@pytest.mark.parametrize("nested", [False, True])
async def test_a_reload_during_a_dispatch_shows_at_the_next_point(nested):
    registry, seen = HookRegistry(), []
    scope = HookRegistry().scope(parent=registry.scope()) if nested else registry.scope()

    async def reload(event):
        seen.append("reload")
        await asyncio.sleep(0)
        registry.swap([noting(seen, "new", lane="gate")])

    registry.register(reload, "before_run", name="reload")
    registry.register(noting(seen, "old", priority=200))
    registry.register(noting(seen, "old-gate", lane="gate"))
    registry.register(noting(seen, "old-observer", lane="observe"))
    await scope.fire("before_run", {})
    assert seen == ["reload", "old", "old-gate", "old-observer"]
    seen.clear()
    await scope.fire("before_run", {})
    assert seen == ["new"]


async def test_a_scope_sees_hooks_that_come_and_go_at_any_level():
    server, agent, seen = HookRegistry(), HookRegistry(), []
    scope = agent.scope(parent=server.scope())
    assert not scope.has("before_run")
    server.register(noting(seen, "s"))
    assert scope.has("before_run")
    await scope.fire("before_run", {})
    agent.register(noting(seen, "a"))
    await scope.fire("before_run", {})
    server.unregister("s")
    await scope.fire("before_run", {})
    assert seen == ["s", "s", "a", "a"]


async def test_a_set_that_is_refused_changes_nothing():
    registry, seen = HookRegistry(), []
    registry.register(noting(seen, "old"))
    bad = declare(lambda event: None, ["after_run"], "bad", lane="gate")
    for specs in ([noting(seen, "new"), bad], [noting(seen, "new"), noting(seen, "new")]):
        with pytest.raises(HookRefusedError):
            registry.swap(specs)
        await registry.fire("before_run", {})
    assert seen == ["old", "old"]
    assert [spec.name for spec in registry.list()] == ["old"]


def test_hooks_registered_from_many_threads_are_all_there():
    registry = HookRegistry()

    def register(start):
        for number in range(start, start + 25):
            registry.register(lambda event: None, "before_run", name=f"h{number}")

    threads = [threading.Thread(target=register, args=(start,)) for start in range(0, 200, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {spec.name for spec in registry.list("before_run")} == {f"h{n}" for n in range(200)}


async def test_swaps_from_a_thread_never_show_half_a_set():
    registry, seen = HookRegistry(), []
    sets = [[noting(seen, f"{letter}{n}") for n in range(5)] for letter in "ab"]
    registry.swap(sets[0])
    stop = threading.Event()

    def swapping():
        while not stop.is_set():
            for specs in sets:
                registry.swap(specs)

    thread = threading.Thread(target=swapping)
    thread.start()
    try:
        for _ in range(300):
            seen.clear()
            await registry.fire("before_run", {})
            assert seen in ([f"a{n}" for n in range(5)], [f"b{n}" for n in range(5)])
    finally:
        stop.set()
        thread.join()
