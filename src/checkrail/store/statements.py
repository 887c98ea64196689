"""Statements that every run needs: compiled once, and then handed to the driver as they are.

SQLAlchemy finds its compiled form anew for each execution, and wraps what comes back. For these
few that costs more than the statement itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Dialect
from sqlalchemy.sql.base import Executable

from checkrail.store.database import Reads, Tx, to_dbapi_error

T = TypeVar("T")

Process = Callable[[Any], Any] | None
"""Makes of a value what a driver takes, or of what it gives a value; None: they are the same."""

Param = tuple[str, Process, Any]
"""Its name, how it is written, and its value where nobody gives one."""


class _CompiledStatement:
    """A statement in the words of one database, for one set of parameters."""

    def __init__(self, statement: Any, dialect: Dialect, given: tuple[str, ...]) -> None:
        made = statement.compile(dialect=dialect, column_keys=list(given))
        self.sql = str(made)
        self.positional: bool = made.positional
        names: Sequence[str] = made.positiontup if made.positional else [*made.binds]
        self.numbered = b""
        if dialect.name == "postgresql":
            from checkrail.store.wire import number_parameters  # psycopg, which SQLite lacks

            self.numbered, names = number_parameters(self.sql)
        unsaid = made.params.get
        self.params: list[Param] = [
            (
                name,
                _dialect_impl(made.binds[name].type, dialect).bind_processor(dialect),
                unsaid(name),
            )
            for name in names
        ]
        self._statement = statement
        self._dialect = dialect
        self._columns: list[Process] = []

    def bind(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the parameters as the driver takes them, in their order."""
        return [
            values.get(name, unsaid) if process is None else process(values.get(name, unsaid))
            for name, process, unsaid in self.params
        ]

    def execute(self, reads: Reads, bound: list[Any]) -> Any:
        """Execute it with its parameters, and return what has the answer."""
        if isinstance(reads, Tx):
            if reads.wire is not None:
                return reads.wire.execute(self.numbered, bound)
            cursor = reads.cursor
        else:
            cursor = reads.connection.cursor()
        if self.positional:
            cursor.execute(self.sql, bound)
        else:
            names = (name for name, _, _ in self.params)
            cursor.execute(self.sql, dict(zip(names, bound, strict=True)))
        return cursor

    def read_values(self, found: Sequence[Any], cursor: Any) -> list[Any]:
        """Return what a row of the driver has in each column, whose cursor describes it."""
        columns = self._columns or self._describe_columns(cursor.description)
        return [
            value if process is None else process(value)
            for process, value in zip(columns, found, strict=True)
        ]

    def _describe_columns(self, described: Sequence[Any]) -> list[Process]:
        dialect = self._dialect
        self._columns = [
            _dialect_impl(column.type, dialect).result_processor(dialect, told[1])
            for column, told in zip(self._statement.selected_columns, described, strict=True)
        ]
        return self._columns


def _dialect_impl(kind: Any, dialect: Dialect) -> Any:
    return kind.dialect_impl(dialect)


class PreparedStatement:
    """One statement."""

    def __init__(self, statement: Executable | Mapping[str, Executable]) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _CompiledStatement] = {}

    def run(self, reads: Reads, values: Mapping[str, Any]) -> Any:
        """Execute it and return the driver's cursor; names that are no parameters are set.

        The cursor is a transaction's only one: what it found is read before the next statement.
        """
        return self._execute(reads, values)[0]

    def find(self, reads: Reads, kind: type[T], values: Mapping[str, Any]) -> T | None:
        """Execute it and return the one row that it finds, whose columns are a dataclass's."""
        cursor, compiled = self._execute(reads, values)
        found = cursor.fetchall()
        return kind(*compiled.read_values(found[0], cursor)) if found else None

    def _execute(self, reads: Reads, values: Mapping[str, Any]) -> tuple[Any, _CompiledStatement]:
        key = (reads.dialect.name, *values)
        compiled = self._compiled.get(key) or self._compile(reads.dialect, key)
        bound = compiled.bind(values)
        try:
            return compiled.execute(reads, bound), compiled
        except Exception as error:
            raise to_dbapi_error(error, reads, compiled.sql) from error

    def _compile(self, dialect: Dialect, key: tuple[str, ...]) -> _CompiledStatement:
        one = self._statement
        statement = one[dialect.name] if isinstance(one, Mapping) else one
        made = self._compiled[key] = _CompiledStatement(statement, dialect, key[1:])
        return made
