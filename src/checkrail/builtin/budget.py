"""`budget`: lets so many tokens be used in a time, or so much be spent."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.builtin.counters import AmountStore, Clock, MemoryAmounts
from checkrail.builtin.dimensions import (
    counter_key,
    describe_owner,
    hook_key,
    hook_name,
    read_dimensions,
)
from checkrail.builtin.open_calls import OpenCalls, call_id
from checkrail.engine.event import Event, notes_of
from checkrail.engine.outcomes import Block, Fail, Outcome
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.usage import total_cost, total_tokens

if TYPE_CHECKING:
    from checkrail.builtin.counters import CounterSource
    from checkrail.builtin.options import BudgetOptions


LENGTHS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
DAY = 86400.0
LINGERS = {"run": 30 * DAY, "total": 366 * DAY}
"""How long an amount without an end is kept after the last was added to it."""

GRACE = 60.0
"""How long an amount is kept beyond its end: clocks differ."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time; without an `end`, it lasts as long as what is counted in it."""

    start: float
    end: float | None
    until: float

    def format_end(self, now: float) -> str:
        """Return the time at which it ends, as a text; empty if it never does."""
        if self.end is None:
            return ""
        when = datetime.fromtimestamp(self.end, UTC)
        return f"{when:%Y-%m-%d %H:%M} UTC, in {max(1, round(self.end - now))} s"


def window_at(per: str, now: float) -> Window:
    """Return the window of a kind that contains `now`."""
    if per in LINGERS:
        return Window(0.0, None, now + LINGERS[per])
    if per in LENGTHS:
        start = now - now % LENGTHS[per]
        return _build_window(start, start + LENGTHS[per])
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "week":
        monday = today - timedelta(days=today.weekday())
        return _build_window(monday.timestamp(), (monday + timedelta(days=7)).timestamp())
    first = today.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return _build_window(first.timestamp(), following.timestamp())


def _build_window(start: float, end: float) -> Window:
    return Window(start, end, end + GRACE)


log = logging.getLogger("checkrail.hooks")

Keeper = Callable[[Event[Any], Any], Awaitable[Outcome | None]]

Spenders = tuple[str | None, ...]
"""Whose budget it is: a name for each thing that is counted apart, in the order of `by`."""

Call = tuple[Spenders, str]
"""A request that is not answered yet: whose budget it is on, and the model that was asked.

A request may leave it to the provider which model that is: then its name is empty.
"""

HAS_PRICE = "budget.has_price"
"""Where a host that has prices notes a function that says whether a model may have one."""

_MOST_NAMES = 10_000

_NO_RUN = "built-in hook 'budget' goes by the run with `per: run`: fire its points with a run_id"


