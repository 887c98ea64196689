"""What each command takes. Clients may send more than is known here; it is left aside."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1)]
Namespace = tuple[str, ...]


class _Params(BaseModel, defer_build=True):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RunStart(_Params):
    """Start a run, and create the thread if it does not exist."""

    model_config = ConfigDict(frozen=True, extra="allow")  # options of a run are passed on

    assistant_id: Name
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    langsmith_tracer: dict[str, Any] | None = None

    @property
    def extra_options(self) -> dict[str, Any]:
        """What else was sent, such as `multitask_strategy` or `interrupt_before`."""
        return dict(self.model_extra or {})


class Send(_Params):
    """A node to go to, with an input of its own."""

    node: Name
    input: Any = None


class Response(_Params):
    """An answer to one interrupt."""

    interrupt_id: Name
    namespace: Namespace = ()
    response: Any = None


class InputRespond(_Params):
    """Answer one interrupt or several, and go on with the run."""

    interrupt_id: Name | None = None
    namespace: Namespace = ()
    response: Any = None
    responses: tuple[Response, ...] = ()
    update: dict[str, Any] | None = None
    goto: str | Send | list[str | Send] | None = None
    config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_one_way(self) -> Self:
        if (self.interrupt_id is None) != bool(self.responses):
            raise ValueError("give `interrupt_id` with `response`, or `responses`")
        return self

    @property
    def all_answers(self) -> tuple[Response, ...]:
        """Every answer, however it was sent."""
        if self.interrupt_id is None:
            return self.responses
        one = Response(
            interrupt_id=self.interrupt_id, namespace=self.namespace, response=self.response
        )
        return (one,)

    @property
    def to_command(self) -> dict[str, Any]:
        """The same as the `command` of a run."""
        goto = self.goto
        steps = [*goto] if isinstance(goto, list) else [] if goto is None else [goto]
        known = {
            "update": self.update,
            "goto": [step if isinstance(step, str) else step.model_dump() for step in steps],
        }
        resume = {answer.interrupt_id: answer.response for answer in self.all_answers}
        return {"resume": resume, **{key: value for key, value in known.items() if value}}


class InputMessage(_Params):
    """A message from outside."""

    role: Literal["user", "system"]
    content: str
    name: str | None = None


class InputInject(_Params):
    """Put a message into a graph that runs."""

    namespace: Namespace = ()
    message: InputMessage


class Unsubscribe(_Params):
    """End a subscription."""

    subscription_id: Name


class Reconnect(_Params):
    """Take subscriptions up again."""

    run_id: Name
    last_event_id: str | None = None
    subscriptions: tuple[str, ...] = ()


class AgentGetTree(_Params):
    """Show a run and its subgraphs."""

    run_id: str | None = None


class StateGet(_Params):
    """Read a graph's state."""

    namespace: Namespace = ()
    keys: tuple[str, ...] | None = None


class ListCheckpoints(_Params):
    """List the checkpoints of a graph, the newest first."""

    namespace: Namespace = ()
    limit: int = Field(default=10, ge=1, le=1000)
    before: str | None = None


class StateFork(_Params):
    """Start a run from an earlier checkpoint."""

    checkpoint_id: Name
    input: Any = None
    config: dict[str, Any] | None = None
