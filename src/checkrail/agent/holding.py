"""Which text of a stream has to wait: hooks that may change or refuse an answer see it first."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from types import SimpleNamespace

from checkrail.agent.events import Emit, TextDelta
from checkrail.agent.messages import text_of
from checkrail.engine.binding import Bound
from checkrail.engine.hook import HookSpec
from checkrail.engine.matchers import matcher
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage

log = logging.getLogger("checkrail.agent")

HOLDING = (HookPoint.AFTER_LLM_CALL, HookPoint.BEFORE_FINAL_RESPONSE, HookPoint.QUERY_END)
TRIED = HOLDING[:2]
HARMLESS = frozenset({Decision.CONTINUE})
FIXED = ("agents", "users", "channels", "tags")
"""The matchers that are settled before a model answers; which model it was may show only then."""


class Release:
    """Lets the text of one answer out: at once, behind a window, or when all is said of it."""

    def __init__(self, emit: Emit, scope: Scope, *, whole: bool) -> None:
        self._emit = emit
        self._iteration = scope.context.iteration or 0
        self._seen = ""
        self._sent = ""
        holding = [*_holding(scope)]
        self._whole = whole or any(_needs_all(bound) for bound in holding)
        self._window = Window(holding, scope) if holding and not self._whole else None

    async def feed(self, piece: str) -> None:
        """Take a piece of text as it comes from the model."""
        self._seen += piece
        if self._whole:
            return
        if self._window is None:
            self._send(piece)
        elif (safe := await self._window.passes(self._seen)) is not None:
            self.finish(safe)

    def finish(self, text: str) -> None:
        """Let out what is left of this text."""
        if text.startswith(self._sent):
            self._send(text[len(self._sent) :])
        elif not self._sent.startswith(text):
            log.error("a hook changed text that was sent already: give it a larger window")

    def _send(self, piece: str) -> None:
        if piece:
            self._sent += piece
            self._emit(TextDelta(piece, self._iteration))


class Window:
    """The hooks for which a window is enough, tried on the text so far.

    Trying decides nothing and leaves no record: it says what may go out. They are called again
    on the whole answer, as every hook is.
    """

    def __init__(self, holding: list[Bound], scope: Scope) -> None:
        self._size = max(bound.spec.window or 0 for bound in holding)
        self._tried = 0
        registry = HookRegistry()
        registry.swap(_numbered(holding))
        ids = {name: getattr(scope.context, name) for name in scope.context.__slots__}
        self._scope = registry.scope(**ids)

    async def passes(self, text: str) -> str | None:
        """Give the text that may go out, or None if it is to wait."""
        if len(text) - self._tried < self._size:
            return None
        self._tried = len(text)
        message = AssistantMessage(content=text)
        for point in TRIED:
            verdict = await self._scope.fire(point, message)
            if verdict.decision is not Decision.CONTINUE:
                return None
            message = verdict.value
        return text_of(message.content)[: -self._size]


def _needs_all(bound: Bound) -> bool:
    return bound.spec.window is None or bound.point not in TRIED


def _numbered(holding: list[Bound]) -> Iterator[HookSpec]:
    """Name each apart, in their order: they come from several levels and points."""
    for number, bound in enumerate(holding):
        places = tuple(place for place in bound.spec.places if place.point is bound.point)
        yield dataclasses.replace(bound.spec, name=f"{number}", places=places, priority=number)


def _holding(scope: Scope) -> Iterator[Bound]:
    """Give the hooks that an answer has to pass before anybody sees it."""
    event = SimpleNamespace(context=scope.context, value=None)
    for point in HOLDING:
        chain = scope.chain(point)
        entries = [] if chain is None else [e for lane, found in chain.lanes for e in found]
        for bound, *_ in entries:
            fixed = {key: bound.spec.match[key] for key in FIXED if key in bound.spec.match}
            applies = matcher(fixed)
            if _may_act(bound) and (applies is None or applies(event)):
                yield bound


def _may_act(bound: Bound) -> bool:
    """Say whether a hook can change or refuse an answer, by its word or by its failure."""
    if bound.shadow or bound.lane is Lane.OBSERVE:
        return False
    harmless = bound.spec.decisions == HARMLESS and not bound.spec.changes
    return not harmless or "block" in bound.spec.on_error.values()
