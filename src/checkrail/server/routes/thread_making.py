"""Rows of threads that are made: new ones, copies, and their time to live."""

from __future__ import annotations

import time
from itertools import accumulate
from typing import Any

from checkrail.runs import jsons
from checkrail.runs.admission import new_thread
from checkrail.runs.errors import InvalidError
from checkrail.runs.graphs import state
from checkrail.runs.graphs.loading import UnknownGraphError
from checkrail.runs.quotas import stored_size
from checkrail.server.fields import plain_json
from checkrail.server.routes.thread_bodies import Superstep, Ttl
from checkrail.server.routes.thread_graphs import graph_of, opened, refreshed, writing
from checkrail.server.routes.thread_removal import remove_thread
from checkrail.server.services import Services
from checkrail.server.shapes import when
from checkrail.store.rows import Row

_MINUTE = 60.0


def check_graph(served: Services, graph_id: Any) -> None:
    """Refuse a past of no graph, or of one that the server does not have."""
    if not isinstance(graph_id, str):
        raise InvalidError("supersteps are of a graph. Name it as graph_id in the metadata")
    if graph_id not in served.graphs:
        raise UnknownGraphError(graph_id)


def kept(metadata: Any) -> dict[str, Any]:
    """Take metadata as an auth handler left it, if a database can keep it."""
    told: dict[str, Any] = jsons.jsonable(metadata or {})
    try:
        plain_json(told)
    except ValueError as error:
        raise InvalidError(f"the metadata cannot be kept: {error}") from None
    return told


def default_ttl(served: Services) -> Ttl | None:
    """Return the time to live that the config says."""
    said = served.config.checkpointer.ttl or {}
    minutes = said.get("default_ttl")
    return Ttl(ttl=minutes, strategy=said.get("strategy", "delete")) if minutes else None


def ttl_of(given: Ttl | float | dict[str, Any] | None) -> Ttl | None:
    """Give a time to live, whichever way it was said."""
    if given is None or isinstance(given, Ttl):
        return given
    return Ttl.model_validate(given if isinstance(given, dict) else {"ttl": given})


def ttl_columns(ttl: Ttl | None, now: float) -> dict[str, Any]:
    """Return the columns of a time to live that begins now."""
    if ttl is None:
        return {"ttl_minutes": None, "ttl_strategy": None, "expires_at": None}
    expires = now + ttl.ttl * _MINUTE
    return {"ttl_minutes": ttl.ttl, "ttl_strategy": ttl.strategy, "expires_at": expires}


def ttl_json(row: Row) -> dict[str, Any] | None:
    """Return the time to live of a thread."""
    if row["ttl_minutes"] is None:
        return None
    told = {"strategy": row["ttl_strategy"], "ttl_minutes": row["ttl_minutes"]}
    return told | {"expires_at": when(row["expires_at"])}


def past_size(supersteps: list[Superstep]) -> int:
    """Return the bytes of a past, where each step is stored as the whole state that it makes."""
    sizes = accumulate(stored_size(step.model_dump()) for step in supersteps)
    return sum(sizes)


async def with_past(served: Services, row: Row, supersteps: list[Superstep], user: Any) -> Row:
    """Give a new thread its past; if that fails there is no thread either."""
    steps = [step.model_dump(exclude_unset=True) for step in supersteps]
    thread_id, named = row["thread_id"], await graph_of(served, row)
    assert named is not None  # noqa: S101 - it was checked before the thread was made
    try:
        async with opened(served, row, named, user, "threads.update") as graph:
            with writing(named.name):
                await state.apply_supersteps(graph, thread_id, steps)
        return await refreshed(served, thread_id, user)
    except BaseException:
        await remove_thread(served, thread_id)
        raise


async def copied_metadata(served: Services, source: Row) -> dict[str, Any]:
    """Return the metadata of a copy, which has no run that would tell its graph."""
    named = await graph_of(served, source)
    told = {} if named is None else {"graph_id": named.name, "assistant_id": named.assistant_id}
    known = {key: value for key, value in told.items() if value is not None}
    return {**known, **source["metadata"]}


def copy_of(
    source: Row, thread_id: str, owner: str, metadata: dict[str, Any], ttl: Ttl | None
) -> dict[str, Any]:
    """Return the row of a copy."""
    now = time.time()
    same = {name: source[name] for name in ("values", "interrupts", "error")}
    status = "idle" if source["status"] == "busy" else source["status"]
    told = {"metadata": metadata, "status": status, "state_updated_at": now}
    return new_thread(thread_id, owner, now, **told, **same, **ttl_columns(ttl, now))
