"""The store: the long-term memory of graphs, in namespaces."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from checkrail.runs.errors import InvalidError
from checkrail.server.answers import Json
from checkrail.server.auth import Forbidden
from checkrail.server.fields import Text
from checkrail.server.routes.store_bodies import (
    GONE,
    ITEM,
    ITEMS,
    KEPT,
    NAMES,
    ItemName,
    ItemSearch,
    Key,
    NamespaceSearch,
    NewItem,
)
from checkrail.server.services import Services, services_of

T = TypeVar("T")
router = APIRouter(tags=["store"])

Served = Annotated[Services, Depends(services_of)]


async def _ask(request: Request, served: Services, action: str, value: dict[str, Any]) -> None:
    """Ask whether the caller may; handlers narrow it by changing the namespace in `value`."""
    _, access = await served.access(request, "store", action, value)
    if access.filter is not None:
        raise Forbidden(
            "The server's auth handler answered with a filter, and items of the store have no "
            "metadata to compare. Write a handler for the store that changes value['namespace']"
        )


async def _done(asked: Awaitable[T]) -> T:
    """Carry it out; what the store refuses is the client's to correct."""
    from langgraph.store.base import InvalidNamespaceError

    try:
        return await asked
    except InvalidNamespaceError as error:
        raise InvalidError(str(error)) from None
    except NotImplementedError as error:
        raise InvalidError(f"the store of this server cannot do that: {error}") from None


@router.put("/store/items", status_code=204, responses=KEPT)
async def put_item(request: Request, served: Served, body: NewItem) -> Response:
    """Keep an item, in place of the one that is there."""
    value: dict[str, Any] = {
        "namespace": tuple(body.namespace),
        "key": body.key,
        "value": body.value,
        "index": body.index,
    }
    await _ask(request, served, "put", value)
    ttl = {} if body.ttl is None else {"ttl": body.ttl}
    place = tuple(value.pop("namespace"))
    await _done(served.store.aput(place, **value, **ttl))
    return Response(status_code=204)


@router.get("/store/items", responses=ITEM)
async def get_item(
    request: Request,
    served: Served,
    key: Annotated[Key, Query()],
    namespace: Annotated[Text, Query()] = "",
    refresh_ttl: Annotated[bool | None, Query()] = None,
) -> Response:
    """Give an item, by its namespace with dots between the labels; null if there is none."""
    labels = tuple(namespace.split(".")) if namespace else ()
    value: dict[str, Any] = {"namespace": labels, "key": key}
    await _ask(request, served, "get", value)
    place = tuple(value["namespace"])
    item = await _done(served.store.aget(place, value["key"], refresh_ttl=refresh_ttl))
    return Json(None if item is None else item.dict())


@router.delete("/store/items", status_code=204, responses=GONE)
async def delete_item(request: Request, served: Served, body: ItemName) -> Response:
    """Remove an item, if there is one."""
    value: dict[str, Any] = {"namespace": tuple(body.namespace), "key": body.key}
    await _ask(request, served, "delete", value)
    await _done(served.store.adelete(tuple(value["namespace"]), value["key"]))
    return Response(status_code=204)


@router.post("/store/items/search", responses=ITEMS)
async def search_items(request: Request, served: Served, body: ItemSearch) -> Response:
    """Find items below a namespace, by what they hold and by what they are about."""
    value: dict[str, Any] = {
        "namespace": tuple(body.namespace_prefix),
        "filter": body.filter,
        "limit": body.limit,
        "offset": body.offset,
        "query": body.query,
    }
    await _ask(request, served, "search", value)
    prefix = tuple(value.pop("namespace"))
    found = await _done(served.store.asearch(prefix, **value, refresh_ttl=body.refresh_ttl))
    return Json({"items": [item.dict() for item in found]})


@router.post("/store/namespaces", responses=NAMES)
async def list_namespaces(request: Request, served: Served, body: NamespaceSearch) -> Response:
    """List namespaces."""
    value: dict[str, Any] = {
        "namespace": None if body.prefix is None else tuple(body.prefix),
        "suffix": None if body.suffix is None else tuple(body.suffix),
        "max_depth": body.max_depth,
        "limit": body.limit,
        "offset": body.offset,
    }
    await _ask(request, served, "list_namespaces", value)
    prefix = value.pop("namespace")
    found = await _done(served.store.alist_namespaces(prefix=prefix, **value))
    return Json({"namespaces": [[*each] for each in found]})
