"""Reading rows: as the dataclasses that tell their columns, by pages, and only what matches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import orjson
from sqlalchemy import (
    BigInteger,
    Select,
    Table,
    Text,
    and_,
    asc,
    bindparam,
    case,
    cast,
    desc,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads
from checkrail.store.tables import Packed

PAGE_BYTES = 1024 * 1024
"""What a page has at most, but for its last row."""


def keys_within_bytes(
    rows: Select[Any], key: ColumnElement[Any], *values: ColumnElement[Any]
) -> Select[Any]:
    """Return the keys of the first rows whose values have less than `bytes`, at least one.

    They are counted in the order of their keys, and there are no more than `rows`: both are
    parameters of the query.
    """
    first, *others = (func.length(value, type_=BigInteger) for value in values)
    size = sum((func.coalesce(other, 0) for other in others), first)
    before = func.sum(size, type_=BigInteger).over(order_by=key, rows=(None, 0)) - size
    page = rows.with_only_columns(key.label("key"), before.label("before"))
    counted = page.order_by(key).limit(bindparam("rows")).subquery()
    return select(counted.c.key).where(counted.c.before < bindparam("bytes"))


T = TypeVar("T")

Filters = Mapping[str, Any]
"""What JSON has to hold: values by key, `$eq`, `$contains`, `$in`, `$or`, `$and`."""

Condition = ColumnElement[bool]

MOST_TERMS = 50
"""How many values a search may name; SQLite joins no more than 64 tables."""

_LARGEST = 2**64 - 1
_LARGEST_IN_SQLITE = 2**63 - 1


def select_rows(kind: type[Any], table: Table) -> Select[Any]:
    """Return the query for rows of a table, with the fields of a dataclass in their order."""
    return select(*(table.c[each.name] for each in fields(kind)))


def fetch_rows(reads: Reads, kind: type[T], query: Any, params: Any = None) -> list[T]:
    """Return every row of a query that `select_rows` began."""
    return [kind(*row) for row in reads.execute(query, params)]


def fetch_row(reads: Reads, kind: type[T], query: Any, params: Any = None) -> T | None:
    """Return the first row of a query that `select_rows` began."""
    row = reads.execute(query, params).first()
    return None if row is None else kind(*row)


def column_values(row: Any) -> dict[str, Any]:
    """Return what a new row has in each column; its number (`seq`) is the table's to give."""
    return {name: getattr(row, name) for name in row.__slots__ if name != "seq"}


@dataclass(frozen=True, slots=True)
class Page:
    """Which rows of many, in which order."""

    sort_by: str = "created_at"
    sort_order: str = "desc"
    limit: int = 10
    offset: int = 0


def apply_page(
    query: Select[Any],
    table: Table,
    page: Page,
    tie: str,
    by: ColumnElement[Any] | None = None,
) -> Select[Any]:
    """Sort a query and take one page of it; rows that sort alike have an order too."""
    way = asc if page.sort_order == "asc" else desc
    column = table.c[page.sort_by] if by is None else by
    ordered = query.order_by(way(column), way(table.c[tie]))
    return ordered.limit(page.limit).offset(page.offset)


def searchable_filter(wanted: Filters) -> Filters:
    """Return what a client searches for, unless it is more than both databases can look for."""
    left, found = [*wanted.values()], len(wanted)
    while left and found <= MOST_TERMS:
        value = left.pop()
        if isinstance(value, (Mapping, list, tuple)):
            within = [*(value.values() if isinstance(value, Mapping) else value)]
            left += within
            found += len(within)
    if found > MOST_TERMS:
        raise ValueError(f"a search names at most {MOST_TERMS} values. Search for less")
    return wanted


def json_matches(reads: Reads, column: ColumnElement[Any], wanted: Filters) -> Condition:
    """Return the SQL condition that JSON matches a filter, as `server.auth` does in Python.

    What is not understood lets nothing through.
    """
    parts = (_matches_key(reads, column, key, value) for key, value in wanted.items())
    return and_(true(), *parts)


def contains_json(reads: Reads, column: ColumnElement[Any], wanted: Filters) -> Condition:
    """Return the SQL condition that JSON contains other JSON: mappings by keys, lists by members.

    This is what PostgreSQL's `@>` means; no key has a meaning of its own.
    """
    if not wanted:
        return true()
    if not _is_storable(wanted):
        return false()
    if reads.dialect.name == "postgresql":
        return _to_jsonb(column).op("@>")(cast(literal(dict(wanted), JSONB), JSONB))
    return and_(true(), *(_has_member(column, key, [value]) for key, value in wanted.items()))


