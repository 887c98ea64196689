"""`rate_limit`: lets so many through in a time, and asks the rest to come again later."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from checkrail.builtin.base import Builtin
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ToolCall, ToolResult

if TYPE_CHECKING:
    from checkrail.builtin.options import RateLimitOptions

Clock = Callable[[], float]
Limiter = Callable[[Event[Any]], Awaitable[Block | None]]


class RateStore(Protocol):
    """Where hits are counted.

    `now` is this process's clock: a store that several processes share goes by its own.
    """

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:
        """Count a hit if the limit allows it; else say in how many seconds it will."""


class MemoryStore:
    """Counts hits in this process: never more than `limit` in any stretch of `per` seconds.

    Keys whose hits are all past are forgotten, and beyond `max_keys` those that were let through
    the longest ago.
    """

    def __init__(self, max_keys: int = 100_000) -> None:
        self.max_keys = max_keys
        self._hits: OrderedDict[str, tuple[float, deque[float]]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._hits)

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:
        """Count a hit if the limit allows it; else say in how many seconds it will."""
        with self._lock:
            _, times = self._hits.get(key, (per, deque[float]()))
            while times and times[0] + per <= now:
                times.popleft()
            if len(times) >= limit:
                return False, times[0] + per - now
            times.append(now)
            self._hits[key] = per, times
            self._hits.move_to_end(key)
            self._prune(now)
            return True, 0.0

    def _prune(self, now: float) -> None:
        while self._hits:
            per, times = next(iter(self._hits.values()))
            if times[-1] + per > now and len(self._hits) <= self.max_keys:
                return
            self._hits.popitem(last=False)


def build(
    options: RateLimitOptions,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Make the hook."""
    hits = MemoryStore() if store is None else store
    limit, per = options.limit, options.per

    async def rate_limit(event: Event[Any]) -> Block | None:
        counted = {name: DIMENSIONS[name](event) for name in options.by}
        key = json.dumps([event.point, *counted.values()])
        allowed, wait = await hits.hit(key, limit, per, clock())
        if allowed:
            return None
        whose = "".join(f" for {name} {found!r}" for name, found in counted.items() if found)
        reason = (
            f"the limit of {limit} per {per:g} s{whose} is reached: "
            f"try again in {max(1, math.ceil(wait))} s"
        )
        return Block(reason, 429, "rate_limited")

    return rate_limit


def limiter(
    config: Mapping[str, Any],
    *,
    store: RateStore | None = None,
    clock: Clock = time.monotonic,
) -> Limiter:
    """Make the hook with a store or a clock of your own."""
    return build(BUILTIN.options(config), store, clock)  # type: ignore[arg-type]


def _user(event: Event[Any]) -> str | None:
    user = event.user
    return user.identity if user is not None else getattr(event.value, "user_id", None)


def _tool(event: Event[Any]) -> str | None:
    return event.value.name if isinstance(event.value, (ToolCall, ToolResult)) else None


DIMENSIONS: dict[str, Callable[[Event[Any]], str | None]] = {
    "user": _user,
    "agent": lambda event: event.agent_name,
    "tool": _tool,
    "session": lambda event: event.session_id,
    "model": lambda event: event.model,
}
"""What can be counted apart; where an event does not say, it counts with all that do not."""


BUILTIN = Builtin(
    name="rate_limit",
    summary="lets so many through in a time, at each of its points, and blocks the rest with 429",
    points=(HookPoint.BEFORE_RUN, HookPoint.BEFORE_LLM_CALL, HookPoint.BEFORE_TOOL_CALL),
    lane=Lane.GATE,
    build=build,
    example={"limit": 10, "per": "1m", "by": ["user", "tool"]},
)


async def rate_limit(event: Event[Any]) -> Block | None:
    """Block what goes over the limit."""
    return await BUILTIN.at(event)(event)  # type: ignore[no-any-return]
