"""Factories: functions of a project that make a graph, for each piece of work or once."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.graphs.context import graph_context

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

EXECUTION = "threads.create_run"
_NAMES = {"config": "config", "runtime": "runtime"}


class GraphError(Exception):
    """What a project names as a graph is not one."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(name, problem)

    def __str__(self) -> str:
        return (
            f"the graph {self.name!r} cannot be used: {self.problem}. Name a compiled graph, a "
            "StateGraph, or a function that returns one"
        )


@dataclass(frozen=True, slots=True)
class GraphAccess:
    """What a graph is opened for, and for whom."""

    config: Mapping[str, Any]
    user: Any
    access: str
    context: Any
    store: Any


@dataclass(frozen=True, slots=True)
class GraphFactory:
    """A function that makes a graph, and which of its parameters takes what."""

    make: Callable[..., Any]
    name: str
    takes: Mapping[str, str]
    hints: Mapping[str, Any]

    @classmethod
    def from_function(cls, make: Callable[..., Any], name: str) -> GraphFactory:
        """Inspect what a factory takes: a config, a server's runtime, both or neither."""
        hints = _type_hints(make)
        takes = {}
        for parameter in _factory_parameters(make):
            takes[parameter.name] = _parameter_source(parameter, hints.get(parameter.name), name)
        return cls(make, name, takes, hints)

    @property
    def is_plain(self) -> bool:
        """Whether it takes nothing, so that one graph may serve all."""
        return not self.takes

    async def build_shared(self) -> Graph | GraphFactory:
        """Return the graph that serves all, unless there is something to clean up after it."""
        made = self.make()
        if _is_context_manager(made):
            return self
        return _require_graph(await made if inspect.isawaitable(made) else made, self.name)

    def call(self, opening: GraphAccess) -> Any:
        """Call the factory with the arguments that it takes."""
        given = {"config": opening.config, "runtime": None}
        if "runtime" in self.takes.values():
            parameter = next(key for key, what in self.takes.items() if what == "runtime")
            given["runtime"] = _build_runtime(opening, self.hints.get(parameter))
        return self.make(**{parameter: given[what] for parameter, what in self.takes.items()})


@asynccontextmanager
async def open_graph(factory: GraphFactory, opening: GraphAccess) -> AsyncIterator[Graph]:
    """Yield a graph that a factory makes, and clean up after it if the factory does."""
    made = factory.call(opening)
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with made as graph:
            yield _require_graph(graph, factory.name)
    elif isinstance(made, AbstractContextManager):
        with made as graph:
            yield _require_graph(graph, factory.name)
    else:
        yield _require_graph(made, factory.name)


def to_compiled(found: Any) -> Graph | None:
    """Return a graph that is ready to run, if it is one or can be compiled to one."""
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    if isinstance(found, StateGraph):
        return found.compile()
    return found if isinstance(found, Pregel) else None


def _require_graph(made: Any, name: str) -> Graph:
    graph = to_compiled(made)
    if graph is None:
        raise GraphError(name, f"its factory returned {type(made).__name__}")
    return graph


def _is_context_manager(made: Any) -> bool:
    return isinstance(made, (AbstractAsyncContextManager, AbstractContextManager))


def _factory_parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that have to be given, and those for what a server has."""
    found = inspect.signature(make).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter
        for parameter in found
        if parameter.kind not in variadic
        and (parameter.default is parameter.empty or parameter.name in _NAMES)
    ]


def _type_hints(make: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(make))
    except Exception:  # noqa: BLE001 - hints may name what exists for type checkers only
        return dict(getattr(inspect.unwrap(make), "__annotations__", {}))


def _parameter_source(parameter: inspect.Parameter, hint: Any, name: str) -> str:
    """Return what a parameter takes, by its annotation, else by its name, else the config."""
    said = str(getattr(hint, "__name__", "")) + str(hint)
    if any(word in said for word in ("ServerRuntime", "_ExecutionRuntime", "_ReadRuntime")):
        return "runtime"
    if "RunnableConfig" in said:
        return "config"
    if parameter.name in _NAMES:
        return _NAMES[parameter.name]
    if hint is None or hint in (dict, typing.Any) or str(hint).startswith(("dict", "typing.Dict")):
        return "config"
    problem = f"its factory takes {parameter.name!r}, and a server has a config and a runtime only"
    raise GraphError(name, problem)


def _build_runtime(opening: GraphAccess, hint: Any) -> Any:
    from langgraph_sdk import runtime

    told: dict[str, Any] = {
        "access_context": opening.access,
        "user": opening.user,
        "store": opening.store,
    }
    if opening.access != EXECUTION:
        return runtime._ReadRuntime(**told)  # noqa: SLF001 - it has no public way to be made
    context = _typed_context(opening.context, hint)
    return runtime._ExecutionRuntime(**told, context=context)  # noqa: SLF001 - see above


def _typed_context(given: Any, hint: Any) -> Any:
    """Return the context as the type that the factory's runtime is annotated with."""
    kinds = typing.get_args(hint)
    if not kinds or isinstance(kinds[0], typing.TypeVar):
        return given
    context = graph_context(kinds[0], given)
    if context is None:
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(kinds[0]).validate_python(context)