def _matches_key(reads: Reads, column: Any, key: str, value: Any) -> Condition:
    if key in ("$or", "$and"):
        return _join_conditions(reads, column, key, value)
    if key.startswith("$"):
        return false()
    if isinstance(value, Mapping) and value and all(str(op).startswith("$") for op in value):
        return and_(
            true(), *(_apply_operator(reads, column, key, op, of) for op, of in value.items())
        )
    return contains_json(reads, column, {key: value})


def _join_conditions(reads: Reads, column: Any, key: str, value: Any) -> Condition:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Mapping) for one in value):
        return false()
    parts = [json_matches(reads, column, one) for one in value]
    return or_(false(), *parts) if key == "$or" else and_(true(), *parts)


def _apply_operator(reads: Reads, column: Any, key: str, operator: str, value: Any) -> Condition:
    if operator == "$eq":
        return contains_json(reads, column, {key: value})
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(_is_scalar(item) for item in items):
        return false()
    if operator == "$in" and items is value:
        return _is_one_of(reads, column, key, [item for item in items if _is_storable(item)])
    if operator == "$contains":
        is_list = contains_json(reads, column, {key: []})
        return and_(is_list, *(contains_json(reads, column, {key: [item]}) for item in items))
    return false()


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _is_one_of(reads: Reads, column: Any, key: str, values: Sequence[Any]) -> Condition:
    if not values:
        return false()
    if reads.dialect.name == "postgresql":
        return or_(*(contains_json(reads, column, {key: value}) for value in values))
    return _has_member(column, key, values)


def _is_storable(value: Any) -> bool:
    """Return whether JSON that is kept can have this in it: no NUL, no half a pair."""
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or _is_encodable(value))
    if isinstance(value, Mapping):
        return all(map(_is_storable, value)) and all(map(_is_storable, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_storable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and -_LARGEST_IN_SQLITE <= value <= _LARGEST)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _to_jsonb(column: Any) -> ColumnElement[Any]:
    """Return a column as JSONB, which has no word for the NUL that JSON kept as text may name."""
    if isinstance(column.type, Packed):
        named = func.replace(type_coerce(column, Text), r"\u0000", r"\ufffd")
        return cast(named, JSONB)
    return type_coerce(column, JSONB)


def _has_member(column: Any, key: str, values: Sequence[Any]) -> Condition:
    """Return the condition that a member of SQLite's JSON is, or contains, one of some values."""
    found = _Members()
    member = found.add(column)
    found.conditions += [member.c.key == key, _matches_any(found, column, member, values)]
    return exists(select(1).select_from(*found.tables).where(*found.conditions))


class _Members:
    """Members of SQLite's JSON, one within the other, as one flat join.

    They are asked for by key and not by path, which cannot name every key.
    """

    def __init__(self) -> None:
        self.tables: list[Any] = []
        self.conditions: list[Condition] = []

    def add(self, within: Any) -> Any:
        made = func.json_each(within).table_valued(
            "key", "value", "type", "fullkey", joins_implicitly=True
        )
        self.tables.append(made)
        return made

    def add_all(self, member: Any, kind: str, wanted: Iterable[tuple[str | None, Any]]) -> None:
        """Require what is wanted within a member; what is no JSON is never read as JSON."""
        for key, value in wanted:
            within = case((member.c.type == kind, member.c.value), else_="[]")
            child = self.add(within)
            if key is not None:
                self.conditions.append(child.c.key == key)
            self.conditions.append(_matches_any(self, within, child, [value]))


def _matches_any(found: _Members, within: Any, member: Any, values: Sequence[Any]) -> Condition:
    """Compare a member with values: many texts and numbers at once, anything else one by one."""
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if _is_plain_int(value)]
    others = [value for value in values if not isinstance(value, str) and not _is_plain_int(value)]
    parts = [_matches_value(found, within, member, value) for value in others]
    if texts:
        parts.append(and_(member.c.type == "text", member.c.value.in_(texts)))
    if numbers:
        parts.append(and_(_is_number(member), member.c.value.in_(numbers)))
    return or_(*parts)


def _is_plain_int(value: Any) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_IN_SQLITE
    )


def _is_number(member: Any) -> Any:
    return member.c.type.in_(("integer", "real"))


def _matches_value(found: _Members, within: Any, member: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        found.add_all(member, "object", value.items())
        return member.c.type == "object"
    if isinstance(value, (list, tuple)):
        found.add_all(member, "array", ((None, item) for item in value))
        return member.c.type == "array"
    if value is None or isinstance(value, bool):
        return member.c.type == {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):  # SQLite would read it as a float, and so take others for it
        written = type_coerce(within, Text).op("->")(member.c.fullkey)
        return and_(member.c.type == "integer", written == literal(str(value), Text))
    # SQLite reads decimals in its own way, so it has to read both.
    read = func.json_extract(orjson.dumps([value]).decode(), "$[0]")
    return and_(_is_number(member), member.c.value == read)
