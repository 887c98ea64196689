"""What of a streamed answer has to wait until hooks have seen it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

from checkrail.engine.chain import Chain
from checkrail.engine.enforcement import enforcing_hooks
from checkrail.engine.matchers import build_matcher
from checkrail.engine.points import HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import ToolCall

Held = Literal["nothing", "tools", "all"]
"""Nothing waits, all from the first tool call on, or the whole answer."""

ANSWER = (HookPoint.AFTER_LLM_CALL, HookPoint.BEFORE_TOOL_CALL)
"""The points that an answer passes."""


class HoldPolicy:
    """Decides what of a stream has to wait, and decides anew when hooks change.

    `calls` is what a hook at a tool call holds.
    """

    def __init__(self, scope: Scope, calls: Held) -> None:
        self._scope = scope
        self._calls = calls
        self._hooks: list[Chain | None] | None = None
        self._held: Held = "nothing"

    def current(self) -> Held:
        """Return what has to wait."""
        hooks = [self._scope.chain(point) for point in ANSWER]
        if self._hooks is None or any(a is not b for a, b in zip(hooks, self._hooks, strict=True)):
            self._hooks = hooks
            self._held = self._compute_policy()
        return self._held

    def _compute_policy(self) -> Held:
        if any(enforcing_hooks(self._scope, HookPoint.AFTER_LLM_CALL)):
            return "all"
        judged = any(enforcing_hooks(self._scope, HookPoint.BEFORE_TOOL_CALL))
        return self._calls if judged else "nothing"


def is_guarded(scope: Scope, call: ToolCall) -> bool:
    """Return whether any hook may change or block calls of this tool."""
    event = SimpleNamespace(context=scope.context, value=call)
    for bound in enforcing_hooks(scope, HookPoint.BEFORE_TOOL_CALL):
        tools = build_matcher(
            {key: given for key, given in bound.spec.match.items() if key == "tools"}
        )
        if tools is None or tools(event):
            return True
    return False
