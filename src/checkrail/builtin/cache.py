"""`cache`: gives the answer that an identical request had before."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from checkrail.builtin.base import Builtin
from checkrail.builtin.counters import Clock
from checkrail.builtin.dimensions import read_dimensions
from checkrail.builtin.open_calls import OpenCalls
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Replace
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.values import AssistantMessage, ModelRequest, digest

if TYPE_CHECKING:
    from checkrail.builtin.options import CacheOptions

Cacher = Callable[[Event[Any], Any], Awaitable[Replace | None]]

UNTOLD = frozenset({"stream", "stream_options"})
"""Parameters that say how an answer travels, and not what it is."""

CUT_OFF = "cut_off"
"""Where the metadata of an answer says that it is not whole."""

NOTHING_USED = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


class AnswerStore(Protocol):
    """Where answers are kept."""

    async def get(self, key: str) -> AssistantMessage | None:
        """Return the answer that is kept under a key, if there still is one."""

    async def put(self, key: str, answer: AssistantMessage, ttl: float) -> None:
        """Keep an answer for so many seconds."""


class MemoryAnswers:
    """Keeps answers in this process; beyond `most`, those that were used the longest ago go."""

    def __init__(self, most: int = 1000, clock: Clock = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, AssistantMessage]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: str) -> AssistantMessage | None:
        """Return the answer that is kept under a key, if there still is one."""
        with self._lock:
            until, answer = self._kept.get(key, (0.0, None))
            if answer is None:
                return None
            if until <= self._clock():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return answer

    async def put(self, key: str, answer: AssistantMessage, ttl: float) -> None:
        """Keep an answer for so many seconds."""
        with self._lock:
            self._kept[key] = self._clock() + ttl, answer
            self._kept.move_to_end(key)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)


def build(
    options: CacheOptions,
    store: AnswerStore | None = None,
    clock: Clock = time.monotonic,
) -> Cacher:
    """Build the hook."""
    answers = MemoryAnswers(options.max_entries, clock) if store is None else store
    calls: OpenCalls[str] = OpenCalls()

    async def cache(event: Event[Any], value: Any) -> Replace | None:
        if isinstance(value, AssistantMessage):
            await store_answer(event)
            return None
        request = BUILTIN.expect_value(event, value, ModelRequest)
        if request.params.get("n", 1) != 1:
            return None  # several answers at once
        key = request_key(event, request, shared=options.shared)
        if (known := await answers.get(key)) is not None:
            return Replace(_repeat_answer(known, event), "an identical request was answered before")
        calls.note_request(event, key)
        return None

    async def store_answer(event: Event[Any]) -> None:
        asked = calls.pop_notes(event)
        answer: AssistantMessage = event.original  # hooks on answers see it anew each time
        decision = None if event.verdict is None else event.verdict.decision
        whole = (answer.content or answer.tool_calls) and CUT_OFF not in answer.metadata
        if len(asked) == 1 and decision is Decision.CONTINUE and whole:
            await answers.put(asked[0], answer, options.ttl)

    return cache


def caching(
    config: Mapping[str, Any],
    *,
    store: AnswerStore | None = None,
    clock: Clock = time.monotonic,
) -> Cacher:
    """Build the hook with a store or a clock of your own."""
    return build(BUILTIN.parse_options(config), store, clock)  # type: ignore[arg-type]


def request_key(event: Event[Any], request: ModelRequest, *, shared: bool) -> str:
    """Return a key of all that the answer depends on, and of the caller."""
    params = {name: value for name, value in request.params.items() if name not in UNTOLD}
    asks = None if shared else read_dimensions(event, ("user", "key"))
    return digest([asks, request.provider, event.model, request.messages, request.tools, params])


def _repeat_answer(answer: AssistantMessage, event: Event[Any]) -> AssistantMessage:
    """Return an answer another time: nothing is used for it, and its calls are this run's."""
    context = event.run_id or "chat"
    return dataclasses.replace(
        answer,
        tool_calls=[dataclasses.replace(call, context=context) for call in answer.tool_calls],
        usage=NOTHING_USED,
        metadata={**answer.metadata, "cached": True},
    )


BUILTIN = Builtin(
    name="cache",
    summary="answers a request that is identical to an earlier one as that was answered",
    points=(HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL),
    lane=Lane.TRANSFORM,
    build=build,
    example={"ttl": "10m", "max_entries": 500},
    together=True,
    observes=frozenset({HookPoint.AFTER_LLM_CALL}),
    reads=(ModelRequest, AssistantMessage),
)


async def cache(event: Event[Any], value: Any) -> Replace | None:
    """Return an answer that is kept, or keep one."""
    return await BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
