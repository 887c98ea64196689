"""How a run of the loop ends badly."""

from __future__ import annotations

from checkrail.engine.errors import CheckrailError
from checkrail.engine.values import AgentResponse


class RunFailed(CheckrailError):
    """A run ended as an error: a hook said `fail`, or the model failed for good.

    `response` is what there was so far: the messages, the usage and the error. `by_hook` says
    that it was a hook.
    """

    def __init__(self, reason: str, response: AgentResponse, *, by_hook: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.response = response
        self.by_hook = by_hook
