"""Commands of the event protocol, carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import HTTPConnection

from checkrail.runs.errors import RequestError
from checkrail.runs.graphs import state
from checkrail.runs.graphs.requests import PROTOCOL_MODES
from checkrail.server.lookups import can_touch
from checkrail.server.routes.thread_graphs import is_graph, render_plain_state
from checkrail.server.run_requests import RunBody, authorize_and_admit
from checkrail.server.services import Services
from checkrail.server.streams.commands import Command, success_reply
from checkrail.server.streams.errors import ErrorCode, ProtocolError
from checkrail.server.streams.params import (
    AgentGetTree,
    InputRespond,
    ListCheckpoints,
    RunStart,
    StateFork,
    StateGet,
)
from checkrail.server.streams.protocol import ProtocolView, cursor_of
from checkrail.server.thread_streams import PROTOCOL, build_view
from checkrail.store import runs, threads
from checkrail.store.runs import Run

Handler = Callable[["Commands", Command], Awaitable[dict[str, Any]]]


class Commands:
    """Carries out the commands of one request for one thread."""

    def __init__(self, connection: HTTPConnection, served: Services, thread_id: UUID) -> None:
        self._connection = connection
        self._served = served
        self._thread_id = thread_id

    async def execute(self, command: Command) -> dict[str, Any]:
        """Execute a command, and return its answer."""
        handler = _HANDLERS.get(command.method)
        if handler is None:
            told = f"this server does not do {command.method}"
            raise ProtocolError("not_supported", told, id=command.id)
        return await handler(self, command)

    async def start(self, command: Command) -> dict[str, Any]:
        """Start a run; the thread is created if it does not exist."""
        given = command.params
        assert isinstance(given, RunStart)  # noqa: S101 - told by its method
        return await self._admit_run(
            command,
            {
                **given.extra_options,
                "assistant_id": given.assistant_id,
                "input": given.input,
                "config": given.config,
                "context": given.context,
                "metadata": given.metadata,
                "if_not_exists": "create",
            },
        )

    async def respond(self, command: Command) -> dict[str, Any]:
        """Answer what a thread waits for; the run that goes on is of the same assistant."""
        given = command.params
        assert isinstance(given, InputRespond)  # noqa: S101
        newest = await self._find_run(command, missing="no_such_interrupt")
        return await self._admit_run(
            command,
            {
                "assistant_id": newest.assistant_id,
                "command": given.to_command,
                "config": given.config,
                "metadata": given.metadata,
            },
        )

    async def fork(self, command: Command) -> dict[str, Any]:
        """Start a run from an earlier checkpoint."""
        given = command.params
        assert isinstance(given, StateFork)  # noqa: S101
        newest = await self._find_run(command)
        return await self._admit_run(
            command,
            {
                "assistant_id": newest.assistant_id,
                "checkpoint_id": given.checkpoint_id,
                "input": given.input,
                "config": given.config,
            },
        )

    async def tree(self, command: Command) -> dict[str, Any]:
        """Return a run and its subgraphs."""
        given = command.params
        assert isinstance(given, AgentGetTree)  # noqa: S101
        row = await self._find_run(command, given.run_id)
        view: ProtocolView = build_view(row)
        if row.ended_at is not None:
            async for batch in self._served.runs.follow(row.run_id):
                for event in batch:
                    view.feed(event)
        return success_reply(command.id, {"tree": view.tree()})

    async def get_state(self, command: Command) -> dict[str, Any]:
        """Read the state of the thread."""
        given = command.params
        assert isinstance(given, StateGet)  # noqa: S101
        row = await self._find_run(command)
        found = await self._load_state(row, given.namespace)
        values = found["values"] or {}
        if given.keys is not None and isinstance(values, dict):
            values = {key: values[key] for key in given.keys if key in values}
        checkpoint = found["checkpoint"] or {}
        return success_reply(
            command.id,
            {"values": values, "checkpoint": {"id": checkpoint.get("checkpoint_id")}},
        )

    async def checkpoints(self, command: Command) -> dict[str, Any]:
        """List the checkpoints of the thread."""
        given = command.params
        assert isinstance(given, ListCheckpoints)  # noqa: S101
        row = await self._find_run(command)
        if not is_graph(self._served, row.agent_name):
            return success_reply(command.id, {"checkpoints": []})
        async with self._open_graph(row) as graph:
            found = await state.load_history(
                graph,
                str(self._thread_id),
                limit=given.limit,
                before=given.before,
                checkpoint={"checkpoint_ns": "|".join(given.namespace)},
            )
        return success_reply(
            command.id, {"checkpoints": [_render_checkpoint(each) for each in found]}
        )

    async def _load_state(self, row: Run, namespace: Sequence[str]) -> dict[str, Any]:
        name = str(self._thread_id)
        if not is_graph(self._served, row.agent_name):
            thread = await self._served.database.read(lambda reads: threads.get(reads, name))
            return render_plain_state(name, thread)
        async with self._open_graph(row) as graph:
            return await state.load_state(graph, name, {"checkpoint_ns": "|".join(namespace)})

    def _open_graph(self, row: Run) -> Any:
        return self._served.graphs.open(row.agent_name, {}, None, access="threads.read")

    async def _admit_run(self, command: Command, given: dict[str, Any]) -> dict[str, Any]:
        body = _parse_body(
            {key: value for key, value in given.items() if value is not None}, command
        )
        wanted = replace(
            body.to_request(str(self._thread_id)),
            modes=sorted(PROTOCOL_MODES),
            stream_subgraphs=True,
            origin=PROTOCOL,
        )
        try:
            [row] = await authorize_and_admit(self._connection, self._served, [wanted])
        except RequestError as error:
            raise Refusal(error, command.id) from error
        applied = cursor_of(row.base_seq)
        return success_reply(command.id, {"run_id": row.run_id}, applied_through=applied)

    async def _find_run(
        self, command: Command, run_id: str | None = None, *, missing: ErrorCode = "no_such_run"
    ) -> Run:
        value = {"thread_id": self._thread_id}
        asker = await self._served.principal(self._connection, "threads", "read", value)

        def find_row(reads: Any) -> Run | None:
            name = str(self._thread_id)
            if run_id is not None:
                row = runs.get(reads, run_id) if _is_id(run_id) else None
            else:  # one that was refused says nothing of what the thread is about
                row = runs.newest_started(reads, name) or runs.newest_of(reads, name)
            mine = row is not None and row.thread_id == name and can_touch(reads, row, asker)
            return row if mine else None

        row = await self._served.database.read(find_row)
        if row is None:
            raise ProtocolError(missing, "the thread has no such run", id=command.id)
        return row


class Refusal(Exception):
    """A run that a command requested was refused; the HTTP status stays what it was."""

    def __init__(self, error: RequestError, id: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.id = id

    @property
    def code(self) -> ErrorCode:
        """The word of the protocol for it."""
        codes: dict[int, ErrorCode] = {404: "invalid_argument", 422: "invalid_argument"}
        return codes.get(self.error.status, "permission_denied")


def _parse_body(given: dict[str, Any], command: Command) -> RunBody:
    from pydantic import ValidationError

    try:
        return RunBody.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{command.method}: {where}: {first['msg']}"
        raise ProtocolError("invalid_argument", told, id=command.id) from None


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _render_checkpoint(found: dict[str, Any]) -> dict[str, Any]:
    here, parent = found["checkpoint"] or {}, found["parent_checkpoint"] or {}
    metadata = found["metadata"] or {}
    return {
        "id": here.get("checkpoint_id"),
        "parent_id": parent.get("checkpoint_id"),
        "step": metadata.get("step"),
        "source": metadata.get("source"),
        "created_at": found["created_at"],
        "next": found["next"],
    }


_HANDLERS: dict[str, Handler] = {
    "run.start": Commands.start,
    "input.respond": Commands.respond,
    "state.fork": Commands.fork,
    "agent.getTree": Commands.tree,
    "state.get": Commands.get_state,
    "state.listCheckpoints": Commands.checkpoints,
}
