"""Reading rows: as plain dicts, by pages, and only what matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import (
    Select,
    Table,
    and_,
    asc,
    cast,
    desc,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads

Row = dict[str, Any]
Filters = Mapping[str, Any]
"""What metadata has to hold: values by key, `$eq`, `$contains`, `$in`, `$or`, `$and`."""


def all_of(reads: Reads, query: Any, params: Any = None) -> list[Row]:
    """Give every row of a query."""
    return [dict(row) for row in reads.execute(query, params).mappings()]


def one_of(reads: Reads, query: Any, params: Any = None) -> Row | None:
    """Give the first row of a query."""
    row = reads.execute(query, params).mappings().first()
    return None if row is None else dict(row)


@dataclass(frozen=True, slots=True)
class Page:
    """Which rows of many, in which order."""

    sort_by: str = "created_at"
    sort_order: str = "desc"
    limit: int = 10
    offset: int = 0


def paged(query: Select[Any], table: Table, page: Page, tie: str) -> Select[Any]:
    """Sort a query and take one page of it; rows that sort alike have an order too."""
    way = asc if page.sort_order == "asc" else desc
    ordered = query.order_by(way(table.c[page.sort_by]), way(table.c[tie]))
    return ordered.limit(page.limit).offset(page.offset)


def holds(reads: Reads, column: ColumnElement[Any], wanted: Filters) -> ColumnElement[bool]:
    """Say in SQL that JSON holds what is wanted, as `checkrail.server.auth` says it in Python."""
    postgres = reads.dialect.name == "postgresql"
    return and_(true(), *(_holds(column, key, value, postgres) for key, value in wanted.items()))


def _holds(column: Any, key: str, value: Any, postgres: bool) -> ColumnElement[bool]:  # noqa: FBT001
    if key in ("$or", "$and"):
        parts = [
            and_(true(), *(_holds(column, k, v, postgres) for k, v in item.items()))
            for item in value
        ]
        return or_(false(), *parts) if key == "$or" else and_(true(), *parts)
    if isinstance(value, Mapping) and value and all(str(op).startswith("$") for op in value):
        return and_(true(), *(_operator(column, key, op, v, postgres) for op, v in value.items()))
    return _same(column, key, value, postgres)


def _operator(
    column: Any,
    key: str,
    operator: str,
    value: Any,
    postgres: bool,  # noqa: FBT001
) -> ColumnElement[bool]:
    if operator == "$eq":
        return _same(column, key, value, postgres)
    if operator == "$in":
        return or_(false(), *(_same(column, key, item, postgres) for item in value))
    if operator == "$contains":
        items = value if isinstance(value, (list, tuple)) else [value]
        return and_(true(), *(_has_item(column, key, item, postgres) for item in items))
    return false()  # what is not understood lets nothing through


def _same(column: Any, key: str, value: Any, postgres: bool) -> ColumnElement[bool]:  # noqa: FBT001
    if postgres:
        return func.coalesce(column.cast(JSONB).op("@>")(_json({key: value})), false())
    return _sqlite_same(column, (key,), value)


def _json(value: Any) -> ColumnElement[Any]:
    return cast(literal(value, JSONB), JSONB)


def _sqlite_same(column: Any, path: Sequence[str], value: Any) -> ColumnElement[bool]:
    """Contain as PostgreSQL does: mappings by their keys, lists by their members."""
    place = _path(path)
    if isinstance(value, Mapping):
        if not value:
            return func.json_type(column, place) == "object"
        return and_(true(), *(_sqlite_same(column, (*path, k), v) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        has = [_sqlite_member(column, place, item) for item in value]
        return and_(func.json_type(column, place) == "array", *has)
    if value is None:
        return func.json_type(column, place) == "null"
    if isinstance(value, bool):
        return func.json_type(column, place) == ("true" if value else "false")
    kinds = ("text",) if isinstance(value, str) else ("integer", "real")
    found = func.json_extract(column, place)
    return and_(func.json_type(column, place).in_(kinds), found == value)


def _sqlite_member(column: Any, place: str, item: Any) -> ColumnElement[bool]:
    members = func.json_each(column, place).table_valued("value", "type")
    if isinstance(item, (Mapping, list, tuple)):
        same = members.c.value == func.json(orjson.dumps(item).decode())
    elif isinstance(item, bool) or item is None:
        same = members.c.type == {True: "true", False: "false", None: "null"}[item]
    else:
        same = members.c.value == item
    return exists(select(1).select_from(members).where(same))


def _has_item(column: Any, key: str, item: Any, postgres: bool) -> ColumnElement[bool]:  # noqa: FBT001
    if postgres:
        return func.coalesce(column.cast(JSONB).op("@>")(_json({key: [item]})), false())
    return _sqlite_member(column, _path((key,)), item)


def _path(path: Iterable[str]) -> str:
    quoted = (key.replace('"', '\\"') for key in path)
    return "$" + "".join(f'."{key}"' for key in quoted)
