"""Which types are built when a graph's state is read: those of its schemas, and of the config.

LangGraph writes custom types by name, and what stands in a database would otherwise be imported
and called when it is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.v1 import BaseModel as OldModel
from typing_extensions import is_typeddict

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent
    from langgraph.pregel import Pregel

log = logging.getLogger("checkrail.runs.graphs")

Key: TypeAlias = tuple[str, str]
"""A type as LangGraph names it: its module, and its name there."""

_ROOTS = (object, Enum, BaseModel, OldModel)
"""What everybody's types are made of: named in a schema, they stand for no type of their own."""


class StateSerializer(JsonPlusSerializer):
    """LangGraph's serializer, which builds its own safe types and those that are allowed.

    Anything else is read as the plain data that it was written with.
    """

    def __init__(self, types: Iterable[type] = ()) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._types: frozenset[Key] = frozenset()
        self._schemas: WeakSet[type] = WeakSet()
        self._reader = JsonPlusSerializer(allowed_msgpack_modules=None)
        self.allow(types)

    def allow(self, types: Iterable[type]) -> None:
        """Build these types too from now on."""
        more = self._types | {(each.__module__, each.__name__) for each in types}
        if more != self._types:
            self._types = more
            self._reader = JsonPlusSerializer(allowed_msgpack_modules=more)

    def allow_state(self, graph: Pregel[Any, Any, Any, Any]) -> None:
        """Build the types of a graph's state too; a factory makes the same graph many times."""
        graphs: list[Any] = [graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))]
        schemas = {schema for each in graphs for schema in _graph_schemas(each)}
        if not schemas or not schemas.issubset(self._schemas):
            self.allow(state_types(graphs))
            self._schemas.update(schemas)

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> StateSerializer:
        """Return itself: what is allowed is set by `allow`, once for all graphs."""
        del extra_allowlist
        return self

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read what was written."""
        return self._reader.loads_typed(data)


def state_types(graphs: Iterable[Any]) -> set[type]:
    """Return the data types that the schemas of graphs name."""
    walk = _TypeWalk()
    for each in graphs:
        for schema in _graph_schemas(each):
            walk.visit(schema)
        for channel in each.channels.values():
            walk.visit(getattr(channel, "ValueType", None))
            walk.visit(getattr(channel, "UpdateType", None))
    return walk.found


def _graph_schemas(graph: Any) -> Iterable[type]:
    """Return the schemas of a graph: of its state, its input and output, and its nodes' inputs."""
    return getattr(getattr(graph, "builder", None), "schemas", ())


class _TypeWalk:
    """Goes through annotations, and finds the data types that they name."""

    def __init__(self) -> None:
        self.found: set[type] = set()
        self._seen: dict[int, Any] = {}  # by id, for not all annotations have a hash

    def visit(self, named: Any) -> None:
        """Add the data types that a type or an annotation names, and what those are made of."""
        if id(named) in self._seen or any(named is root for root in _ROOTS):
            return
        self._seen[id(named)] = named
        if isinstance(named, type) and _is_data(named):
            self.found.add(named)
            subclasses: list[type] = type.__subclasses__(named)
            for each in subclasses:
                self.visit(each)
        for part in _annotation_parts(named):
            self.visit(part)


def _is_data(named: type) -> bool:
    """Whether a class holds data, in one of the forms that LangGraph writes by name."""
    return (
        issubclass(named, (Enum, BaseModel, OldModel, SecretStr, SecretBytes))
        or dataclasses.is_dataclass(named)
        or (issubclass(named, tuple) and hasattr(named, "_fields"))
    )


def _annotation_parts(named: Any) -> Iterator[Any]:
    """Yield what an annotation is made of: arguments, fields, bounds, or what it is a name for."""
    yield typing.get_origin(named)
    yield from typing.get_args(named)
    yield from (getattr(named, name, None) for name in ("__supertype__", "__bound__", "__value__"))
    yield from getattr(named, "__constraints__", ())
    if isinstance(named, type):
        yield from _field_types(named)


def _field_types(named: type) -> Iterator[Any]:
    """Yield the types of the fields of a class that holds data."""
    if issubclass(named, BaseModel):
        yield from (field.annotation for field in named.model_fields.values())
    elif issubclass(named, OldModel):
        yield from (field.outer_type_ for field in named.__fields__.values())
    elif is_typeddict(named) or hasattr(named, "_fields") or dataclasses.is_dataclass(named):
        with contextlib.suppress(Exception):  # it names what only type checkers import
            yield from typing.get_type_hints(named, include_extras=True).values()


@contextlib.contextmanager
def warn_of_unknown_types() -> Iterator[None]:
    """Log once of each type that is read as plain data what to add to the config."""
    known: set[Key] = set()

    def log_unknown(event: SerdeEvent) -> None:
        key = event["module"], event["name"]
        if event["kind"] == "msgpack_blocked" and key not in known and len(known) < 1000:
            known.add(key)
            log.warning(
                "a checkpoint holds %s.%s, which no schema of a graph names: it was read as plain "
                "data. If a graph needs the type, name it in the config: checkpointer.types: [%r]",
                *key,
                _type_reference(*key),
            )

    forget = register_serde_event_listener(log_unknown)
    try:
        yield
    finally:
        forget()


def _type_reference(module: str, name: str) -> str:
    """Return how the config names a type: a file that was loaded by its path, or a module."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return f"{file}:{name}" if file and module.startswith("checkrail_file_") else f"{module}:{name}"
