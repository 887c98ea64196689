"""Checking what goes into an agent and comes out of it, by its JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.builtin.schema_check import compiled
from checkrail.builtin.schema_work import LargeValueError
from checkrail.engine.frozen import thaw

_MOST = 20  # problems that are told of


class Checker:
    """A schema, ready to be asked. What it says of a value never repeats the value."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = thaw(schema)
        self._validator = compiled("schema", self.schema, "a schema")

    def problems(self, value: Any) -> list[dict[str, Any]]:
        """Tell what is wrong with a value: where, what, and what the schema says there."""
        try:
            errors = self._validator.find_errors(thaw(value))
        except LargeValueError as refusal:
            return [{"path": "", "message": str(refusal), "schema": {}}]
        found: list[dict[str, Any]] = []
        for error in errors:
            if len(found) == _MOST:
                break
            rule = [str(step) for step in error.schema_path]
            found.append(
                {
                    "path": "/".join(("", *map(str, error.instance_path))),
                    "message": error.message[:500],
                    "schema": {"/".join(rule): self._at(error.schema_path)},
                }
            )
        return found

    def wrong(self, value: Any, what: str) -> str | None:
        """Say in one line what is wrong with a value; None: nothing."""
        found = self.problems(value)
        if not found:
            return None
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        place = f" at {first['path']}" if first["path"] else ""
        return f"{what} not fit the schema{place}: {first['message']}{more}"

    def _at(self, path: list[Any]) -> Any:
        """Return what stands in the schema at a place."""
        found: Any = self.schema
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found
