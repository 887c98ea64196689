"""Functions as tools: the schema comes from the annotations, and arguments are checked."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from checkrail.agent.tools.docstring import docstring_of, summary_of, unwrap_function
from checkrail.agent.tools.threads import run_in_thread
from checkrail.agent.tools.tool import (
    Tool,
    ToolContext,
    ToolRefusedError,
    check_name,
    check_timeout,
)
from checkrail.engine.callables import is_async_callable

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class FunctionTool(Tool, Generic[P, R]):
    """A function that a model can call; for everybody else it is the function that it was.

    Async functions are awaited, others run in a thread, with the caller's context.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> None:
        from checkrail.agent.tools.parameters import Parameters

        self.name = _function_name(fn, name)
        _check_function(self.name, fn, timeout)
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.timeout = timeout
        self.description = summary_of(docstring_of(fn)) if description is None else description
        self._is_async = is_async_callable(fn)
        self._unbound = _is_method(fn)
        self._parameters = Parameters(self.name, fn, method=self._unbound)
        self.parameters = self._parameters.schema

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it is, with nothing checked."""
        return self.fn(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R],
        instance: object,
        owner: type | None = None,
    ) -> FunctionTool[Q, R]: ...

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the tool of one object, if this was made of a method in a class body."""
        if instance is None or not self._unbound:
            return self
        bound: Any = copy.copy(self)
        bound.fn = bound.__wrapped__ = types.MethodType(self.fn, instance)
        bound._unbound = False  # noqa: SLF001 - it is one of us
        return bound

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Check the arguments and call the function."""
        if self._unbound:
            remedy = f"Give the tool of an object: thing.{self.name}"
            raise ToolRefusedError(self.name, "it is a method, and has no object", remedy)
        positional, named = self._parameters.bind_arguments(args, context)
        call: Any = functools.partial(self.fn, *positional, **named)
        result = call() if self._is_async else await run_in_thread(call)
        return await result if inspect.isawaitable(result) else result


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    fn: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(fn: Any = None, /, **options: Any) -> Any:
    """Make a function a tool: `@tool`, `@tool(name=…, description=…, timeout=…)`, `tool(fn)`.

    The name is the function's and the description its docstring's first paragraph, unless said.
    A parameter annotated with `ToolContext` is given the context, and is not the model's to fill.
    """
    if fn is None:
        return functools.partial(tool, **options)
    if isinstance(fn, FunctionTool):
        known = {"name": fn.name, "description": fn.description, "timeout": fn.timeout}
        return FunctionTool(fn.fn, **(known | options))
    return FunctionTool(fn, **options)


def _function_name(fn: Any, said: str | None) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return said or getattr(fn, "__name__", None) or type(fn).__name__


def _check_function(name: str, fn: Any, timeout: Any) -> None:
    if not callable(fn) or isinstance(fn, (type, Tool)):
        kind = "a class" if isinstance(fn, type) else f"of type {type(fn).__name__}"
        remedy = f"Write @tool(name={fn!r})" if isinstance(fn, str) else "Give a function"
        raise ToolRefusedError(name, f"it is {kind}, and no function", remedy)
    check_name(name)
    check_timeout(name, timeout)
    made = unwrap_function(fn)
    if inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made):
        raise ToolRefusedError(name, "it is a generator", "Return a list instead")


def _is_method(fn: Any) -> bool:
    """Return whether a function was defined in the body of a class, and is not bound yet."""
    if not inspect.isfunction(fn):
        return False
    home = fn.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(fn).parameters), None)
    return first in ("self", "cls") and bool(home) and not home.endswith("<locals>")
