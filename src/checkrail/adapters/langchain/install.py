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

from checkrail.adapters.langchain.endings import RunEnded
from checkrail.adapters.langchain.frames import ACTIVE
from checkrail.adapters.langchain.wrappers import MODEL_METHODS, TOOL_METHODS, Wrapper
from checkrail.engine.points import HookPoint

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
            _replace(BaseChatModel, name, _door)
        for name in ("invoke", "ainvoke"):
            _replace(BaseTool, name, _door)
        _spare_retries()
        _done.append(True)


def _cover_family(base: type, methods: dict[str, Wrapper]) -> None:
    for cls in _family(base):
        _cover_class(cls, methods)
    _cover_later(base, methods)


def _family(base: type) -> Iterator[type]:
    yield base
    further: list[type] = base.__subclasses__()
    for cls in further:
        yield from _family(cls)


def _cover_class(cls: type, methods: dict[str, Wrapper]) -> None:
    for name, wrapper in methods.items():
        raw = cls.__dict__.get(name)
        if raw is None or _marked(raw):
            continue
        if _is_empty(raw):
            setattr(raw, MARK, raw)
        else:
            _replace(cls, name, wrapper)


def _marked(raw: Any) -> bool:
    return getattr(raw, MARK, None) is raw


def _is_empty(raw: Any) -> bool:
    """Return whether a method is only there to be overridden: LangChain compares it by identity."""
    return bool(getattr(raw, "__isabstractmethod__", False)) or raw is _NO_STREAM


_NO_STREAM = BaseChatModel.__dict__["_stream"]


def _replace(cls: type, name: str, wrapper: Wrapper) -> None:
    raw = cls.__dict__[name]
    wrapped = wrapper(raw if callable(raw) and hasattr(raw, "__code__") else _called(raw))
    setattr(wrapped, MARK, wrapped)
    setattr(cls, name, wrapped)


def _called(raw: Any) -> Callable[..., Any]:
    """Make a method of what is none, such as a mock or a partial method."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = raw.__get__(self, type(self)) if hasattr(raw, "__get__") else raw
        return bound(*args, **kwargs)

    return method


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


def _door(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look, before a wrapped method is reached, whether it has been exchanged since."""

    @functools.wraps(original)
    def entered(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(_looked_at(self, original.__name__), *args, **kwargs)

    @functools.wraps(original)
    async def aentered(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await original(_looked_at(self, original.__name__), *args, **kwargs)

    return aentered if inspect.iscoroutinefunction(original) else entered


def _looked_at(thing: Any, door: str) -> Any:
    guard = ACTIVE.get()
    if guard is None:
        return thing
    _cover(thing)
    asking = door in CACHED and any(guard.scope.has(point) for point in ASKING)
    return _uncached(thing) if asking else thing


def _cover(thing: Any) -> None:
    """Cover methods that were set on a class, or on this instance, after the class was made."""
    methods = MODEL_METHODS if isinstance(thing, BaseChatModel) else TOOL_METHODS
    for name, wrapper in methods.items():
        own = vars(thing).get(name)
        if own is not None and not _marked(own):
            vars(thing)[name] = _covered(own, wrapper, thing)
        found = getattr(type(thing), name, None)
        if found is not None and not _marked(found):
            for cls in type(thing).__mro__:
                _cover_class(cls, {name: wrapper})


def _covered(own: Callable[..., Any], wrapper: Wrapper, thing: Any) -> Callable[..., Any]:
    wrapped = functools.partial(wrapper(lambda _self, *args, **kwargs: own(*args, **kwargs)), thing)
    setattr(wrapped, MARK, wrapped)
    return wrapped


def _uncached(model: Any) -> Any:
    """Return a chat model that is asked each time: a cache knows nothing of this run's hooks."""
    cached = isinstance(model.cache, BaseCache) or (
        model.cache is not False and get_llm_cache() is not None
    )
    return model.model_copy(update={"cache": False}) if cached else model


def _spare_retries() -> None:
    """Have `with_retry` not wait and try again where a hook has ended the run."""
    from tenacity import retry_if_exception_type, retry_if_not_exception_type

    before = RunnableRetry.__dict__["_kwargs_retrying"].fget

    def _kwargs_retrying(self: Any) -> dict[str, Any]:
        kwargs: dict[str, Any] = before(self)
        wanted = kwargs.get("retry") or retry_if_exception_type()
        return kwargs | {"retry": wanted & retry_if_not_exception_type(RunEnded)}

    RunnableRetry._kwargs_retrying = property(_kwargs_retrying)  # type: ignore[assignment,method-assign]  # noqa: SLF001
