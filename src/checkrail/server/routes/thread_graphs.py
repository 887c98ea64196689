"""The graph of a thread, and what the thread's row tells of its state."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from checkrail.engine.containment import contained
from checkrail.engine.errors import CheckrailError, CodeExited, told
from checkrail.runs import jsons
from checkrail.runs.catalogue import GRAPH
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import state
from checkrail.server.routes.thread_access import missing
from checkrail.server.services import Services
from checkrail.server.shapes import when
from checkrail.store import runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row


@dataclass(frozen=True, slots=True)
class ThreadGraph:
    """Which graph a thread belongs to, and with which config it ran last."""

    name: str
    config: Mapping[str, Any]
    assistant_id: str | None = None


async def graph_of(served: Services, row: Row) -> ThreadGraph | None:
    """Name the graph that a thread's metadata say, else that of its newest run."""
    newest = await served.database.read(lambda reads: runs.newest_of(reads, row["thread_id"]))
    said = row["metadata"].get("graph_id")
    if newest is not None and (not isinstance(said, str) or said == newest["agent_name"]):
        config = newest["kwargs"].get("config") or {}
        return ThreadGraph(newest["agent_name"], config, newest["assistant_id"])
    return ThreadGraph(said, {}) if isinstance(said, str) else None


def is_graph(served: Services, name: str) -> bool:
    """Return whether an agent is a graph, as one is taken for that the server does not have."""
    agent = served.catalogue.get(name)
    return agent is None or agent.config.kind == GRAPH


def plain_state(row: Row) -> dict[str, Any]:
    """Return where a thread stands whose agent is no graph, or that never ran."""
    values = row.get("values")
    here = {"thread_id": row["thread_id"], "checkpoint_ns": ""}
    return {
        "values": values or {},
        "next": [],
        "tasks": [],
        "metadata": {} if values else None,
        "created_at": when(row.get("state_updated_at")) if values else None,
        "checkpoint": here if values else None,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }


@asynccontextmanager
async def opened(
    served: Services, row: Row, graph: ThreadGraph, user: Any, access: str
) -> AsyncIterator[Any]:
    """Open the graph of a thread."""
    if not is_graph(served, graph.name):
        raise ConflictError(
            f"the thread {row['thread_id']!r} is of the agent {graph.name!r}, which is no graph: "
            "it has no checkpoints, and its state is written by its runs alone"
        )
    if graph.name not in served.graphs:
        raise ConflictError(
            f"the thread {row['thread_id']!r} is of the graph {graph.name!r}, which this server "
            "does not have any more"
        )
    async with served.graphs.open(graph.name, graph.config, user, access=access) as found:
        yield found


@contextmanager
def reading() -> Iterator[None]:
    """Yield what LangGraph found wrong with a place in a thread's history."""
    try:
        yield
    except ValueError as error:
        if "not found" in str(error):
            raise NotFoundError(f"checkpoint not found: {error}") from None
        raise InvalidError(f"the state cannot be read so: {error}") from None


@contextmanager
def writing(name: str) -> Iterator[None]:
    """Yield what a graph found wrong with values that a client wrote: its own code judges them."""
    import psycopg

    try:
        with contained():
            yield
    except CodeExited as error:
        raise InvalidError(f"the graph {name!r} does not take this: {told(error)}") from error
    except CheckrailError:
        raise
    except (psycopg.Error, sqlite3.Error) as error:
        if not isinstance(error, psycopg.DataError):
            raise
        raise InvalidError(f"the database cannot keep these values: {error}") from None
    except Exception as error:
        raise InvalidError(f"the graph {name!r} does not take this: {told(error)}") from error


async def refreshed(served: Services, thread_id: str, user: Any = None) -> Row:
    """Bring a thread's row up to what its checkpoints say, and give it."""
    row = await served.database.read(lambda reads: _get(reads, thread_id))
    graph = await graph_of(served, row)
    if graph is None or not is_graph(served, graph.name):
        return row
    async with opened(served, row, graph, user, "threads.read") as found:
        told = await state.get_state(found, thread_id)

    def keep(tx: Tx) -> Row:
        if threads.lock(tx, thread_id) is not None and not runs.live_ids(tx, thread_id=thread_id):
            threads.change(tx, thread_id, **_changes(told))  # a run's end tells the state as well
        return _get(tx, thread_id)

    return await served.database.write(keep)


def _get(reads: Reads, thread_id: str) -> Row:
    row = threads.get(reads, thread_id)
    if row is None:
        raise missing(thread_id)
    return row


def _changes(told: Mapping[str, Any]) -> dict[str, Any]:
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
