"""Putting the seam in: methods of chat models and tools, wrapped once for each class."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.retry import RunnableRetry
from langchain_core.tools import BaseTool

from checkrail.adapters.langchain.answers import ChunkedAnswers, EventAnswers, Form, WholeAnswers
from checkrail.adapters.langchain.frames import ACTIVE, MODEL, TOOL
from checkrail.adapters.langchain.model_calls import ModelCall, name_of, read_arguments
from checkrail.adapters.langchain.model_plan import ModelCallStep, model_plan
from checkrail.adapters.langchain.plans import (
    PlanExecution,
    run_plan,
    run_plan_sync,
    stream_plan,
    stream_plan_sync,
)
from checkrail.adapters.langchain.requests import request_of
from checkrail.adapters.langchain.run_endings import RunEnded
from checkrail.adapters.langchain.tool_plan import ToolCallStep, tool_plan
from checkrail.engine.points import HookPoint
from checkrail.engine.values import plain

Method = Callable[..., Any]
Wrapper = Callable[[Method], Method]


def _start_model_plan(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], form: Form
) -> PlanExecution | None:
    """Start the plan of a model call; return None if there is nothing to guard."""
    guard = ACTIVE.get()
    if guard is None:
        return None
    messages, options = read_arguments(args, kwargs)
    name = name_of(model, options)
    frame = MODEL.get()
    if frame is not None and frame.is_same_call(guard, model, name, messages):
        return None
    streams = not isinstance(form, WholeAnswers)
    call = ModelCall(model, messages, options, name, streams)
    journal = guard.journal
    slot = None if journal is None else journal.open_entry(lambda: request_of(call), form)
    return PlanExecution(model_plan(guard, call, form, slot), guard, slot)


def _build_performer(original: Method) -> Callable[[ModelCallStep], Any]:
    def perform(asked: ModelCallStep) -> Any:
        call = asked.call
        return original(call.model, call.messages, **call.options)

    return perform


def wrap_generate(original: Method) -> Method:
    """Wrap a method that blocks until a model has answered."""
    perform = _build_performer(original)

    @functools.wraps(original)
    def call_guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _start_model_plan(self, args, kwargs, WholeAnswers())
        if course is None:
            return original(self, *args, **kwargs)
        return run_plan_sync(course, perform)

    return call_guarded


def wrap_agenerate(original: Method) -> Method:
    """Wrap a method that is awaited until a model has answered."""
    perform = _build_performer(original)

    @functools.wraps(original)
    async def call_guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _start_model_plan(self, args, kwargs, WholeAnswers())
        if course is None:
            return await original(self, *args, **kwargs)
        return await run_plan(course, perform)

    return call_guarded


def wrap_stream(drive: Callable[[PlanExecution, Method], Any], form: Callable[[], Form]) -> Wrapper:
    """Build the wrapper of methods that return an answer piece by piece."""

    def wrapper(original: Method) -> Method:
        perform = _build_performer(original)

        @functools.wraps(original)
        def call_guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            course = _start_model_plan(self, args, kwargs, form())
            if course is None:
                return original(self, *args, **kwargs)
            return drive(course, perform)

        return call_guarded

    return wrapper


def _start_tool_plan(
    tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[PlanExecution, tuple[Any, ...], dict[str, Any]] | None:
    guard = ACTIVE.get()
    if guard is None:
        return None
    rest, more = args[1:], dict(kwargs)
    given = args[0] if args else more.pop("tool_input", None)
    call_id, frame = more.get("tool_call_id"), TOOL.get()
    if frame is not None and frame.is_same_call(guard, tool, call_id, given):
        return None
    journal = guard.journal
    asked = [tool.name, call_id, plain(given)]
    slot = None if journal is None else journal.open_entry(lambda: asked)
    course = PlanExecution(tool_plan(guard, tool, given, call_id, slot), guard, slot)
    return course, rest, more


def wrap_run(original: Method) -> Method:
    """Wrap a method that blocks until a tool is done."""

    @functools.wraps(original)
    def call_guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _start_tool_plan(self, args, kwargs)
        if found is None:
            return original(self, *args, **kwargs)
        course, rest, more = found

        def perform(called: ToolCallStep) -> Any:
            return original(self, called.given, *rest, **more)

        return run_plan_sync(course, perform)

    return call_guarded


def wrap_arun(original: Method) -> Method:
    """Wrap a method that is awaited until a tool is done."""

    @functools.wraps(original)
    async def call_guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _start_tool_plan(self, args, kwargs)
        if found is None:
            return await original(self, *args, **kwargs)
        course, rest, more = found

        async def perform(called: ToolCallStep) -> Any:
            return await original(self, called.given, *rest, **more)

        return await run_plan(course, perform)

    return call_guarded


MODEL_METHODS: dict[str, Wrapper] = {
    "_generate": wrap_generate,
    "_agenerate": wrap_agenerate,
    "_stream": wrap_stream(stream_plan_sync, ChunkedAnswers),
    "_astream": wrap_stream(stream_plan, ChunkedAnswers),
    "_stream_chat_model_events": wrap_stream(stream_plan_sync, EventAnswers),
    "_astream_chat_model_events": wrap_stream(stream_plan, EventAnswers),
}
TOOL_METHODS: dict[str, Wrapper] = {"run": wrap_run, "arun": wrap_arun}


MARK = "__checkrail__"
"""Set on every function that is wrapped, to itself: a copy of its attributes is no wrapping."""

DOORS = ("stream", "astream", "_iter_v2_events", "_aiter_v2_events")
CACHED = ("_generate_with_cache", "_agenerate_with_cache")
"""The methods of LangChain by which the wrapped ones are reached."""

ASKING = (HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL)

_lock = threading.RLock()
_done: list[bool] = []


def install() -> None:
    """Wrap what has to be, once: it does nothing until a guard is active."""
    if _done:
        return
    with _lock:
        if _done:
            return
        _cover_family(BaseChatModel, MODEL_METHODS)
        _cover_family(BaseTool, TOOL_METHODS)
        for name in (*DOORS, *CACHED):
            _wrap_method(BaseChatModel, name, _wrap_entry)
        for name in ("invoke", "ainvoke"):
            _wrap_method(BaseTool, name, _wrap_entry)
        _spare_retries()
        _done.append(True)


def _cover_family(base: type, methods: dict[str, Wrapper]) -> None:
    for cls in _iter_subclasses(base):
        _cover_class(cls, methods)
    _cover_later(base, methods)


def _iter_subclasses(base: type) -> Iterator[type]:
    yield base
    further: list[type] = base.__subclasses__()
    for cls in further:
        yield from _iter_subclasses(cls)


def _cover_class(cls: type, methods: dict[str, Wrapper]) -> None:
    for name, wrapper in methods.items():
        raw = cls.__dict__.get(name)
        if raw is None or _is_marked(raw):
            continue
        if _is_empty(raw):
            setattr(raw, MARK, raw)
        else:
            _wrap_method(cls, name, wrapper)


def _is_marked(raw: Any) -> bool:
    return getattr(raw, MARK, None) is raw


def _is_empty(raw: Any) -> bool:
    """Return whether a method is only there to be overridden: LangChain compares it by identity."""
    return bool(getattr(raw, "__isabstractmethod__", False)) or raw is _NO_STREAM


_NO_STREAM = BaseChatModel.__dict__["_stream"]


def _wrap_method(cls: type, name: str, wrapper: Wrapper) -> None:
    raw = cls.__dict__[name]
    wrapped = wrapper(raw if callable(raw) and hasattr(raw, "__code__") else _to_method(raw))
    setattr(wrapped, MARK, wrapped)
    setattr(cls, name, wrapped)


def _to_method(raw: Any) -> Callable[..., Any]:
    """Return a method for what is not a function, such as a mock or a partial method."""

    def call_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = raw.__get__(self, type(self)) if hasattr(raw, "__get__") else raw
        return bound(*args, **kwargs)

    return call_method


def _cover_later(base: Any, methods: dict[str, Wrapper]) -> None:
    """Cover the classes that are still to be defined."""
    before = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: type, /, **kwargs: Any) -> None:  # noqa: N807 - it is that method
        if before is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            before.__func__(cls, **kwargs)
        _cover_class(cls, methods)

    base.__init_subclass__ = classmethod(__init_subclass__)


def _wrap_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a public method, so that methods set since then are covered before it runs."""

    @functools.wraps(original)
    def call_covered(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(_ensure_covered(self, original.__name__), *args, **kwargs)

    @functools.wraps(original)
    async def acall_covered(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await original(_ensure_covered(self, original.__name__), *args, **kwargs)

    return acall_covered if inspect.iscoroutinefunction(original) else call_covered


def _ensure_covered(thing: Any, door: str) -> Any:
    guard = ACTIVE.get()
    if guard is None:
        return thing
    _cover_instance(thing)
    asking = door in CACHED and any(guard.scope.has(point) for point in ASKING)
    return _without_cache(thing) if asking else thing


def _cover_instance(thing: Any) -> None:
    """Cover methods that were set on a class, or on this instance, after the class was made."""
    methods = MODEL_METHODS if isinstance(thing, BaseChatModel) else TOOL_METHODS
    for name, wrapper in methods.items():
        own = vars(thing).get(name)
        if own is not None and not _is_marked(own):
            vars(thing)[name] = _wrap_instance_method(own, wrapper, thing)
        found = getattr(type(thing), name, None)
        if found is not None and not _is_marked(found):
            for cls in type(thing).__mro__:
                _cover_class(cls, {name: wrapper})


def _wrap_instance_method(
    own: Callable[..., Any], wrapper: Wrapper, thing: Any
) -> Callable[..., Any]:
    wrapped = functools.partial(wrapper(lambda _self, *args, **kwargs: own(*args, **kwargs)), thing)
    setattr(wrapped, MARK, wrapped)
    return wrapped


def _without_cache(model: Any) -> Any:
    """Return the chat model without its cache, which knows nothing of this run's hooks."""
    cached = isinstance(model.cache, BaseCache) or (
        model.cache is not False and get_llm_cache() is not None
    )
    return model.model_copy(update={"cache": False}) if cached else model


def _spare_retries() -> None:
    """Keep `with_retry` from repeating a call where a hook has ended the run."""
    from tenacity import retry_if_exception_type, retry_if_not_exception_type

    before = RunnableRetry.__dict__["_kwargs_retrying"].fget

    def _kwargs_retrying(self: Any) -> dict[str, Any]:
        kwargs: dict[str, Any] = before(self)
        wanted = kwargs.get("retry") or retry_if_exception_type()
        return kwargs | {"retry": wanted & retry_if_not_exception_type(RunEnded)}

    RunnableRetry._kwargs_retrying = property(_kwargs_retrying)  # type: ignore[assignment,method-assign]  # noqa: SLF001
