"""Bodies of requests in the coordinator's own words: runs of agents by name, and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from checkrail.runs.requests import RunRequest
from checkrail.server.bodies import RunBody, Strategy
from checkrail.server.fields import JsonObject, Metadata, Name, Text

AgentName = Annotated[Name, Field(min_length=1)]
Tag = Annotated[str, Field(pattern=r"^[\w.\-]+$", max_length=100)]
Timeout = Annotated[float, Field(gt=0, le=10 * 365 * 86_400, allow_inf_nan=False)]
Mode = Literal["sync", "async_poll", "async_callback"]


class AgentRunBody(BaseModel):
    """A run of an agent by its name.

    `sync` answers when the run has ended, `async_poll` at once, and `async_callback` too: the end
    of the run then resumes the session `parent_session_id`. `scope` is context that tools and
    hooks see and no model does; runs that follow from this one inherit it.
    """

    model_config = ConfigDict(extra="forbid")

    agent_name: AgentName
    parameters: JsonObject = Field(default_factory=dict)
    session_id: UUID | None = None
    parent_session_id: UUID | None = None
    execution_mode: Mode = "async_poll"
    timeout_seconds: Timeout | None = None
    demands: Annotated[list[Tag], Field(max_length=8)] = Field(default_factory=list)
    scope: JsonObject | None = None
    metadata: Metadata | None = None
    multitask_strategy: Strategy = "enqueue"
    webhook: Name | None = None

    def request(self, thread_id: str | None) -> RunRequest:
        """Return the run that is asked for; without a thread, in a session of its own."""
        parent = None if self.parent_session_id is None else str(self.parent_session_id)
        calls_back = self.execution_mode == "async_callback"
        return RunRequest(
            assistant_id=self.agent_name,
            thread_id=thread_id,
            input=self.parameters,
            session_id=None if self.session_id is None else str(self.session_id),
            parent_session_id=parent,
            keep_thread=True,
            channel="api",
            timeout_seconds=self.timeout_seconds,
            demands=tuple(self.demands),
            scope=self.scope,
            metadata=self.metadata or {},
            multitask_strategy=self.multitask_strategy,
            webhook=self.webhook,
            told={"session_id": parent} if calls_back else None,
        )


class Resumption(BaseModel):
    """What a session is told: its agent runs again."""

    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[Text, Field(min_length=1)]
    execution_mode: Literal["sync", "async_poll"] = "async_poll"
    metadata: Metadata | None = None


def _one_of_both(given: Any, inner: ValidatorFunctionWrapHandler) -> Any:
    """Read a body by what it names: an agent is our own word, an assistant LangGraph's."""
    if not isinstance(given, Mapping):
        return inner(given)
    if ("agent_name" in given) == ("assistant_id" in given):
        found = "both of them" if "agent_name" in given else "neither"
        raise ValueError(f"say agent_name or assistant_id, and not {found}")
    kind = AgentRunBody if "agent_name" in given else RunBody
    return kind.model_validate(given)


AnyRunBody = Annotated[RunBody | AgentRunBody, WrapValidator(_one_of_both)]
"""A run as either of the two APIs asks for it."""
