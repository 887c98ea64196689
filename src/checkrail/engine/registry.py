"""The registry: where the hooks of one level are kept, and points are fired."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from checkrail.engine.chain import BoundHook, Plan, compile_plan
from checkrail.engine.dispatch_state import log
from checkrail.engine.errors import HookRefusedError, suggestion
from checkrail.engine.event import Context
from checkrail.engine.hook import Hook, HookOptions, HookSpec, declare
from checkrail.engine.hook_checks import fail_open_advice
from checkrail.engine.new_messages import SEEN_MESSAGES, SeenMessages
from checkrail.engine.points import find_point
from checkrail.engine.scope import Budget, Scope, Sink
from checkrail.engine.verdict import Verdict
from checkrail.recent import RecentEntries

if TYPE_CHECKING:
    from checkrail.engine.asks import AskHandler
    from checkrail.engine.points import Lane
    from checkrail.engine.records import History
    from checkrail.engine.timeouts import Overruns

DEFAULT_RUN_RETRIES = 10
MAX_BUDGETS = 4096
NO_IDS = Context()


class HookRegistry:
    """The hooks of one level: a server, a run or an agent.

    `sink` takes every record as it is made; `ask` puts questions to a person; `history` says how
    much of changed values records keep; `max_retries` is how often one run may be retried in all.
    """

    def __init__(
        self,
        sink: Sink | Iterable[Sink] | None = None,
        *,
        ask: AskHandler | None = None,
        history: History = "full",
        max_retries: int = DEFAULT_RUN_RETRIES,
        label: str = "",
    ) -> None:
        self.sinks: tuple[Sink, ...] = _read_sinks(sink)
        self.ask = ask
        self.history: History = history
        self.max_retries = max_retries
        self.label = label
        self.plan: Plan = compile_plan(())
        self._hooks: dict[str, HookSpec] = {}
        self._budgets: dict[str, Budget] = {}
        self._lock = threading.RLock()
        self.overruns: dict[str, Overruns] = {}
        self.seen_messages: SeenMessages = RecentEntries(SEEN_MESSAGES)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unended: set[asyncio.Task[Any]] = set()

    def register(
        self,
        hook: Hook | HookSpec | Callable[..., Any],
        *points: str,
        name: str | None = None,
        **options: Unpack[HookOptions],
    ) -> HookSpec:
        """Add a hook, or refuse it with the reason."""
        spec = _read_spec(hook, points, name, options)
        with self._lock:
            if not spec.named:
                spec = dataclasses.replace(spec, name=self._free_name(spec.name))
            elif spec.name in self._hooks:
                remedy = "Give it another name, or use replace()"
                raise HookRefusedError(spec.name, "there is a hook of that name", remedy, "name")
            self._swap([*self._hooks.values(), spec])
        self._warn_if_open(spec)
        return spec

    def replace(
        self,
        hook: Hook | HookSpec | Callable[..., Any],
        *points: str,
        name: str | None = None,
        **options: Unpack[HookOptions],
    ) -> HookSpec:
        """Put a hook in the place of the one that has its name."""
        spec = _read_spec(hook, points, name, options)
        with self._lock:
            self._find(spec.name)
            hooks = {**self._hooks, spec.name: spec}
            self._swap(hooks.values())
        self._warn_if_open(spec)
        return spec

    def unregister(self, name: str) -> HookSpec:
        """Take a hook away."""
        with self._lock:
            spec = self._find(name)
            self._swap(other for other in self._hooks.values() if other is not spec)
        return spec

    def swap(
        self,
        specs: Iterable[HookSpec] | Callable[[list[HookSpec]], Iterable[HookSpec]],
    ) -> None:
        """Put another set of hooks in the place of all: whole, or not at all.

        The new set may be given by a function of the present one, so that nobody's is lost.
        """
        with self._lock:
            self._swap(specs([*self._hooks.values()]) if callable(specs) else specs)

    def list(self, point: str | None = None) -> list[HookSpec]:
        """Return the hooks in the order of their registration, or of one point in its order."""
        if point is None:
            return [*self._hooks.values()]
        return [bound.spec for bound in self.bound_hooks(point)]

    def bound_hooks(self, point: str) -> tuple[BoundHook, ...]:
        """Return the hooks of one point as they will be called."""
        chain = self.plan[find_point(point)]
        return () if chain is None else chain.hooks

    def has(self, point: str) -> bool:
        """Return whether any hook stands at a point."""
        return self.plan[point] is not None

    def scope(
        self,
        *,
        parent: Scope | None = None,
        ask: AskHandler | None = None,
        **ids: Any,
    ) -> Scope:
        """Bind ids once; with a parent, every hook above holds here too."""
        if parent is None:
            return self._scope(NO_IDS.bind(ids), ask)
        context = parent.context.bind(ids)
        same_run = context.run_id == parent.context.run_id
        budget = parent.budget if same_run else parent.outermost.budget(context.run_id)
        handlers = dict(zip(parent.levels, parent.ask_handlers, strict=True))
        handlers[self] = ask or handlers.get(self) or self.ask
        made = Scope(tuple(handlers), context, budget, tuple(handlers.values()))
        made.notes = parent.notes
        made.exclude(parent.excluded)
        return made

    def _scope(self, context: Context, ask: AskHandler | None = None) -> Scope:
        return Scope((self,), context, self.budget(context.run_id), (ask or self.ask,))

    def budget(self, run_id: str | None) -> Budget:
        """Return the retries of a run: the same to all who name it, lately at least."""
        if run_id is None:
            return Budget(self.max_retries)
        with self._lock:
            budget = self._budgets.pop(run_id, None) or Budget(self.max_retries)
            self._budgets[run_id] = budget
            if len(self._budgets) > MAX_BUDGETS:
                del self._budgets[next(iter(self._budgets))]
        return budget

    async def fire(
        self,
        point: str,
        value: Any,
        *,
        lanes: Collection[Lane] | None = None,
        after: Verdict | None = None,
        **context: Any,
    ) -> Verdict:
        """Call the hooks at a point, and return the verdict; see `Scope.fire`."""
        if self.plan[point] is None and not context:
            return Verdict(value)
        scope = self._scope(NO_IDS.bind(context))
        return await scope.fire(point, value, lanes=lanes, after=after)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in a task that outlives its caller, and that `aclose` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        """Keep a task for which nobody waits any longer until it ends, however that is."""
        self._unended.add(task)
        task.add_done_callback(self._unended.discard)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def aclose(self) -> None:
        """Wait for the observers in the background, each for its timeout and a grace at most."""
        while waiting := _in_this_loop(self._tasks):
            await asyncio.wait(waiting)
        for task in _in_this_loop(self._unended):
            task.cancel()

    def _swap(self, specs: Iterable[HookSpec]) -> None:
        hooks: dict[str, HookSpec] = {}
        bound: list[BoundHook] = []
        for spec in specs:
            if spec.name in hooks:
                remedy = "Names are unique at their level: rename one of them"
                raise HookRefusedError(
                    spec.name, "there are two hooks of that name", remedy, "name"
                )
            hooks[spec.name] = spec
            bound += [BoundHook(spec, place, self, len(hooks)) for place in spec.places]
        plan = compile_plan(bound)
        self._hooks, self.plan = hooks, plan

    def _warn_if_open(self, spec: HookSpec) -> None:
        """Log that a hook which refuses fails open; `swap` moves hooks of which it was said."""
        for bound in (bound for place in spec.places for bound in self.bound_hooks(place.point)):
            if bound.spec is spec and (advice := fail_open_advice(bound)) is not None:
                log.warning('%s: %s. Say %s="%s"', bound.where, *advice)

    def _find(self, name: str) -> HookSpec:
        try:
            return self._hooks[name]
        except KeyError:
            problem = f"there is no hook of that name{suggestion(name, self._hooks)}"
            known = ", ".join(self._hooks) or "none"
            raise HookRefusedError(name, problem, f"Registered are: {known}") from None

    def _free_name(self, name: str) -> str:
        number = 1
        free = name
        while free in self._hooks:
            number += 1
            free = f"{name}_{number}"
        return free


def _in_this_loop(tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Return the tasks of this event loop: nobody else's can be waited for."""
    loop = asyncio.get_running_loop()
    return [task for task in [*tasks] if task.get_loop() is loop]


def _read_spec(
    hook: Hook | HookSpec | Callable[..., Any],
    points: tuple[str, ...],
    name: str | None,
    options: HookOptions,
) -> HookSpec:
    if isinstance(hook, HookSpec):
        if points or name or options:
            remedy = "Say them where the spec is declared, or use dataclasses.replace"
            raise HookRefusedError(hook.name, "a HookSpec takes no points or options", remedy)
        return hook
    return declare(hook, points, name, **options)


def _read_sinks(given: Any) -> tuple[Sink, ...]:
    if given is None:
        return ()
    sinks = (given,) if callable(given) or isinstance(given, str) else tuple(given)
    for sink in sinks:
        if not callable(sink):
            message = f"a sink is called with each record, but {sink!r} cannot be called"
            raise TypeError(f"{message}: a file is written by checkrail.telemetry.JsonLinesSink")
    return sinks
