"""Graphs by name: imported once, and opened with the server's checkpointer and store."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.actions.python import load as import_object
from checkrail.engine.errors import suggestion
from checkrail.runs.graphs.factories import (
    GraphAccess,
    GraphError,
    GraphFactory,
    open_graph,
    to_compiled,
)
from checkrail.runs.graphs.users import graph_user

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

__all__ = ["GraphError", "GraphSource", "Graphs", "UnknownGraphError", "load_graph"]

log = logging.getLogger("checkrail.runs.graphs")
Import: TypeAlias = Callable[[str, Path], Any]
_UNNAMED = "LangGraph"
"""What LangGraph calls a graph to which its author gave no name."""


class UnknownGraphError(LookupError):
    """There is no graph of that name. Those that are `known` are for who wrote the config."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(name)

    def __str__(self) -> str:
        if not self.known:
            return f"graph {self.name!r} not found. GET /agents lists the agents that you may see"
        there = ", ".join(self.known)
        near = suggestion(self.name, self.known)
        return f"graph {self.name!r} not found{near}. The config has: {there}"


@dataclass(frozen=True, slots=True)
class GraphSource:
    """Where a graph comes from: an import path, which is relative to `base` if it is a file."""

    name: str
    path: str
    base: Path


async def load_graph(source: GraphSource, imported: Import = import_object) -> Graph | GraphFactory:
    """Import a graph, or what makes one for each run."""
    found = imported(source.path, source.base)
    return await prepare_graph(found, source.name)


async def prepare_graph(found: Any, name: str) -> Graph | GraphFactory:
    """Return a project's graph, ready to run: compiled, not compiled yet, or a factory."""
    graph = to_compiled(found)
    if graph is not None:
        return graph
    if not callable(found) or isinstance(found, type):
        raise GraphError(name, f"it is {type(found).__name__}, neither a graph nor a factory")
    factory = GraphFactory.from_function(found, name)
    return await factory.build_shared() if factory.is_plain else factory


class Graphs:
    """The graphs of a server, each bound to the server's checkpointer and store."""

    def __init__(
        self,
        found: Mapping[str, Any],
        checkpointer: Any = None,
        store: Any = None,
    ) -> None:
        self._found = dict(found)
        self._bound: dict[str, Graph] = {}
        self._warned: set[str] = set()
        self._checkpointer = checkpointer
        self._store = store

    @classmethod
    async def load_all(
        cls,
        sources: Iterable[GraphSource],
        checkpointer: Any = None,
        store: Any = None,
        imported: Import = import_object,
    ) -> Graphs:
        """Import the graphs of a project."""
        found = {source.name: await load_graph(source, imported) for source in sources}
        return cls(found, checkpointer, store)

    @property
    def names(self) -> tuple[str, ...]:
        """What graphs there are, in the order of the config."""
        return tuple(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def update_from(self, other: Graphs) -> None:
        """Take over the graphs of another, as after a reload; runs keep what they opened."""
        self._found, self._bound = other._found, {}

    @asynccontextmanager
    async def open(
        self,
        name: str,
        config: Mapping[str, Any] | None = None,
        user: Any = None,
        *,
        access: str = "threads.create_run",
        context: Any = None,
    ) -> AsyncIterator[Graph]:
        """Yield a graph for one piece of work; a factory makes its own, and cleans up after it.

        `access` says what for, in the words of `langgraph_sdk.runtime`.
        """
        bound = self._bound.get(name)
        if bound is not None:
            yield bound
            return
        found = self._find(name)
        if not isinstance(found, GraphFactory):
            yield self._bound.setdefault(name, self._bind(name, found))
            return
        opening = GraphAccess(config or {}, graph_user(user), access, context, self._store)
        async with open_graph(found, opening) as graph:
            yield self._bind(name, graph)

    def _find(self, name: str) -> Any:
        found = self._found.get(name)
        if found is None:
            raise UnknownGraphError(name, self._found)
        if isinstance(found, GraphFactory):
            return found
        graph = to_compiled(found)
        if graph is None:
            raise GraphError(name, f"it is {type(found).__name__}, not a graph. Load it first")
        return graph

    def _bind(self, name: str, graph: Graph) -> Graph:
        """Copy a graph with the server's checkpointer and store; the project's own is untouched."""
        own = [key for key in ("checkpointer", "store") if getattr(graph, key) is not None]
        if own and name not in self._warned:
            self._warned.add(name)
            log.warning("graph %r has its own %s, the server's is used", name, " and ".join(own))
        serializer = getattr(self._checkpointer, "serde", None)
        if (allow_state := getattr(serializer, "allow_state", None)) is not None:
            allow_state(graph)
        update = {"checkpointer": self._checkpointer, "store": self._store}
        if graph.name == _UNNAMED:
            update["name"] = name
        return graph.copy(update=update)
