"""`rate_limit`: lets so many through in a time, and asks the rest to come again later."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.builtin.counters import Clock, MemoryStore, RateStore
from checkrail.builtin.dimensions import counter_key, describe_owner, hook_key, read_dimensions
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane

if TYPE_CHECKING:
    from checkrail.builtin.counters import CounterSource
    from checkrail.builtin.options import RateLimitOptions

__all__ = ["BUILTIN", "MemoryStore", "RateStore", "build", "limiter", "rate_limit"]

Limiter = Callable[[Event[Any]], Awaitable[Block | None]]


def build(
    options: RateLimitOptions,
    outside: CounterSource | None = None,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Build the hook."""
    own = MemoryStore() if store is None else store
    limit, per = options.limit, options.per

    async def rate_limit(event: Event[Any]) -> Block | None:
        found = read_dimensions(event, options.by)
        key = counter_key(hook_key(), event.point, per, *found.values())
        hits = own if outside is None or outside.counters is None else outside.counters
        allowed, wait = await hits.hit(key, limit, per, clock())
        if allowed:
            return None
        seconds = max(1, math.ceil(wait))
        rule = f"the limit of {limit} per {per:g} s{describe_owner(found)}"
        reason = f"{rule} is reached: try again in {seconds} s"
        return Block(reason, 429, "rate_limited", seconds)

    return rate_limit


def limiter(
    config: Mapping[str, Any],
    *,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Build the hook with a store or a clock of your own."""
    return build(BUILTIN.parse_options(config), None, store, clock)  # type: ignore[arg-type]


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
    return await BUILTIN.hook_for(event)(event)  # type: ignore[no-any-return]
