"""Statements that every run needs: compiled once, and then handed to the driver as they are.

SQLAlchemy finds its compiled form anew for each execution, and wraps what comes back. For these
few that costs more than the statement itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.sql.base import Executable

from checkrail.store.database import Reads, Tx, wrapped
from checkrail.store.rows import Row

Process = Callable[[Any], Any] | None
"""Makes of a value what a driver takes, or of what it gives a value; None: they are the same."""

Param = tuple[str, Process, Any]
"""Its name, how it is written, and its value where nobody gives one."""


class _Compiled:
    """A statement in the words of one database, for one set of parameters."""

    def __init__(self, statement: Any, dialect: Dialect, given: tuple[str, ...]) -> None:
        made = statement.compile(dialect=dialect, column_keys=list(given))
        self.sql = str(made)
        self.positional: bool = made.positional
        names = made.positiontup if made.positional else made.binds
        unsaid = made.params.get
        self.params: list[Param] = [
            (name, _impl(made.binds[name].type, dialect).bind_processor(dialect), unsaid(name))
            for name in names
        ]
        self._statement = statement
        self._dialect = dialect
        self._columns: list[tuple[str, Process]] = []

    def bound(self, values: Mapping[str, Any]) -> Any:
        """Return the parameters as the driver takes them."""
        if self.positional:
            return [
                values.get(name, unsaid) if process is None else process(values.get(name, unsaid))
                for name, process, unsaid in self.params
            ]
        return {
            name: values.get(name, unsaid) if process is None else process(values.get(name, unsaid))
            for name, process, unsaid in self.params
        }

    def read(self, found: Sequence[Any], cursor: Any) -> Row:
        """Give a row of the driver, whose cursor describes it, as others know it."""
        columns = self._columns or self._described(cursor.description)
        return {
            name: value if process is None else process(value)
            for (name, process), value in zip(columns, found, strict=True)
        }

    def _described(self, described: Sequence[Any]) -> list[tuple[str, Process]]:
        dialect = self._dialect
        self._columns = [
            (column.name, _impl(column.type, dialect).result_processor(dialect, told[1]))
            for column, told in zip(self._statement.selected_columns, described, strict=True)
        ]
        return self._columns


def _impl(kind: Any, dialect: Dialect) -> Any:
    return kind.dialect_impl(dialect)


class Prepared:
    """One statement."""

    def __init__(self, statement: Executable | Mapping[str, Executable]) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def run(self, reads: Reads, values: Mapping[str, Any]) -> Any:
        """Execute it and give the driver's cursor; names that are no parameters are set.

        The cursor is a transaction's only one: what it found is read before the next statement.
        """
        return self._run(reads, values)[0]

    def row(self, reads: Reads, values: Mapping[str, Any]) -> Row | None:
        """Execute it and give the one row that it finds."""
        cursor, compiled = self._run(reads, values)
        found = cursor.fetchall()
        return compiled.read(found[0], cursor) if found else None

    def _run(self, reads: Reads, values: Mapping[str, Any]) -> tuple[Any, _Compiled]:
        key = (reads.dialect.name, *values)
        compiled = self._compiled.get(key) or self._compile(reads.dialect, key)
        params = compiled.bound(values)
        try:
            cursor = reads.cursor if isinstance(reads, Tx) else reads.connection.cursor()
            cursor.execute(compiled.sql, params)
        except Exception as error:
            raise wrapped(error, reads, compiled.sql) from error
        return cursor, compiled

    def _compile(self, dialect: Dialect, key: tuple[str, ...]) -> _Compiled:
        one = self._statement
        statement = one[dialect.name] if isinstance(one, Mapping) else one
        made = self._compiled[key] = _Compiled(statement, dialect, key[1:])
        return made
