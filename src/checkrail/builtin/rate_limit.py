"""`rate_limit`: lets so many through in a time, and asks the rest to come again later."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.builtin.counters import Clock, MemoryStore, RateStore
from checkrail.builtin.dimensions import counted, counter_key, hook_name, whose
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane

if TYPE_CHECKING:
    from checkrail.actions.outside import Outside
    from checkrail.builtin.options import RateLimitOptions

__all__ = ["BUILTIN", "MemoryStore", "RateStore", "build", "limiter", "rate_limit"]

Limiter = Callable[[Event[Any]], Awaitable[Block | None]]


def build(
    options: RateLimitOptions,
    outside: Outside | None = None,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Make the hook."""
    own = MemoryStore() if store is None else store
    limit, per = options.limit, options.per

    async def rate_limit(event: Event[Any]) -> Block | None:
        found = counted(event, options.by)
        key = counter_key(hook_name(), event.point, per, *found.values())
        hits = own if outside is None or outside.counters is None else outside.counters
        allowed, wait = await hits.hit(key, limit, per, clock())
        if allowed:
            return None
        seconds = max(1, math.ceil(wait))
        reason = (
            f"the limit of {limit} per {per:g} s{whose(found)} is reached: try again in {seconds} s"
        )
        return Block(reason, 429, "rate_limited", seconds)

    return rate_limit


def limiter(
    config: Mapping[str, Any],
    *,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Make the hook with a store or a clock of your own."""
    return build(BUILTIN.options(config), None, store, clock)  # type: ignore[arg-type]


BUILTIN = Builtin(
    name="rate_limit",
    summary="lets so many through in a time, at each of its points, and blocks the rest with 429",
    points=(HookPoint.BEFORE_RUN, HookPoint.BEFORE_LLM_CALL, HookPoint.BEFORE_TOOL_CALL),
    lane=Lane.GATE,
    build=build,
    example={"limit": 10, "per": "1m", "by": ["user", "tool"]},
    counts=True,
)


async def rate_limit(event: Event[Any]) -> Block | None:
    """Block what goes over the limit."""
    return await BUILTIN.at(event)(event)  # type: ignore[no-any-return]
