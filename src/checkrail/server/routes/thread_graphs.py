"""The graph of a thread, and what the thread's row tells of its state."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import Request

from checkrail.engine.containment import contain_errors
from checkrail.engine.errors import CheckrailError, CodeExited, describe_error
from checkrail.runs import jsons
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import state
from checkrail.server.auth import Access, Caller, matches_filter
from checkrail.server.renderers import render_time
from checkrail.server.services import Services
from checkrail.store import runs, state_updates, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.threads import Thread


async def find_thread(
    request: Request,
    served: Services,
    thread_id: UUID,
    action: str,
    value: dict[str, Any] | None = None,
) -> tuple[Caller, Thread]:
    """Return a thread that the caller may touch; `value` is what is to become of it."""
    told = {} if value is None else value
    told |= {"thread_id": thread_id}
    caller, access = await served.access(request, "threads", action, told)
    row = await served.database.read(lambda reads: threads.get(reads, str(thread_id)))
    if row is None or not can_see_thread(row, access):
        raise thread_not_found(str(thread_id))
    return caller, row


def can_see_thread(row: Thread, access: Access) -> bool:
    """Return whether a caller may touch a thread."""
    mine = access.owner in (None, row.owner)
    return mine and (access.filter is None or matches_filter(access.filter, row.metadata))


def thread_not_found(thread_id: str) -> NotFoundError:
    """Return the error for a thread that does not exist, or is somebody else's."""
    return NotFoundError(f"thread {thread_id!r} not found. Create it first")


@dataclass(frozen=True, slots=True)
class ThreadGraph:
    """Which graph a thread belongs to, and with which config it ran last."""

    name: str
    config: Mapping[str, Any]
    assistant_id: str | None = None


async def find_graph(served: Services, row: Thread) -> ThreadGraph | None:
    """Return the graph that a thread's metadata name, else that of its newest run."""
    newest = await served.database.read(lambda reads: runs.newest_of(reads, row.thread_id))
    said = row.metadata.get("graph_id")
    if newest is not None and (not isinstance(said, str) or said == newest.agent_name):
        config = newest.kwargs.get("config") or {}
        return ThreadGraph(newest.agent_name, config, newest.assistant_id)
    return ThreadGraph(said, {}) if isinstance(said, str) else None


def is_graph(served: Services, name: str) -> bool:
    """Return whether an agent is a graph, as one is taken for that the server does not have."""
    agent = served.catalogue.get(name)
    return agent is None or agent.config.kind == GRAPH


def render_plain_state(thread_id: str, row: Thread | None) -> dict[str, Any]:
    """Return where a thread stands whose agent is no graph, or that never ran."""
    values = None if row is None else row.values
    written_at = None if row is None else row.state_updated_at
    here = {"thread_id": thread_id, "checkpoint_ns": ""}
    return {
        "values": values or {},
        "next": [],
        "tasks": [],
        "metadata": {} if values else None,
        "created_at": render_time(written_at) if values else None,
        "checkpoint": here if values else None,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }


@asynccontextmanager
async def open_graph(
    served: Services, row: Thread, graph: ThreadGraph, user: Any, access: str
) -> AsyncIterator[Any]:
    """Open the graph of a thread."""
    if not is_graph(served, graph.name):
        raise ConflictError(
            f"the thread {row.thread_id!r} is of the agent {graph.name!r}, which is no graph: "
            "it has no checkpoints, and its state is written by its runs alone"
        )
    if graph.name not in served.graphs:
        raise ConflictError(
            f"the thread {row.thread_id!r} is of the graph {graph.name!r}, which this server "
            "does not have any more"
        )
    async with served.graphs.open(graph.name, graph.config, user, access=access) as found:
        yield found


@contextmanager
def translate_read_errors() -> Iterator[None]:
    """Turn LangGraph's errors about a place in a thread's history into refusals."""
    try:
        yield
    except ValueError as error:
        if "not found" in str(error):
            raise NotFoundError(f"checkpoint not found: {error}") from None
        raise InvalidError(f"the state cannot be read so: {error}") from None


@contextmanager
def translate_write_errors(name: str) -> Iterator[None]:
    """Turn a graph's errors about values that a client wrote into refusals."""
    import psycopg

    try:
        with contain_errors():
            yield
    except CodeExited as error:
        raise InvalidError(
            f"the graph {name!r} does not take this: {describe_error(error)}"
        ) from error
    except CheckrailError:
        raise
    except (psycopg.Error, sqlite3.Error) as error:
        if not isinstance(error, psycopg.DataError):
            raise
        raise InvalidError(f"the database cannot keep these values: {error}") from None
    except Exception as error:
        raise InvalidError(
            f"the graph {name!r} does not take this: {describe_error(error)}"
        ) from error


async def refresh_thread(
    served: Services, thread_id: str, user: Any = None, *, by_hand: bool = False
) -> Thread:
    """Update a thread's row from its checkpoints, and return it.

    A state that was written `by_hand` is told in the thread's stream.
    """
    row = await served.database.read(lambda reads: _require_thread(reads, thread_id))
    graph = await find_graph(served, row)
    if graph is None or not is_graph(served, graph.name):
        return row
    async with open_graph(served, row, graph, user, "threads.read") as found:
        told = await state.load_state(found, thread_id)

    def store_state(tx: Tx) -> Thread:
        row = threads.lock(tx, thread_id)
        if row is not None and not runs.live_ids(tx, thread_id=thread_id):
            threads.update_thread(
                tx, thread_id, **_state_columns(told)
            )  # a run's end tells the state as well
        if row is not None and by_hand:
            event = jsons.dumps({"state": told, "thread_id": thread_id})
            state_updates.add(tx, row, event)
            tx.publish("thread", thread_id)
        return _require_thread(tx, thread_id)

    return await served.database.write(store_state)


def _require_thread(reads: Reads, thread_id: str) -> Thread:
    row = threads.get(reads, thread_id)
    if row is None:
        raise thread_not_found(thread_id)
    return row


def _state_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    now = time.time()
    waiting = {task["id"]: task["interrupts"] for task in told["tasks"] if task["interrupts"]}
    return {
        "values": jsons.dumps(told["values"]),
        "interrupts": jsons.dumps(waiting),
        "status": "interrupted" if told["next"] else "idle",
        "error": None,
        "updated_at": now,
        "state_updated_at": now,
    }
