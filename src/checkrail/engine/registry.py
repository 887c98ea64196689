"""The registry: where the hooks of one level are kept, and points are fired."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from checkrail.engine.binding import Bound, fail_open_advice
from checkrail.engine.dispatch import log
from checkrail.engine.errors import HookRefusedError, suggestion
from checkrail.engine.event import Context
from checkrail.engine.hook import Hook, HookSpec, declare
from checkrail.engine.plan import Plan, compiled
from checkrail.engine.points import point_named
from checkrail.engine.scope import Budget, Scope, Sink
from checkrail.engine.verdict import PlainVerdict, Verdict, VerdictDraft

if TYPE_CHECKING:
    from checkrail.engine.asks import AskHandler
    from checkrail.engine.options import HookOptions
    from checkrail.engine.overruns import Overruns
    from checkrail.engine.records import History
    from checkrail.engine.watch import Walker, Watchdog

DEFAULT_RUN_RETRIES = 10
KEPT_BUDGETS = 4096
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
        self.sinks: tuple[Sink, ...] = _sinks(sink)
        self.ask = ask
        self.history: History = history
        self.max_retries = max_retries
        self.label = label
        self.marking = False
        self.plan: Plan = compiled(())
        self._hooks: dict[str, HookSpec] = {}
        self._budgets: dict[str, Budget] = {}
        self._lock = threading.RLock()
        self.dogs: dict[asyncio.AbstractEventLoop, Watchdog] = {}
        self.idle: list[Walker] = []
        self.overruns: dict[str, Overruns] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()

    def register(
        self,
        hook: Hook | HookSpec | Callable[..., Any],
        *points: str,
        name: str | None = None,
        **options: Unpack[HookOptions],
    ) -> HookSpec:
        """Add a hook, or refuse it with the reason."""
        spec = _spec(hook, points, name, options)
        with self._lock:
            if not spec.named:
                spec = dataclasses.replace(spec, name=self._free_name(spec.name))
            elif spec.name in self._hooks:
                remedy = "Give it another name, or use replace()"
                raise HookRefusedError(spec.name, "there is a hook of that name", remedy)
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
        spec = _spec(hook, points, name, options)
        with self._lock:
            self._known(spec.name)
            hooks = {**self._hooks, spec.name: spec}
            self._swap(hooks.values())
        self._warn_if_open(spec)
        return spec

    def unregister(self, name: str) -> HookSpec:
        """Take a hook away."""
        with self._lock:
            spec = self._known(name)
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
        """Give the hooks in the order of their registration, or of one point in its order."""
        if point is None:
            return [*self._hooks.values()]
        return [bound.spec for bound in self.bound(point)]

    def bound(self, point: str) -> tuple[Bound, ...]:
        """Give the hooks of one point as they will be called."""
        chain = self.plan[point_named(point)]
        if chain is None:
            return ()
        entries = [entry for _, found in chain.lanes for entry in found]
        return tuple(entry[0] for entry in (*entries, *chain.background))

    def has(self, point: str) -> bool:
        """Say whether any hook stands at a point."""
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
        held = dict(zip(parent.levels, parent.desks, strict=True))
        held[self] = ask or held.get(self) or self.ask
        made = Scope(tuple(held), context, budget, tuple(held.values()))
        made.notes = parent.notes
        made.lack(parent.without)
        return made

    def _scope(self, context: Context, ask: AskHandler | None = None) -> Scope:
        return Scope((self,), context, self.budget(context.run_id), (ask or self.ask,))

    def budget(self, run_id: str | None) -> Budget:
        """Give the retries of a run: the same to all who name it, lately at least."""
        if run_id is None:
            return Budget(self.max_retries)
        with self._lock:
            budget = self._budgets.pop(run_id, None) or Budget(self.max_retries)
            self._budgets[run_id] = budget
            if len(self._budgets) > KEPT_BUDGETS:
                del self._budgets[next(iter(self._budgets))]
        return budget

    async def fire(self, point: str, value: Any, **context: Any) -> Verdict:
        """Call the hooks at a point, and give the verdict."""
        if self.plan[point] is None:
            if context:
                NO_IDS.bind(context)  # a mistake in it is one now, and not when a hook comes
            verdict = VerdictDraft()
            verdict.value = value
            verdict._d = None
            verdict.__class__ = PlainVerdict
            return verdict  # type: ignore[return-value]
        return await self._scope(NO_IDS.bind(context)).fire(point, value)

    def mark(self) -> None:
        """Have tasks that hooks start remember whose work they are, from now on."""
        if not self.marking:
            with self._lock:
                self.marking = True
                self._swap(self._hooks.values())

    def hold(self, work: Coroutine[Any, Any, Any], *, abandoned: bool = False) -> None:
        """Run something in a task that outlives its caller."""
        task = asyncio.get_running_loop().create_task(work)
        held = self._abandoned if abandoned else self._tasks
        held.add(task)
        task.add_done_callback(held.discard)

    async def aclose(self) -> None:
        """Wait for the observers in the background; each has its timeout."""
        while waiting := _here(self._tasks):
            await asyncio.wait(waiting)
        for task in _here(self._abandoned):
            task.cancel()

    def _swap(self, specs: Iterable[HookSpec]) -> None:
        hooks: dict[str, HookSpec] = {}
        bound: list[Bound] = []
        for spec in specs:
            if spec.name in hooks:
                remedy = "Names are unique at their level: rename one of them"
                raise HookRefusedError(spec.name, "there are two hooks of that name", remedy)
            hooks[spec.name] = spec
            bound += [Bound(spec, place, self, len(hooks)) for place in spec.places]
        plan = compiled(bound)
        self._hooks, self.plan = hooks, plan

    def _warn_if_open(self, spec: HookSpec) -> None:
        """Log that a hook which refuses fails open; `swap` moves hooks of which it was said."""
        for bound in (bound for place in spec.places for bound in self.bound(place.point)):
            if bound.spec is spec and (advice := fail_open_advice(bound)) is not None:
                log.warning('%s: %s. Say %s="%s"', bound.where, *advice)

    def _known(self, name: str) -> HookSpec:
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


def _here(tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Give the tasks of this event loop: nobody else's can be waited for."""
    loop = asyncio.get_running_loop()
    return [task for task in [*tasks] if task.get_loop() is loop]


def _spec(
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


def _sinks(given: Any) -> tuple[Sink, ...]:
    if given is None:
        return ()
    sinks = (given,) if callable(given) or isinstance(given, str) else tuple(given)
    for sink in sinks:
        if not callable(sink):
            message = f"a sink is called with each record, but {sink!r} cannot be called"
            raise TypeError(f"{message}: a file is written by checkrail.telemetry.JsonLinesSink")
    return sinks
