"""Params and tools as Anthropic's messages API takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checkrail.agent.models.model import ModelError
from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def anthropic_params(
    request: ModelRequest, transform: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Write a request's params and tools; those with a name of Anthropic's own stay as they are.

    `transform` is what the SDK has to make a schema one that the API takes.
    """
    params: dict[str, Any] = thaw(request.params)
    stop = params.pop("stop", None)
    if stop:
        params.setdefault("stop_sequences", [stop] if isinstance(stop, str) else stop)
    choice = _choice(params.pop("tool_choice", None), params.pop("parallel_tool_calls", None))
    if request.tools:
        params["tools"] = [_tool(tool) for tool in thaw([*request.tools])]
        params |= {"tool_choice": choice} if choice else {}
    wanted = _format(params.pop("response_format", None), transform)
    if wanted:
        params["output_config"] = {**(params.get("output_config") or {}), "format": wanted}
    return params


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping):  # one of Anthropic's own, such as its web search
        return tool
    schema = {"type": "object"} | (function.get("parameters") or {})
    told = {name: function[name] for name in ("description", "strict") if function.get(name)}
    return {"name": function.get("name"), "input_schema": schema, **told}


def _choice(choice: Any, parallel: Any) -> dict[str, Any] | None:
    chosen = _chosen(choice)
    if parallel is False and (chosen is None or chosen.get("type") != "none"):
        return {"type": "auto"} | (chosen or {}) | {"disable_parallel_tool_use": True}
    return chosen


def _chosen(choice: Any) -> dict[str, Any] | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        return {"type": CHOICES.get(choice, choice)}
    function = choice.get("function")
    return {"type": "tool", "name": function["name"]} if function else dict(choice)


def _format(
    wanted: Any, transform: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    kind = wanted.get("type") if wanted else "text"
    if kind == "text":
        return None
    if kind != "json_schema":
        raise ModelError(
            f"Anthropic's API has no response_format {kind!r}: ask for a json_schema instead"
        )
    schema = wanted["json_schema"]["schema"]
    try:
        return {"type": "json_schema", "schema": transform(schema)}
    except (AssertionError, AttributeError, TypeError, ValueError):
        # The SDK knows less of JSON Schema than there is: the API is the better judge.
        return {"type": "json_schema", "schema": schema}