class _Budget:
    """What one hook allows, and where it is counted."""

    def __init__(
        self,
        options: BudgetOptions,
        outside: CounterSource | None,
        store: AmountStore | None,
        clock: Clock,
    ) -> None:
        self._options = options
        self._outside = outside
        self._own = MemoryAmounts(clock=clock) if store is None else store
        self._clock = clock
        self._calls: OpenCalls[Call] = OpenCalls()
        self._unpriced: dict[str, None] = {}
        limits = {"tokens": options.tokens, "cost": options.cost}
        self._limits = {unit: limit for unit, limit in limits.items() if limit is not None}

    @property
    def _amount_store(self) -> AmountStore:
        given = None if self._outside is None else self._outside.counters
        return self._own if given is None else given

    async def check_budget(self, event: Event[Any]) -> Outcome | None:
        """Refuse a request whose budget is used up, or whose price is unknown."""
        options, now = self._options, self._clock()
        if options.per == "run" and event.run_id is None:
            return Fail(_NO_RUN, "run_id_missing")
        found = read_dimensions(event, options.by)
        if (refusal := self._check_price(event)) is not None:
            return refusal
        spenders = tuple(found.values())
        self._calls.note_request(event, (spenders, event.model or ""))
        window = window_at(options.per, now)
        keys = self._counter_keys(event, spenders)
        amounts = await self._amount_store.used([*keys.values()], window.start)
        for (unit, limit), amount in zip(self._limits.items(), amounts, strict=True):
            if amount >= limit:
                told = f"{format_amount(limit, unit)} per {options.per}{describe_owner(found)}"
                if options.per == "total":
                    told = f"{format_amount(limit, unit)} in total{describe_owner(found)}"
                used = f"{format_amount(amount, unit)} are used"
                reason = (
                    f"the budget of {told} is used up, {used}: {self._describe_reset(window, now)}"
                )
                wait = None if window.end is None else max(1.0, window.end - now)
                return Block(reason, 429, "budget_exceeded", wait)
        return None

    async def add_usage(self, event: Event[Any]) -> None:
        """Add what an answer used; a request that this hook never saw is not its business."""
        asked = self._calls.pop_notes(event)
        if not asked and call_id(event) is not None:
            return
        here = tuple(read_dimensions(event, self._options.by).values())
        spenders, model = self._likeliest_call(asked, (here, event.model or ""))
        usage = event.original.usage  # what was used, whatever hooks made of the answer
        if "cost" in self._limits and total_tokens(usage) and total_cost(usage) is None:
            self._note_unpriced(model)
        used = {"tokens": total_tokens(usage), "cost": total_cost(usage)}
        keys = self._counter_keys(event, spenders)
        amounts = {key: float(amount) for unit, key in keys.items() if (amount := used[unit])}
        if amounts:
            window = window_at(self._options.per, self._clock())
            await self._amount_store.add(amounts, window.start, window.until)

    def _counter_keys(self, event: Event[Any], spenders: Spenders) -> dict[str, str]:
        per = self._options.per
        run = (event.run_id,) if per == "run" else ()
        name = hook_key()
        return {unit: counter_key(name, unit, per, *run, *spenders) for unit in self._limits}

    def _check_price(self, event: Event[Any]) -> Block | None:
        """Refuse a request that would be paid for without being counted."""
        if "cost" not in self._limits:
            return None
        model = event.model or ""
        has_price = notes_of(event).get(HAS_PRICE)
        if has_price is not None and not has_price(model):
            self._note_unpriced(model)
        if self._options.unknown_price == "allow" or model not in self._unpriced:
            return None
        reason = (
            f"there is a budget in USD, and the price of {_model_text(model)} is not known: "
            "add it to gateway.prices, or say `unknown_price: allow` in the budget's config"
        )
        return Block(reason, code="unknown_price")

    def _note_unpriced(self, model: str) -> None:
        """Remember that a model has no price, and log it once."""
        if model in self._unpriced:
            return
        if len(self._unpriced) >= _MOST_NAMES:
            del self._unpriced[next(iter(self._unpriced))]
        self._unpriced[model] = None
        allowed = self._options.unknown_price == "allow"
        became = "its calls count nothing" if allowed else "its calls are blocked"
        log.warning(
            "hook %r has a budget in USD, and the price of %s is not known: %s "
            "(unknown_price: %s). Add it to gateway.prices",
            hook_name(),
            _model_text(model[:200]),
            became,
            self._options.unknown_price,
        )

    def _likeliest_call(self, asked: list[Call], here: Call) -> Call:
        """Choose among requests that an answer may belong to: models answer under longer names."""
        if len(asked) > 1 and "model" in self._options.by:
            asked = [one for one in asked if here[1].startswith(one[1])]
            asked.sort(key=lambda one: -len(one[1]))
        return asked[0] if asked else here

    def _describe_reset(self, window: Window, now: float) -> str:
        if window.end is not None:
            return f"it is free again at {window.format_end(now)}"
        return "another run has its own" if self._options.per == "run" else "it does not begin anew"


def _model_text(model: str) -> str:
    return f"the model {model!r}" if model else "a model that is not named"


def format_amount(amount: float, unit: str) -> str:
    """Return an amount with its unit."""
    if unit == "tokens":
        return f"{int(amount)} tokens"
    return f"{amount:.6f}".rstrip("0").rstrip(".") + " USD"


def build(
    options: BudgetOptions,
    outside: CounterSource | None = None,
    store: AmountStore | None = None,
    clock: Clock = time.time,
) -> Keeper:
    """Build the hook."""
    kept = _Budget(options, outside, store, clock)

    async def budget(event: Event[Any], value: Any) -> Outcome | None:
        if isinstance(value, AssistantMessage):
            await kept.add_usage(event)
            return None
        BUILTIN.expect_value(event, value, ModelRequest)
        return await kept.check_budget(event)

    return budget


def keeper(
    config: Mapping[str, Any],
    *,
    store: AmountStore | None = None,
    clock: Clock = time.time,
) -> Keeper:
    """Build the hook with a store or a clock of your own."""
    return build(BUILTIN.parse_options(config), None, store, clock)  # type: ignore[arg-type]


BUILTIN = Builtin(
    name="budget",
    summary="blocks with 429 when the tokens or the money of a user, a key or the like are used up",
    points=(HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL),
    lane=Lane.GATE,
    build=build,
    example={"tokens": 100_000, "cost": 2.5, "per": "day", "by": ["user"]},
    together=True,
    observes=frozenset({HookPoint.AFTER_LLM_CALL}),
    counts=True,
    reads=(ModelRequest, AssistantMessage),
)


async def budget(event: Event[Any], value: Any) -> Outcome | None:
    """Refuse what goes over the budget, and add what was used."""
    return await BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
