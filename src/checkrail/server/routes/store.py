"""The store: the long-term memory of graphs, in namespaces."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.errors import InvalidError
from checkrail.server.auth import Caller, Forbidden
from checkrail.server.deferred import Router
from checkrail.server.fields import JsonObject, Text, check_json
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import items
from checkrail.store.database import Tx

_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_FILTER_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_LONGEST = 1000
_TEN_YEARS = 10 * 366 * 24 * 60.0


# LangGraph's own server refuses no number; one that makes no sense there is the nearest that does.
ClampedLimit = Annotated[int, AfterValidator(lambda given: min(given, 1000) if given > 0 else 10)]
ClampedOffset = Annotated[int, AfterValidator(lambda given: max(0, min(given, 10**9)))]


def _check_length(given: str) -> str:
    if len(given.encode()) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} bytes, and is to be found by an index")
    return given


def check_namespace(given: Sequence[str]) -> tuple[str, ...]:
    """Check a namespace, which may be empty."""
    for label in given:
        if not label or "." in label:
            raise ValueError(f"a namespace has labels that are not empty, without dots: {label!r}")
    _check_length(".".join(given))
    return tuple(given)


def check_item_namespace(given: Sequence[str]) -> tuple[str, ...]:
    """Check a namespace in which something is stored."""
    if not given:
        raise ValueError("a namespace has one label at least")
    if given[0] == "langgraph":
        raise ValueError("the namespace 'langgraph' is LangGraph's own")
    return check_namespace(given)


def _check_filter(given: dict[str, Any]) -> dict[str, Any]:
    for key, value in given.items():
        if not _FILTER_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no field: letters, digits, _ and -, joined by dots")
        unknown = [name for name in value if name not in _OPERATORS] if _is_map(value) else []
        if unknown:
            raise ValueError(f"there is no operator {unknown[0]!r}; choose from {_OPERATORS}")
    return given


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


Labels = list[Text]
Place = Annotated[Labels, AfterValidator(check_namespace)]
KeptPlace = Annotated[Labels, AfterValidator(check_item_namespace)]
Key = Annotated[Text, AfterValidator(_check_length)]
Minutes = Annotated[float, Field(gt=0, le=_TEN_YEARS, allow_inf_nan=False)]
Filter = Annotated[
    dict[str, Any], Field(max_length=100), AfterValidator(check_json), AfterValidator(_check_filter)
]
Paths = Annotated[list[Text], Field(max_length=100)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class NewItem(_Body):
    """What is to be kept, and where; `ttl` is in minutes."""

    namespace: KeptPlace
    key: Key
    value: JsonObject
    index: Literal[False] | Paths | None = None
    ttl: Minutes | None = None


class ItemName(_Body):
    """Which item."""

    namespace: Place
    key: Key


class ItemSearch(_Body):
    """Which items to give."""

    namespace_prefix: Place = Field(default_factory=list)
    filter: Filter | None = None
    limit: ClampedLimit = 10
    offset: ClampedOffset = 0
    query: Text | None = None
    refresh_ttl: bool | None = None


class NamespaceSearch(_Body):
    """Which namespaces to list."""

    prefix: Place | None = None
    suffix: Place | None = None
    max_depth: Annotated[int, Field(ge=1, le=1000)] | None = None
    limit: ClampedLimit = 100
    offset: ClampedOffset = 0


class Item(_Body):
    """Something that is kept."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: str
    updated_at: str


class FoundItem(Item):
    """Something that was found, and how well it fits a question."""

    score: float | None = None


class FoundItems(_Body):
    """What was found."""

    items: list[FoundItem]


class Namespaces(_Body):
    """Namespaces in which something is kept."""

    namespaces: list[list[str]]


KEPT: Answers = {204: {"description": "It is kept"}, **PROBLEMS}
GONE: Answers = {204: {"description": "It is gone"}, **PROBLEMS}
ITEM: Answers = {200: {"model": Item | None}, **PROBLEMS}
ITEMS: Answers = {200: {"model": FoundItems}, **PROBLEMS}
NAMES: Answers = {200: {"model": Namespaces}, **PROBLEMS}


T = TypeVar("T")
_MINUTE = 60.0
router = Router(tags=["store"])

Served = Annotated[Services, Depends(services_of)]


