"""What a graph is run with: a request, and the config and input that LangGraph makes of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from checkrail.runs.graphs.context import drop_unknown
from checkrail.runs.graphs.users import GraphUser, graph_user

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Command, Send

Nodes: TypeAlias = Sequence[str] | Literal["*"]
MODES = frozenset(
    {"values", "updates", "messages", "custom", "checkpoints", "tasks", "debug", "tools"}
)
"""The modes that LangGraph streams by itself; `events` and `lifecycle` are made of others."""

PROTOCOL_MODES = MODES - {"debug"}
"""What a graph streams for a client of the event protocol, which may ask for any of it."""

ANONYMOUS = "anonymous"
"""Who a run is for where a server lets everybody in."""

_COORDINATES = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRequest:
    """One execution of a graph on a thread."""

    thread_id: str
    run_id: str
    input: Any = None
    command: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    context_names: Collection[str] = ()  # given as context alone, and not as `configurable`
    checkpoint: Mapping[str, Any] | None = None
    assistant_id: str | None = None
    graph_id: str | None = None
    user: Any = None
    attempt: int = 1
    modes: frozenset[str] = frozenset({"values"})
    subgraphs: bool = False
    whole_state: bool = False  # stream all values, and not only those that the graph returns
    interrupt_before: Nodes | None = None
    interrupt_after: Nodes | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    strict_resume: bool = False
    resume_from_checkpoint: bool = False
    callbacks: Sequence[Any] = ()
    steps: bool = False  # tell by an event `step` when another one begins
    shown: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None  # of `events`

    @property
    def is_resumption(self) -> bool:
        """Whether the run goes on where its thread stands, instead of bringing an input."""
        return self.command is not None or self.input is None


def build_config(request: GraphRequest, context: Any = None) -> RunnableConfig:
    """Return the config of a run, with what nodes expect of a server in it.

    `context` is what the graph gets of the request's.
    """
    given = request.config
    configurable = given.get("configurable") or {}
    configurable = drop_unknown(configurable, request.context_names, context)
    known = _known_ids(request)
    said = {**_user_id(request.user), **configurable}
    config: dict[str, Any] = {
        **given,
        "configurable": {**said, **known, **_checkpoint_address(request)},
        "metadata": {
            **(given.get("metadata") or {}),
            **{key: value for key, value in known.items() if isinstance(value, str)},
            "run_attempt": request.attempt,
        },
        "run_id": _parse_uuid(request.run_id),
    }
    if request.graph_id is not None:
        config.setdefault("run_name", request.graph_id)
    if request.user is not None:
        config["configurable"] |= _user_settings(graph_user(request.user))
    if request.callbacks:
        config["callbacks"] = [*(given.get("callbacks") or ()), *request.callbacks]
    return config  # type: ignore[return-value]


def build_input(request: GraphRequest) -> Any:
    """Return what a graph is given: its input, or a command."""
    return request.input if request.command is None else build_command(request.command)


def build_command(given: Mapping[str, Any]) -> Command[Any]:
    """Return the command that its JSON describes."""
    from langgraph.types import Command

    return Command(
        update=_parse_update(given.get("update")),
        resume=given.get("resume"),
        goto=_parse_goto(given.get("goto")),
    )


def _known_ids(request: GraphRequest) -> dict[str, Any]:
    known = {
        "thread_id": request.thread_id,
        "run_id": request.run_id,
        "assistant_id": request.assistant_id,
        "graph_id": request.graph_id,
    }
    return {key: value for key, value in known.items() if value is not None}


def _user_id(user: Any) -> dict[str, str]:
    """Return the `user_id` of a graph to which its client says none; nobody is empty."""
    if user is None:
        return {}
    identity = graph_user(user).identity
    return {"user_id": "" if identity == ANONYMOUS else identity}


def _user_settings(user: GraphUser) -> dict[str, Any]:
    return {
        "langgraph_auth_user": user,
        "langgraph_auth_user_id": user.identity,
        "langgraph_auth_permissions": user.permissions,
    }


def _checkpoint_address(request: GraphRequest) -> dict[str, Any]:
    given = request.checkpoint or {}
    addressed = {key: given[key] for key in _COORDINATES if given.get(key)}
    if request.strict_resume:
        addressed["__pregel_strict_resume"] = True
    return addressed


def _parse_update(given: Any) -> Any:
    """Parse an update from JSON, where pairs are lists."""
    if not isinstance(given, list):
        return given
    pairs = all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given)
    return [tuple(pair) for pair in given] if pairs else given


def _parse_goto(given: Any) -> Any:
    if given is None:
        return ()
    return [_parse_send(node) for node in given] if isinstance(given, list) else _parse_send(given)


def _parse_send(node: Any) -> str | Send:
    from langgraph.types import Send

    if isinstance(node, Mapping):
        return Send(node["node"], node.get("input"))
    return str(node)


def _parse_uuid(run_id: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(run_id)
    except ValueError:
        return None
