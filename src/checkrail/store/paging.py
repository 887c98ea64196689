"""Pages by bytes: as many rows as fit, so that one who reads slowly holds little of a table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, func, select

PAGE_BYTES = 1024 * 1024
"""What a page has at most, but for its last row."""


def within_bytes(
    rows: Select[Any], key: ColumnElement[Any], value: ColumnElement[Any]
) -> Select[Any]:
    """Return the keys of the first rows whose values have less than `bytes`, at least one.

    They are counted in the order of their keys, and there are no more than `rows`: both are
    parameters of the query.
    """
    size = func.length(value, type_=BigInteger)
    before = func.sum(size, type_=BigInteger).over(order_by=key, rows=(None, 0)) - size
    page = rows.with_only_columns(key.label("key"), before.label("before"))
    counted = page.order_by(key).limit(bindparam("rows")).subquery()
    return select(counted.c.key).where(counted.c.before < bindparam("bytes"))
