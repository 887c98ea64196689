"""Bodies of requests for the store, and what they look like in answers.

The store carries out what several clients ask for in one go, and if one of it fails, all of it
does: so what it would refuse is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from checkrail.server.documents import PROBLEMS, Answers
from checkrail.server.fields import JsonObject, Text, plain_json

_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_FILTER_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_LONGEST = 1000
_TEN_YEARS = 10 * 366 * 24 * 60.0


# LangGraph's own server refuses no number; one that makes no sense there is the nearest that does.
ClampedLimit = Annotated[int, AfterValidator(lambda given: min(given, 1000) if given > 0 else 10)]
ClampedOffset = Annotated[int, AfterValidator(lambda given: max(0, min(given, 10**9)))]


def _fits(given: str) -> str:
    if len(given.encode()) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} bytes, and is to be found by an index")
    return given


def place(given: Sequence[str]) -> tuple[str, ...]:
    """Check a namespace, which may be empty."""
    for label in given:
        if not label or "." in label:
            raise ValueError(f"a namespace has labels that are not empty, without dots: {label!r}")
    _fits(".".join(given))
    return tuple(given)


def kept_place(given: Sequence[str]) -> tuple[str, ...]:
    """Check a namespace in which something is to be kept."""
    if not given:
        raise ValueError("a namespace has one label at least")
    if given[0] == "langgraph":
        raise ValueError("the namespace 'langgraph' is LangGraph's own")
    return place(given)


def _filter(given: dict[str, Any]) -> dict[str, Any]:
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
Place = Annotated[Labels, AfterValidator(place)]
KeptPlace = Annotated[Labels, AfterValidator(kept_place)]
Key = Annotated[Text, AfterValidator(_fits)]
Minutes = Annotated[float, Field(gt=0, le=_TEN_YEARS, allow_inf_nan=False)]
Filter = Annotated[
    dict[str, Any], Field(max_length=100), AfterValidator(plain_json), AfterValidator(_filter)
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
