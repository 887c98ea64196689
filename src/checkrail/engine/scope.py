"""A scope: the ids, the budget and the levels of hooks that one piece of work goes by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.chain import Chain, join_chains
from checkrail.engine.dispatch import fire, fire_detached
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Context
from checkrail.engine.outcomes import Fail, Retry

if TYPE_CHECKING:
    from checkrail.engine.asks import AskHandler
    from checkrail.engine.chain import BoundHook
    from checkrail.engine.records import History, HookRecord
    from checkrail.engine.registry import HookRegistry

Sink = Callable[["HookRecord"], object]

Accepts = Callable[[str, Any], str | None]
"""Says what is wrong with a value that a hook left at a point, beyond its type; None: nothing."""

Conceal = Callable[[Any], Any]
"""Returns a value, or what is said of it, without what only hooks in this process may see."""


class Budget:
    """The retries of one run: so many for each hook, so many in all."""

    __slots__ = ("before", "limit", "spent", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.spent: dict[Any, int] = {}
        self.before: Mapping[str, int] = {}

    def used_by_hook(self) -> dict[str, int]:
        """Return what each hook has used up, by names that other processes know too."""
        now = {f"{level.label}/{name}": spent for (level, name), spent in self.spent.items()}
        return {**self.before, **now}

    def resume(self, used_by_hook: Mapping[str, int]) -> None:
        """Go on with what the same run has used up before."""
        self.before = used_by_hook
        self.used = sum(used_by_hook.values())

    def charge(self, bound: BoundHook, answer: Retry) -> Retry | Fail:
        """Return a retry that is granted, or the failure that they are used up."""
        spent = self.spent.get(bound.identity, self.before.get(bound.key, 0))
        why = f" Its last reason: {answer.reason}" if answer.reason else ""
        if spent >= bound.spec.max_retries:
            reason = f"{bound.where} has used up its {spent} retries.{why}"
            return Fail(reason, "retries_exhausted")
        if self.used >= self.limit:
            reason = f"the run's {self.limit} retries are used up: {bound.where} wants more.{why}"
            return Fail(reason, "retries_exhausted")
        self.spent[bound.identity] = spent + 1
        self.used += 1
        return answer


class Scope:
    """Fires points with ids that are bound once, on the hooks of every level above it."""

    __slots__ = (
        "_joined",
        "accepts",
        "ask_handlers",
        "budget",
        "conceal",
        "context",
        "excluded",
        "levels",
        "notes",
        "only_level",
        "outermost",
        "sinks",
    )

    def __init__(
        self,
        levels: tuple[HookRegistry, ...],
        context: Context,
        budget: Budget,
        ask_handlers: tuple[AskHandler | None, ...],
    ) -> None:
        self.levels = levels
        self.outermost = levels[0]
        self.only_level = levels[0] if len(levels) == 1 else None
        self.context = context
        self.budget = budget
        self.ask_handlers = ask_handlers
        self.accepts: Accepts | None = None
        self.conceal: Conceal | None = None
        self.excluded: frozenset[str] = frozenset()
        self.notes: dict[str, Any] = {}
        sinks = {id(sink): sink for level in levels for sink in level.sinks}
        self.sinks: tuple[Sink, ...] = tuple(sinks.values())
        self._joined: dict[str, tuple[tuple[Chain | None, ...], Chain | None]] = {}

    fire = fire
    fire_detached = fire_detached

    def has(self, point: str) -> bool:
        """Return whether any hook stands at a point."""
        return self.chain(point) is not None

    def bound_hooks(self, point: str) -> tuple[BoundHook, ...]:
        """Return the hooks of all levels at a point, as they will be called."""
        chain = self.chain(point)
        return () if chain is None else chain.hooks

    def bind(self, **ids: Any) -> Scope:
        """Return a scope for the same work with more ids bound."""
        bound = Scope(self.levels, self.context.bind(ids), self.budget, self.ask_handlers)
        bound._joined = self._joined
        bound.accepts = self.accepts
        bound.conceal = self.conceal
        bound.notes = self.notes
        bound.exclude(self.excluded)
        return bound

    def bind_model_names(self, **names: str | None) -> Scope:
        """Return a scope whose `models` matchers go by these `MODEL_NAMES` of its model too."""
        context = self.context
        new = {name: said for name, said in names.items() if said and said != context.model}
        return self.bind(metadata={**context.metadata, **new}) if new else self

    def with_ask_handler(self, handler: AskHandler) -> Scope:
        """Return a scope for the same work, where somebody else answers for the outermost level."""
        made = self.bind()
        made.ask_handlers = (handler, *self.ask_handlers[1:])
        return made

    def exclude(self, keys: frozenset[str]) -> None:
        """Leave out hooks, named `level/hook`, here and beneath: this is work that they started."""
        self.excluded = keys
        if keys:
            self.only_level = None

    def check_value(self, point: str, value: Any) -> Any:
        """Return a value that a hook left, or raise that this work does not take it."""
        if self.accepts is not None and (wrong := self.accepts(point, value)) is not None:
            raise InvalidOutcomeError(wrong)
        return value

    @property
    def history(self) -> History:
        """How much of changed values records keep."""
        return self.outermost.history

    def find_ask_handler(self, bound: BoundHook) -> AskHandler | None:
        """Find who answers a hook's questions: its own level, else those around it, else within.

        So nobody further in can approve what a level further out wants to have approved.
        """
        own = self.levels.index(bound.level)
        order = (*self.ask_handlers[own::-1], *self.ask_handlers[own + 1 :])
        return next((handler for handler in order if handler is not None), None)

    def chain(self, point: str) -> Chain | None:
        """Return the hooks of all levels at a point; joined once, and again when one changes."""
        parts = tuple(level.plan[point] for level in self.levels)
        known = self._joined.get(point)
        if known is None or known[0] != parts:
            chain = join_chains(parts)
            if chain is not None and self.excluded:
                chain = chain.without(self.excluded)
            known = self._joined[point] = (parts, chain)
        return known[1]


class Trial(Scope):
    """Some hooks of a scope, tried out: no sink is told, nobody is asked, and retries are free."""

    __slots__ = ("_tried",)

    def __init__(self, scope: Scope, points: Iterable[str], hooks: Iterable[BoundHook]) -> None:
        nobody = (None,) * len(scope.levels)
        super().__init__(scope.levels, scope.context, Budget(sys.maxsize), nobody)
        self.only_level = None
        self.sinks = ()
        tried = frozenset(hooks)
        chains = {point: scope.chain(point) for point in points}
        self._tried = {
            point: chain and chain.narrow(tried.__contains__) for point, chain in chains.items()
        }

    def chain(self, point: str) -> Chain | None:
        """Return the hooks at a point that are tried: those of the beginning."""
        return self._tried[point]
