"""Which text of a stream has to wait: hooks that may change or refuse an answer see it first."""

from __future__ import annotations

import logging

from checkrail.agent.events import Emit, TextDelta
from checkrail.engine.chain import BoundHook, Chain
from checkrail.engine.enforcement import enforcing_hooks
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope, Trial
from checkrail.engine.values import AssistantMessage
from checkrail.llm.conversation import text_of

log = logging.getLogger("checkrail.agent")

TRIED = (HookPoint.AFTER_LLM_CALL, HookPoint.BEFORE_FINAL_RESPONSE)
HOLDING = (*TRIED, HookPoint.QUERY_END)


class StreamGate:
    """Releases the text of one answer: at once, behind a window, or when hooks have seen it all."""

    def __init__(self, emit: Emit, scope: Scope, *, whole: bool, sent: str = "") -> None:
        self._emit = emit
        self._scope = scope
        self._schema = whole
        self._seen: list[str] = []
        self._sent: list[str] = [sent] if sent else []
        self._behind = 0
        self._torn = False
        self._hooks: tuple[Chain | None, ...] | None = None
        self._refresh_hooks()

    def _refresh_hooks(self) -> None:
        """Work out what has to wait; again when hooks were changed meanwhile."""
        hooks = tuple(self._scope.chain(point) for point in HOLDING)
        if self._hooks is not None and all(a is b for a, b in zip(hooks, self._hooks, strict=True)):
            return
        self._hooks = hooks
        holding = [*enforcing_hooks(self._scope, *HOLDING)]
        self._final_only = any(
            bound.point is not HookPoint.AFTER_LLM_CALL and _needs_whole_answer(bound)
            for bound in holding
        )
        self._whole = self._schema or _must_hold_all(holding)
        self._window = WindowedHooks(holding, self._scope) if holding and not self._whole else None
        names = ", ".join(bound.spec.name for bound in holding)
        self._changed = f"text was changed that was sent already (hooks that may: {names})"

    @property
    def sent_text(self) -> str:
        """The text that was released so far."""
        return "".join(self._sent)

    def check_full_text(self, text: str, model: str) -> None:
        """Compare the text that was streamed with the answer's, and log a difference."""
        if self._seen and "".join(self._seen) != text:
            self._torn = True
            log.error("model %r streamed another text than its answer has", model)

    async def feed(self, piece: str) -> None:
        """Take a piece of text from the model, and release what may go out."""
        self._seen.append(piece)
        self._behind += len(piece)
        self._refresh_hooks()
        if self._whole:
            return
        if self._window is None:
            self._emit_text(
                piece if self._behind == len(piece) else self._unsent_part("".join(self._seen))
            )
        elif (safe := await self._window.safe_prefix("".join(self._seen))) is not None:
            self.release_rest(safe)

    async def release_before_tools(self, text: str) -> None:
        """Release a text that tool calls follow, unless hooks that never see it hold answers."""
        self._refresh_hooks()
        if self._window is not None:
            self.release_rest(await self._window.try_hooks(text, TRIED[1:]) or "")
        elif not self._final_only:
            self.release_rest(text)

    def release_rest(self, text: str) -> None:
        """Release what has not been sent of this text."""
        self._emit_text(self._unsent_part(text))

    def _unsent_part(self, text: str) -> str:
        sent = self.sent_text
        if not text.startswith(sent):
            if not sent.startswith(text) and not self._torn:
                self._torn = True
                log.error("%s: give it a larger window", self._changed)
            return ""
        return text[len(sent) :]

    def _emit_text(self, piece: str) -> None:
        if piece:
            self._sent.append(piece)
            self._behind -= len(piece)
            self._emit(TextDelta(piece, self._scope.context.iteration or 0))


class WindowedHooks:
    """The hooks for which a window is enough, tried on the text so far.

    Trying decides nothing and leaves no record: it says what may go out. They are called again
    on the whole answer, as every hook is.
    """

    def __init__(self, holding: list[BoundHook], scope: Scope) -> None:
        self._size = max(bound.spec.window or 0 for bound in holding)
        self._next = self._size
        self._scope = Trial(scope, TRIED, holding)

    async def safe_prefix(self, text: str) -> str | None:
        """Return the text that may go out, or None if it is to wait.

        That is all but its last characters, if the hooks see nothing that goes across the cut. A
        long text is tried less often, so that trying does not grow with the square of its length.
        """
        if len(text) <= self._next:
            return None
        self._next = len(text) + max(self._size // 8, len(text) // 32)
        head, tail = text[: -self._size], text[-self._size :]
        parts = [await self.try_hooks(part) for part in (head, tail, text)]
        first, last, whole = parts
        if first is None or last is None or whole is None or first + last != whole:
            return None
        return first

    async def try_hooks(self, text: str, points: tuple[HookPoint, ...] = TRIED) -> str | None:
        """Return what the hooks make of a text, or None if they refuse it or fail."""
        message = AssistantMessage(content=text)
        for point in points:
            verdict = await self._scope.fire(point, message)
            if verdict.decision is not Decision.CONTINUE or any(r.failure for r in verdict.records):
                return None
            message = verdict.value
        return text_of(message.content)


def _must_hold_all(holding: list[BoundHook]) -> bool:
    """Return whether the whole answer has to wait.

    A window is of the text that its hook sees. Behind a hook that changes the text, that is not
    the text that is cut, and so a window is only enough for one that stands alone.
    """
    changing = any(bound.lane is Lane.TRANSFORM for bound in holding)
    return any(map(_needs_whole_answer, holding)) or (changing and len(holding) > 1)


def _needs_whole_answer(bound: BoundHook) -> bool:
    """Return whether a hook needs the whole answer, be it to know whether it applies at all."""
    spec = bound.spec
    partly = spec.window is not None and spec.when is None and "models" not in spec.match
    return not partly or bound.point not in TRIED
