"""The store: the long-term memory of graphs, in namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from checkrail.runs.errors import InvalidError
from checkrail.runs.quotas import stored_size
from checkrail.server.answers import Json
from checkrail.server.auth import Caller, Forbidden
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
from checkrail.store import items
from checkrail.store.database import Tx
from checkrail.store.rows import Row

T = TypeVar("T")
_MINUTE = 60.0
router = APIRouter(tags=["store"])

Served = Annotated[Services, Depends(services_of)]


async def _ask(request: Request, served: Services, action: str, value: dict[str, Any]) -> Caller:
    """Ask whether the caller may; handlers narrow it by changing the namespace in `value`."""
    caller, access = await served.access(request, "store", action, value)
    if access.filter is not None:
        raise Forbidden(
            "The server's auth handler answered with a filter, and items of the store have no "
            "metadata to compare. Write a handler for the store that changes value['namespace']"
        )
    return caller


def _refreshes(caller: Caller, wanted: bool | None) -> bool | None:
    """Return whether a read lets items live longer; nothing does that for one who only reads."""
    return wanted if caller.may("member") else False


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
    caller = await _ask(request, served, "put", value)
    ttl = {} if body.ttl is None else {"ttl": body.ttl}
    place = tuple(value.pop("namespace"))
    store = await served.find_store()
    item = _item(store, caller, place, value, body.ttl)
    async with _counted(served, caller, item):
        await _done(store.aput(place, **value, **ttl))
    return Response(status_code=204)


def _item(store: Any, caller: Caller, place: tuple[str, ...], value: Any, ttl: Any) -> Row:
    """Return the row by which an item counts for who puts it there."""
    minutes = (store.ttl_config or {}).get("default_ttl") if ttl is None else ttl
    named = {"namespace": ".".join(place), "key": value["key"]}
    return {
        **named,
        "owner": caller.owner,
        "stored_bytes": stored_size(named, value["value"]),
        "ttl_seconds": None if minutes is None else minutes * _MINUTE,
    }


@asynccontextmanager
async def _counted(served: Services, caller: Caller, item: Row) -> AsyncIterator[None]:
    """Count an item among what is stored of its owner, or raise; as before if it is not kept."""

    def count(tx: Tx) -> Row | None:
        known, ttl = items.get(tx, item["namespace"], item["key"]), item["ttl_seconds"]
        own = known["stored_bytes"] if known and known["owner"] == caller.owner else 0
        served.check_bytes(tx, caller, caller.owner, item["stored_bytes"] - own)
        look_at = None if ttl is None else tx.time() + ttl + _MINUTE  # it is swept by then
        items.put(tx, item | {"look_at": look_at})
        return known

    before = await served.database.write(count)
    try:
        yield
    except BaseException:
        undo = partial(items.put, row=before) if before else partial(items.remove, row=item)
        await served.database.write(undo)
        raise


@router.get("/store/items", responses=ITEM)
async def get_item(
    request: Request,
    served: Served,
    key: Annotated[Key, Query()],
    namespace: Annotated[Text, Query()] = "",
    refresh_ttl: Annotated[bool | None, Query()] = None,
) -> Response:
    """Return an item, by its namespace with dots between the labels; null if there is none."""
    labels = tuple(namespace.split(".")) if namespace else ()
    value: dict[str, Any] = {"namespace": labels, "key": key}
    caller = await _ask(request, served, "get", value)
    place = tuple(value["namespace"])
    refreshes = _refreshes(caller, refresh_ttl)
    store = await served.find_store()
    item = await _done(store.aget(place, value["key"], refresh_ttl=refreshes))
    return Json(None if item is None else item.dict())


@router.delete("/store/items", status_code=204, responses=GONE)
async def delete_item(request: Request, served: Served, body: ItemName) -> Response:
    """Remove an item, if there is one."""
    value: dict[str, Any] = {"namespace": tuple(body.namespace), "key": body.key}
    await _ask(request, served, "delete", value)
    store = await served.find_store()
    place, named = tuple(value["namespace"]), value["key"]
    await _done(store.adelete(place, named))
    gone = {"namespace": ".".join(place), "key": named}
    await served.database.write(partial(items.remove, row=gone))
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
    caller = await _ask(request, served, "search", value)
    prefix = tuple(value.pop("namespace"))
    refreshes = _refreshes(caller, body.refresh_ttl)
    store = await served.find_store()
    found = await _done(store.asearch(prefix, **value, refresh_ttl=refreshes))
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
    store = await served.find_store()
    found = await _done(store.alist_namespaces(prefix=prefix, **value))
    return Json({"namespaces": [[*each] for each in found]})
