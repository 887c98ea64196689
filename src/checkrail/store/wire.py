"""Statements over a connection to PostgreSQL, prepared once and executed as they are.

A cursor of psycopg looks at each statement and each parameter anew. For the few statements that
every run needs, that costs more than anything else that a server does with its database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as _Transformer
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus, Format

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PARAMETER = re.compile(r"%(?:\((\w+)\))?s|%%")
_WIRE = "checkrail_wire"
_GOOD = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


@lru_cache(maxsize=512)
def number_parameters(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbers for its parameters, and their names in that order.

    Those that have no names are called by their numbers.
    """
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found[1] or str(len(places))
        return f"${places.setdefault(name, len(places) + 1)}"

    written = _PARAMETER.sub(numbered, sql).encode()
    return written, tuple(places)


class Answer:
    """What a statement came to, as a cursor would tell it."""

    __slots__ = ("_result", "_transformer")

    def __init__(self, result: Any, transformer: Any) -> None:
        self._result = result
        self._transformer = transformer

    @property
    def rowcount(self) -> int:
        """How many rows were found or changed."""
        return int(self._result.command_tuples or 0)

    @property
    def description(self) -> list[tuple[None, int]]:
        """The type of each column, where a cursor has it."""
        return [(None, self._result.ftype(column)) for column in range(self._result.nfields)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        if not (count := self._result.ntuples):
            return []
        self._transformer.set_pgresult(self._result)
        rows: list[tuple[Any, ...]] = self._transformer.load_rows(0, count, tuple)
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row."""
        return next(iter(self.fetchall()), None)


class Wire:
    """Executes statements over one connection; nobody else uses it meanwhile."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        # Or psycopg would deallocate all that is prepared after each rollback, ours included.
        connection.prepare_threshold = None
        connection.execute("DEALLOCATE ALL")
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer: Any = _Transformer(connection)
        self._known: dict[bytes, bytes] = {}

    def execute(self, sql: bytes, values: Sequence[Any]) -> Answer:
        """Execute a statement, which waits for its answer without anything else."""
        given: list[Any] = []  # bytes, or None
        formats: list[int] | None = None  # all are text
        for value in values:
            kind = type(value)
            if kind is bytes:
                formats = formats or [Format.TEXT] * len(values)
                formats[len(given)] = Format.BINARY
                given.append(value)
            elif value is None:
                given.append(None)
            else:
                given.append(_DUMPS.get(kind, self._dump)(value))
        name = self._known.get(sql) or self._prepare(sql)
        result = self._pgconn.exec_prepared(name, given, formats)
        if result.status not in _GOOD:
            raise self._error(result)
        return Answer(result, self._transformer)

    def execute_named(self, sql: str, params: Sequence[Any] | Mapping[str, Any]) -> Answer:
        """Execute a statement that is written as for a cursor."""
        written, names = number_parameters(sql)
        values = [params[name] for name in names] if isinstance(params, Mapping) else params
        return self.execute(written, values)

    def _prepare(self, sql: bytes) -> bytes:
        name = b"checkrail_%d" % len(self._known)
        result = self._pgconn.prepare(name, sql)
        if result.status not in _GOOD:
            raise self._error(result)
        self._known[sql] = name
        return name

    def _dump(self, value: Any) -> bytes:
        """Write what is not plain as psycopg would."""
        dumped = self._transformer.get_dumper(value, PyFormat.TEXT).dump(value)
        return bytes(dumped or b"")

    def _error(self, result: Any) -> psycopg.Error:
        encoding = self._connection.info.encoding
        if result.error_field(DiagnosticField.SQLSTATE) is not None:
            return error_from_result(result, encoding=encoding)
        # The server has said nothing: libpq speaks, which may not know yet that nothing will come.
        said = result.get_error_message(encoding)
        self._connection.close()
        return psycopg.OperationalError(f"the connection is lost: {said}")


def wire_of(connection: Connection) -> Wire:
    """Return the wire of a connection, which knows what was prepared there before."""
    pooled = connection.connection
    if (known := pooled.info.get(_WIRE)) is None:
        driver: Any = pooled.driver_connection
        known = pooled.info[_WIRE] = Wire(driver)
    return cast("Wire", known)


def _dump_text(value: str) -> bytes:
    if "\0" in value:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return value.encode()


_DUMPS: dict[type, Callable[[Any], bytes]] = {
    str: _dump_text,
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    bool: lambda value: b"t" if value else b"f",
}
