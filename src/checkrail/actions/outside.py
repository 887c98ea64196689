"""What hooks use of the world outside: a client, somebody who runs agents, and what counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from checkrail.actions.signatures import derive_secret
from checkrail.engine.event import Event

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.builtin.base import SummaryWriter
    from checkrail.builtin.counters import Counters


class AgentCaller(Protocol):
    """Runs another agent for a hook."""

    async def __call__(
        self,
        agent_name: str,
        parameters: dict[str, Any],
        event: Event[Any],
        timeout: float,
    ) -> Any:
        """Return the output of a run of the agent with these parameters, or raise."""


@dataclass(slots=True)
class Outside:
    """What the hooks of a project share; they keep it, and read it each time they are called.

    Requests go through `outbound`; without one, to public places and those that `allow` lists.
    `agents` runs other agents, which takes a server: `serving` says that there is one, or will be.
    `secret` signs the requests of hooks that have no secret of their own; those of an agent that
    a request made are signed with one that is derived from it for this agent. Limits and budgets
    are counted in `counters`; without them, each hook counts by itself. Sessions are summed up by
    `summaries`, which takes a server too.
    """

    outbound: Outbound | None = None
    agents: AgentCaller | None = None
    serving: bool = False
    secret: str | None = field(default=None, repr=False)
    allow: tuple[str, ...] = ()
    counters: Counters | None = None
    summaries: SummaryWriter | None = None

    def signing_secret(self, signer: tuple[str, ...] = ()) -> str | None:
        """Return what signs requests: the server's secret, or a signer's own, derived from it."""
        if self.secret is None or not signer:
            return self.secret
        return derive_secret(self.secret, *signer)
