"""Finding an assistant, as far as the caller may."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Request

from checkrail.runs.admission import own_assistant
from checkrail.runs.errors import NotFoundError
from checkrail.runs.graphs.loading import UnknownGraphError
from checkrail.server.auth import Access, Caller, Forbidden, matches
from checkrail.server.services import Services
from checkrail.store import assistants
from checkrail.store.rows import Row


def id_of(assistant_id: str) -> str:
    """Return the id of an assistant that is named by its id, or by the agent that it stands for."""
    try:
        return str(UUID(assistant_id))
    except ValueError:
        return own_assistant(assistant_id)


def missing(assistant_id: str) -> NotFoundError:
    """Say that there is no such assistant; which there are is not for everybody."""
    hint = "POST /assistants/search lists those that you may see"
    return NotFoundError(f"assistant {assistant_id!r} not found. {hint}")


def check_graph(served: Services, graph_id: str | None) -> None:
    """Refuse an agent that the server does not have."""
    if graph_id is not None and graph_id not in served.catalogue:
        raise UnknownGraphError(graph_id)


async def found(
    request: Request,
    served: Services,
    assistant_id: str,
    action: str,
    value: dict[str, Any] | None = None,
) -> tuple[Caller, Row]:
    """Find an assistant that the caller may touch; `value` is what is to become of it."""
    known = id_of(assistant_id)
    told = {} if value is None else value
    told |= {"assistant_id": UUID(known)}
    told.setdefault("metadata", {})
    caller, access = await served.access(request, "assistants", action, told)
    row = await served.database.read(lambda reads: assistants.get(reads, known))
    if row is None or not visible(row, access):
        raise missing(assistant_id)
    if row["owner"] is None and action != "read" and not caller.is_admin:
        raise Forbidden(
            f"The assistant {row['name']!r} stands for an agent of the server, "
            "which is for admins to change. Create one of your own"
        )
    return caller, row


def visible(row: Row, access: Access) -> bool:
    """Say whether a caller may touch an assistant; those of the server itself are everybody's."""
    mine = access.owner is None or row["owner"] in (None, access.owner)
    return mine and (access.filter is None or matches(access.filter, row["metadata"]))