async def _authorize(
    request: Request, served: Services, action: str, value: dict[str, Any]
) -> Caller:
    """Authorize the caller; handlers narrow it by changing the namespace in `value`."""
    caller, access = await served.access(request, "store", action, value)
    if access.filter is not None:
        raise Forbidden(
            "The server's auth handler answered with a filter, and items of the store have no "
            "metadata to compare. Write a handler for the store that changes value['namespace']"
        )
    return caller


def _should_refresh(caller: Caller, wanted: bool | None) -> bool | None:
    """Return whether a read lets items live longer; nothing does that for one who only reads."""
    return wanted if caller.has_role("member") else False


async def _run_store_call(asked: Awaitable[T]) -> T:
    """Await a call of the store; what the store refuses is the client's to correct."""
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
    caller = await _authorize(request, served, "put", value)
    ttl = {} if body.ttl is None else {"ttl": body.ttl}
    place = tuple(value.pop("namespace"))
    store = await served.find_store()
    item = _item_row(store, caller, place, value, body.ttl)
    async with _count_item(served, caller, item):
        await _run_store_call(store.aput(place, **value, **ttl))
    return Response(status_code=204)


def _item_row(
    store: Any, caller: Caller, place: tuple[str, ...], value: Any, ttl: Any
) -> items.Item:
    """Return the row by which an item counts for who puts it there."""
    minutes = (store.ttl_config or {}).get("default_ttl") if ttl is None else ttl
    named = {"namespace": ".".join(place), "key": value["key"]}
    return items.Item(
        **named,
        owner=caller.owner,
        stored_bytes=stored_size(named, value["value"]),
        ttl_seconds=None if minutes is None else minutes * _MINUTE,
    )


@asynccontextmanager
async def _count_item(served: Services, caller: Caller, item: items.Item) -> AsyncIterator[None]:
    """Count an item among what is stored of its owner, or raise; as before if it is not kept."""

    def count_in_tx(tx: Tx) -> items.Item | None:
        known, ttl = items.get(tx, item.namespace, item.key), item.ttl_seconds
        own = known.stored_bytes if known and known.owner == caller.owner else 0
        served.check_bytes(tx, caller, caller.owner, item.stored_bytes - own)
        look_at = None if ttl is None else tx.time() + ttl + _MINUTE  # it is swept by then
        items.put(tx, replace(item, look_at=look_at))
        return known

    before = await served.database.write(count_in_tx)
    try:
        yield
    except BaseException:
        undo = (
            partial(items.put, item=before)
            if before
            else partial(items.remove, namespace=item.namespace, key=item.key)
        )
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
    """Return an item, by its namespace with dots between the labels, or null."""
    labels = tuple(namespace.split(".")) if namespace else ()
    value: dict[str, Any] = {"namespace": labels, "key": key}
    caller = await _authorize(request, served, "get", value)
    place = tuple(value["namespace"])
    refreshes = _should_refresh(caller, refresh_ttl)
    store = await served.find_store()
    item = await _run_store_call(store.aget(place, value["key"], refresh_ttl=refreshes))
    return JsonResponse(None if item is None else item.dict())


@router.delete("/store/items", status_code=204, responses=GONE)
async def delete_item(request: Request, served: Served, body: ItemName) -> Response:
    """Remove an item, if there is one."""
    value: dict[str, Any] = {"namespace": tuple(body.namespace), "key": body.key}
    await _authorize(request, served, "delete", value)
    store = await served.find_store()
    place, named = tuple(value["namespace"]), value["key"]
    await _run_store_call(store.adelete(place, named))
    gone = partial(items.remove, namespace=".".join(place), key=named)
    await served.database.write(gone)
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
    caller = await _authorize(request, served, "search", value)
    prefix = tuple(value.pop("namespace"))
    refreshes = _should_refresh(caller, body.refresh_ttl)
    store = await served.find_store()
    found = await _run_store_call(store.asearch(prefix, **value, refresh_ttl=refreshes))
    return JsonResponse({"items": [item.dict() for item in found]})


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
    await _authorize(request, served, "list_namespaces", value)
    prefix = value.pop("namespace")
    store = await served.find_store()
    found = await _run_store_call(store.alist_namespaces(prefix=prefix, **value))
    return JsonResponse({"namespaces": [[*each] for each in found]})
