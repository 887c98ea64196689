"""What of a streamed answer has to wait until hooks have seen it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

from checkrail.engine.acting import acting
from checkrail.engine.matchers import matcher
from checkrail.engine.plan import Chain
from checkrail.engine.points import HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import ToolCall

Held = Literal["nothing", "tools", "all"]
"""Nothing waits, all from the first tool call on, or the whole answer."""

ANSWER = (HookPoint.AFTER_LLM_CALL, HookPoint.BEFORE_TOOL_CALL)
"""The points that an answer passes."""


class Holding:
    """Says what has to wait, and says it anew when hooks were changed meanwhile.

    `calls` is what a hook at a tool call holds: the tools, or all, where the model may have to be
    asked again for its sake.
    """

    def __init__(self, scope: Scope, calls: Held) -> None:
        self._scope = scope
        self._calls = calls
        self._hooks: list[Chain | None] | None = None
        self._held: Held = "nothing"

    def now(self) -> Held:
        """Return what has to wait."""
        hooks = [self._scope.chain(point) for point in ANSWER]
        if self._hooks is None or any(a is not b for a, b in zip(hooks, self._hooks, strict=True)):
            self._hooks = hooks
            self._held = self._worked_out()
        return self._held

    def _worked_out(self) -> Held:
        if any(acting(self._scope, HookPoint.AFTER_LLM_CALL)):
            return "all"
        return self._calls if any(acting(self._scope, HookPoint.BEFORE_TOOL_CALL)) else "nothing"


def is_guarded(scope: Scope, call: ToolCall) -> bool:
    """Return whether any hook may change or refuse calls of this tool."""
    event = SimpleNamespace(context=scope.context, value=call)
    for bound in acting(scope, HookPoint.BEFORE_TOOL_CALL):
        tools = matcher({key: given for key, given in bound.spec.match.items() if key == "tools"})
        if tools is None or tools(event):
            return True
    return False
