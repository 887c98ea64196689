"""What takes the place of the methods: outside of a run the method itself, inside its plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from checkrail.adapters.langchain import steps
from checkrail.adapters.langchain.answers import Chunks, Events, Form, Whole
from checkrail.adapters.langchain.frames import ACTIVE, MODEL, TOOL
from checkrail.adapters.langchain.model_calls import ModelCall, name_of, read_arguments
from checkrail.adapters.langchain.model_plan import Asked, model_plan
from checkrail.adapters.langchain.requests import request_of
from checkrail.adapters.langchain.tool_plan import Called, tool_plan
from checkrail.engine.values import plain

Method = Callable[..., Any]
Wrapper = Callable[[Method], Method]


def _model_course(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], form: Form
) -> steps.Course | None:
    """Return the course of a model call, or None if there is nothing to guard."""
    guard = ACTIVE.get()
    if guard is None:
        return None
    messages, options = read_arguments(args, kwargs)
    name = name_of(model, options)
    frame = MODEL.get()
    if frame is not None and frame.same(guard, model, name, messages):
        return None
    streams = not isinstance(form, Whole)
    call = ModelCall(model, messages, options, name, streams)
    journal = guard.journal
    slot = None if journal is None else journal.open(lambda: request_of(call), form)
    return steps.Course(model_plan(guard, call, form, slot), guard, slot)


def _ask(original: Method) -> Callable[[Asked], Any]:
    def perform(asked: Asked) -> Any:
        call = asked.call
        return original(call.model, call.messages, **call.options)

    return perform


def generate(original: Method) -> Method:
    """Wrap a method that blocks until a model has answered."""
    perform = _ask(original)

    @functools.wraps(original)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _model_course(self, args, kwargs, Whole())
        if course is None:
            return original(self, *args, **kwargs)
        return steps.run_sync(course, perform)

    return guarded


def agenerate(original: Method) -> Method:
    """Wrap a method that is awaited until a model has answered."""
    perform = _ask(original)

    @functools.wraps(original)
    async def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _model_course(self, args, kwargs, Whole())
        if course is None:
            return await original(self, *args, **kwargs)
        return await steps.run(course, perform)

    return guarded


def streaming(drive: Callable[[steps.Course, Method], Any], form: Callable[[], Form]) -> Wrapper:
    """Make the wrapper of methods that give an answer piece by piece."""

    def wrapper(original: Method) -> Method:
        perform = _ask(original)

        @functools.wraps(original)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            course = _model_course(self, args, kwargs, form())
            if course is None:
                return original(self, *args, **kwargs)
            return drive(course, perform)

        return guarded

    return wrapper


def _tool_course(
    tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[steps.Course, tuple[Any, ...], dict[str, Any]] | None:
    guard = ACTIVE.get()
    if guard is None:
        return None
    rest, more = args[1:], dict(kwargs)
    given = args[0] if args else more.pop("tool_input", None)
    call_id, frame = more.get("tool_call_id"), TOOL.get()
    if frame is not None and frame.same(guard, tool, call_id, given):
        return None
    journal = guard.journal
    asked = [tool.name, call_id, plain(given)]
    slot = None if journal is None else journal.open(lambda: asked)
    course = steps.Course(tool_plan(guard, tool, given, call_id, slot), guard, slot)
    return course, rest, more


def run(original: Method) -> Method:
    """Wrap a method that blocks until a tool is done."""

    @functools.wraps(original)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _tool_course(self, args, kwargs)
        if found is None:
            return original(self, *args, **kwargs)
        course, rest, more = found

        def perform(called: Called) -> Any:
            return original(self, called.given, *rest, **more)

        return steps.run_sync(course, perform)

    return guarded


def arun(original: Method) -> Method:
    """Wrap a method that is awaited until a tool is done."""

    @functools.wraps(original)
    async def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _tool_course(self, args, kwargs)
        if found is None:
            return await original(self, *args, **kwargs)
        course, rest, more = found

        async def perform(called: Called) -> Any:
            return await original(self, called.given, *rest, **more)

        return await steps.run(course, perform)

    return guarded


MODEL_METHODS: dict[str, Wrapper] = {
    "_generate": generate,
    "_agenerate": agenerate,
    "_stream": streaming(steps.stream_sync, Chunks),
    "_astream": streaming(steps.stream, Chunks),
    "_stream_chat_model_events": streaming(steps.stream_sync, Events),
    "_astream_chat_model_events": streaming(steps.stream, Events),
}
TOOL_METHODS: dict[str, Wrapper] = {"run": run, "arun": arun}
