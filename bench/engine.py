"""Checkrail's dispatch, and what asyncio alone offers, against the bare loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from checkrail import HookRegistry, ToolCall
from measure import (
    BARE,
    HOOK_COUNTS,
    Hook,
    Measured,
    Run,
    Timing,
    bare_loop,
    compare,
    make_hooks,
)

POINT = "before_tool_call"
CALL = ToolCall(id="c1", name="lookup", args={})
EMPTY_AWAIT = "one empty await"
EngineHook = Callable[[object, object], Awaitable[object]]


def measure_engine() -> Measured:
    return Measured(
        version=None,
        sections={
            "empty": no_hooks(),
            "returning": [t for n in HOOK_COUNTS for t in hooks_that_return(n)],
            "suspending": [t for n in HOOK_COUNTS for t in hooks_that_suspend(n)],
        },
    )


def hooks_that_return(count: int) -> list[Timing]:
    hooks = make_hooks(count)
    ours = [_make_engine_hook() for _ in range(count)]
    records: list[object] = []
    with_sink = HookRegistry(sink=records.append)
    runs = {
        BARE: bare_loop(hooks, CALL),
        "asyncio.timeout": _loop_under_timeout(hooks),
        "asyncio.wait_for": _loop_with_wait_for(hooks),
        "checkrail": _dispatch(_registry(ours)),
        "checkrail, when": _dispatch(_registry(ours, when=_always)),
        "checkrail, when, records read": _dispatch_and_read(_registry(ours, when=_always)),
        "checkrail, when, sink": _dispatch_to_sink(
            _registry(ours, when=_always, registry=with_sink), records
        ),
    }
    return compare(runs, hooks=count)


def hooks_that_suspend(count: int) -> list[Timing]:
    hooks = [_make_suspending_hook() for _ in range(count)]
    ours = [_make_suspending_engine_hook() for _ in range(count)]
    runs = {
        BARE: bare_loop(hooks, CALL),
        "asyncio.timeout": _loop_under_timeout(hooks),
        "checkrail": _dispatch(_registry(ours)),
        "checkrail, when": _dispatch(_registry(ours, when=_always)),
    }
    return compare(runs, hooks=count)


def no_hooks() -> list[Timing]:
    registry = HookRegistry()
    scope = registry.scope(run_id="r1", session_id="s1")

    async def empty_await(times: int) -> None:
        for _ in range(times):
            await _nothing()

    async def has(times: int) -> None:
        for _ in range(times):
            registry.has(POINT)

    async def fire(times: int) -> None:
        for _ in range(times):
            await registry.fire(POINT, CALL)

    async def scope_fire(times: int) -> None:
        for _ in range(times):
            await scope.fire(POINT, CALL)

    runs = {
        EMPTY_AWAIT: empty_await,
        "registry.has": has,
        "registry.fire": fire,
        "scope.fire": scope_fire,
    }
    return compare(runs, hooks=0)


def _registry(
    hooks: Sequence[EngineHook],
    when: Callable[[object], bool] | None = None,
    registry: HookRegistry | None = None,
) -> HookRegistry:
    registry = registry or HookRegistry()
    for number, hook in enumerate(hooks):
        registry.register(hook, POINT, name=f"h{number}", when=when, timeout=5.0)
    return registry


def _dispatch(registry: HookRegistry) -> Run:
    scope = registry.scope(run_id="r1", session_id="s1")

    async def run(times: int) -> None:
        for _ in range(times):
            await scope.fire(POINT, CALL)

    return run


def _dispatch_and_read(registry: HookRegistry) -> Run:
    scope = registry.scope(run_id="r1", session_id="s1")

    async def run(times: int) -> None:
        for _ in range(times):
            verdict = await scope.fire(POINT, CALL)
            len(verdict.records)

    return run


def _dispatch_to_sink(registry: HookRegistry, records: list[object]) -> Run:
    dispatch = _dispatch(registry)

    async def run(times: int) -> None:
        await dispatch(times)
        records.clear()

    return run


def _loop_under_timeout(hooks: Sequence[Hook]) -> Run:
    async def run(times: int) -> None:
        for _ in range(times):
            for fn in hooks:
                async with asyncio.timeout(5):
                    await fn(CALL)

    return run


def _loop_with_wait_for(hooks: Sequence[Hook]) -> Run:
    async def run(times: int) -> None:
        for _ in range(times):
            for fn in hooks:
                await asyncio.wait_for(fn(CALL), 5)

    return run


async def _nothing() -> None:
    return None


def _always(event: object) -> bool:
    return True


def _make_engine_hook() -> EngineHook:
    async def hook(event: object, call: object) -> None:
        return None

    return hook


def _make_suspending_hook() -> Hook:
    async def hook(call: object) -> None:
        await asyncio.sleep(0)

    return hook


def _make_suspending_engine_hook() -> EngineHook:
    async def hook(event: object, call: object) -> None:
        await asyncio.sleep(0)

    return hook


if __name__ == "__main__":
    measure_engine().print()
