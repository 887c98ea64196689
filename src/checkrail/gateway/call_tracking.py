"""A call of a model that is under way: what is known of it so far, for its record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from checkrail.engine.asks import AskHandler
from checkrail.engine.dispatch_state import STRICTNESS
from checkrail.engine.points import Decision
from checkrail.engine.records import HookRecord, RecordKind
from checkrail.engine.values import AssistantMessage
from checkrail.llm.call_record import LONGEST_NAME, LONGEST_REASON, CallRecord, countable_usage
from checkrail.llm.usage import sum_usage, total_cost
from checkrail.llm.wire_format import Refusal
from checkrail.times import uuid7

CallSink = Callable[[CallRecord], object]
"""Takes the record of each call when the call is over. It must not block."""

AskSource = Callable[["OpenCall"], AskHandler]
"""Gives who puts the questions of a call's hooks to people."""

CURRENT_CALL: ContextVar[OpenCall | None] = ContextVar("checkrail_gateway_call", default=None)
"""The call for which hooks are fired."""

CHANGED = "change"
"""How a hook that went on with another value is counted."""

FAILED = "failed"
"""How a hook that decided nothing is counted."""


UNAPPROVED = frozenset({"denied", "timeout", "nobody", "withdrawn", "failed"})
"""Answers to a question that nobody approved."""


class OpenCall:
    """What is known of a call; more of it is read if the record `is_kept`, and not only counted.

    It `has_ended` when nobody waits for its answer any more.
    """

    def __init__(self, format: str = "", path: str = "", *, is_kept: bool = False) -> None:
        self.is_kept = is_kept
        self.created_at = round(time.time(), 6)  # as precisely as it is told
        self._began = perf_counter()
        self.format = format
        self.path = path
        self.model: str | None = None
        self.streamed = False
        self.ids: Mapping[str, Any] = {}
        self.owner: str | None = None
        self.has_ended = False
        self._asking = 0
        self._at_end: list[Callable[[], object]] = []
        self._answered_model: str | None = None
        self._upstream: str | None = None
        self._provider: str | None = None
        self._usage: dict[str, Any] = {}
        self._decisions: Counter[str] = Counter()
        self._strictest: Decision | None = None
        self._reason: str | None = None
        self._refused: str | None = None
        self._first_byte: float | None = None

    @property
    def is_asking(self) -> bool:
        """Whether people are asked about it now."""
        return self._asking > 0

    @contextmanager
    def ask_people(self) -> Iterator[None]:
        """Note that people are asked about it, for as long as this is open."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    def when_ended(self, told: Callable[[], object]) -> Callable[[], None]:
        """Call back when it has ended, until what is returned is called."""
        self._at_end.append(told)
        return lambda: self._at_end.remove(told)

    def end(self) -> None:
        """Note that nobody waits for an answer any more."""
        self.has_ended = True
        for told in tuple(self._at_end):
            told()

    def note_request(self, model: Any, *, streamed: bool) -> None:
        """Note what the caller asked for."""
        self.model = model if isinstance(model, str) else None
        self.streamed = streamed

    def note_upstream(self, name: str, provider: str | None) -> None:
        """Note who has answered; the last one counts."""
        self._upstream, self._provider = name, provider

    def note_answer(self, message: AssistantMessage) -> None:
        """Note an answer; one that the caller never got has cost something too."""
        self._answered_model = message.model or self._answered_model
        self._usage = sum_usage(self._usage, countable_usage(message.usage))

    def note_first_byte(self) -> None:
        """Note that something of the answer leaves now."""
        if self._first_byte is None:
            self._first_byte = perf_counter()

    def note_refusal(self, reason: str) -> None:
        """Note why the caller gets no answer, or no whole one; the first reason counts."""
        self._refused = self._refused or reason

    def note_refused(self, refusal: Refusal) -> None:
        """Note a refusal, without what an upstream has said: it may quote the request."""
        from_upstream = refusal.code == "upstream_error"
        self.note_refusal(refusal.message.partition(": ")[0] if from_upstream else refusal.message)

    def note_decision(self, record: HookRecord) -> None:
        """Note what a hook made of the call; what it would have done in shadow mode is nothing."""
        if record.kind is RecordKind.START or record.shadow:
            return
        if record.decision is None:
            self._decisions[FAILED] += 1
            return
        changed = record.changed and record.decision is Decision.CONTINUE
        self._decisions[CHANGED if changed else str(record.decision)] += 1
        decision = record.decision
        if decision is Decision.ASK and record.answer in UNAPPROVED:
            decision = Decision.BLOCK
        if self._strictest is None or STRICTNESS[decision] > STRICTNESS[self._strictest]:
            self._strictest, self._reason = decision, record.reason or None

    def close(self, status: int | None) -> CallRecord:
        """Return the record of a call that is over."""
        usage, ids = self._usage, self.ids if self.is_kept else {}
        user = ids.get("user")
        return CallRecord(
            call_id=uuid7(self.created_at),
            created_at=self.created_at,
            format=self.format,
            path=_shorten(self.path, LONGEST_REASON) or "",
            request_id=ids.get("request_id", ""),
            duration_ms=_milliseconds(perf_counter() - self._began),
            owner=self.owner,
            key=(ids.get("metadata") or {}).get("api_key"),
            user_id=getattr(user, "identity", user),
            session_id=ids.get("session_id"),
            run_id=ids.get("run_id"),
            agent_name=ids.get("agent_name"),
            model=_shorten(self.model),
            answered_model=_shorten(self._answered_model),
            upstream=self._upstream,
            provider=_shorten(self._provider),
            status=status,
            streamed=self.streamed,
            usage={name: value for name, value in usage.items() if name != "cost"} or None,
            cost=total_cost(usage),
            decision=None if self._strictest is None else str(self._strictest),
            decisions=dict(self._decisions) or None,
            reason=_shorten(self._refused or self._stricter_reason(), LONGEST_REASON),
            first_byte_ms=self._first_byte and _milliseconds(self._first_byte - self._began),
        )

    def _stricter_reason(self) -> str | None:
        return self._reason if self._strictest is not Decision.CONTINUE else None


def tally_decision(record: HookRecord) -> None:
    """Note what a hook decided with the call for which it was called, if it was one."""
    if (call := CURRENT_CALL.get()) is not None:
        call.note_decision(record)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _shorten(text: str | None, most: int = LONGEST_NAME) -> str | None:
    return text if text is None or len(text) <= most else f"{text[: most - 1]}…"
