"""`route_model`: has another model asked, by rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of, text_of
from checkrail.builtin.dimensions import DIMENSIONS
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ModelRequest

if TYPE_CHECKING:
    from checkrail.builtin.options import Route, RouteModelOptions

Test = Callable[[Event[Any], ModelRequest], bool]


def build(options: RouteModelOptions) -> Callable[[Event[Any], ModelRequest], Continue | None]:
    """Build the hook."""
    rules = [(rule, _build_tests(rule)) for rule in options.rules]

    def route_model(event: Event[Any], request: ModelRequest) -> Continue | None:
        request = BUILTIN.expect_value(event, request, ModelRequest)
        for rule, tests in rules:
            if all(test(event, request) for test in tests):
                return _route_request(request, rule)
        return None

    return route_model


def _route_request(request: ModelRequest, rule: Route) -> Continue | None:
    prefix, slash, _ = rule.to.partition("/")
    provider = rule.provider or (prefix if slash else request.provider)
    if (request.model, request.provider) == (rule.to, provider):
        return None
    return Continue(dataclasses.replace(request, model=rule.to, provider=provider))


def _build_tests(rule: Route) -> list[Test]:
    tests: list[Test] = []
    if rule.models is not None:
        tests.append(_build_name_test(DIMENSIONS["model"], rule.models))
    if rule.users is not None:
        tests.append(_build_name_test(DIMENSIONS["user"], rule.users))
    if isinstance(rule.tools, bool):
        wanted = rule.tools
        tests.append(lambda _event, request: bool(request.tools) is wanted)
    elif rule.tools is not None:
        offered = any_of(rule.tools)
        tests.append(lambda _event, request: any(map(offered, tool_names(request.tools))))
    if rule.max_characters is not None:
        most = rule.max_characters
        tests.append(lambda _event, request: count_characters(request.messages) <= most)
    return tests


def _build_name_test(read: Callable[[Event[Any]], str | None], patterns: list[str]) -> Test:
    fits = any_of(patterns)

    def test(event: Event[Any], _request: ModelRequest) -> bool:
        found = read(event)
        return found is not None and fits(found)

    return test


def tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the tools of a request; one that has none is known by its type."""
    found = []
    for tool in tools:
        function = tool.get("function")
        named = function if isinstance(function, Mapping) else tool
        found.append(str(named.get("name") or tool.get("type") or ""))
    return found


def count_characters(messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the text of a conversation: what was said, and the arguments of tool calls."""
    return sum(
        len(text_of(message.get("content"), ""))
        + sum(map(_arguments_length, message.get("tool_calls") or ()))
        for message in messages
    )


def _arguments_length(call: Any) -> int:
    function = call.get("function") if isinstance(call, Mapping) else None
    return len(str(function.get("arguments") or "")) if isinstance(function, Mapping) else 0


BUILTIN = Builtin(
    name="route_model",
    summary="has another model asked than the one that was named, by the first rule that holds",
    points=(HookPoint.BEFORE_LLM_CALL,),
    lane=Lane.TRANSFORM,
    build=build,
    example={"rules": [{"models": ["gpt-5"], "max_characters": 2000, "to": "gpt-5-mini"}]},
    reads=(ModelRequest,),
)


def route_model(event: Event[Any], request: ModelRequest) -> Continue | None:
    """Set another model in a request if a rule matches."""
    return BUILTIN.hook_for(event)(event, request)  # type: ignore[no-any-return]
