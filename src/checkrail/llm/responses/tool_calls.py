"""Items of the Responses API by which a model asks its caller to run something.

There are many types of them; hooks see each as one call of a tool, with a name and arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from checkrail.engine.values import plain
from checkrail.llm.json_bytes import to_json_text
from checkrail.llm.tool_arguments import json_object

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallType:
    """A type of item: which tool it calls, and where it keeps the arguments.

    Without a `tool` the item names it. The arguments are a JSON text, a free text (hooks see it as
    `input`), an object, or all the fields that are not about the item itself.
    """

    type: str
    style: Literal["json", "text", "object", "fields"]
    field: str = ""
    tool: str | None = None

    @property
    def output(self) -> str:
        """The type of the item that answers it."""
        return OUTPUTS.get(self.type) or f"{self.type}_output"

    @property
    def id(self) -> str:
        """The field by which its answer names it."""
        return "id" if self.type == APPROVAL else "call_id"


APPROVAL = "mcp_approval_request"
SEARCH = "tool_search_call"
FOUND = "tool_search_output"
OUTPUTS = {APPROVAL: "mcp_approval_response", SEARCH: FOUND}
FUNCTION = CallType("function_call", "json", "arguments")
CUSTOM = CallType("custom_tool_call", "text", "input")
CALLINGS = {
    calling.type: calling
    for calling in (
        FUNCTION,
        CUSTOM,
        CallType(APPROVAL, "json", "arguments"),
        CallType("local_shell_call", "object", "action", "local_shell"),
        CallType("shell_call", "object", "action", "shell"),
        CallType("apply_patch_call", "object", "operation", "apply_patch"),
        CallType(SEARCH, "object", "arguments", "tool_search"),
        CallType("computer_call", "fields", tool="computer"),
    )
}
OF_PROVIDER = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "web_search_call",
    }
)
"""Calls that the provider runs itself: nobody else can stop them."""

ABOUT_ITSELF = frozenset(
    {"type", "id", "call_id", "status", "name", "namespace", "caller", "created_by", "environment"}
)
"""Fields of an item that are no arguments."""


def find_call_type(item: Item) -> CallType | None:
    """Return how an item calls a tool that the caller is to run; None if it does not.

    A type that nobody knows is such a call if it is named like one and waits for an answer.
    """
    type_ = item.get("type")
    if not isinstance(type_, str) or type_ in OF_PROVIDER or is_run_by_provider(item):
        return None
    known = CALLINGS.get(type_)
    if known is not None or not (type_.endswith("_call") and item.get("call_id")):
        return known
    tool = None if isinstance(item.get("name"), str) else type_.removesuffix("_call")
    if isinstance(item.get("arguments"), str):
        return CallType(type_, "json", "arguments", tool)
    return CallType(type_, "fields", tool=tool)


def is_run_by_provider(item: Item) -> bool:
    """Return whether the provider runs a call that callers run elsewhere."""
    environment = item.get("environment")
    if isinstance(environment, Mapping) and item["type"] == "shell_call":
        return environment.get("type") == "container_reference"
    return item["type"] in (SEARCH, FOUND) and item.get("execution") == "server"


def call_id(item: Item, calling: CallType) -> str:
    """Return the id by which the answer to a call names it."""
    return str(item.get(calling.id) or item.get("id") or "")


def tool_name(item: Item, calling: CallType) -> str:
    """Return the name of the tool that an item calls, or an empty text."""
    return calling.tool or str(item.get("name") or "")


def read_arguments(item: Item, calling: CallType) -> Any:
    """Return the arguments of a call: an object, or a text that should be JSON."""
    match calling.style:
        case "fields":
            return {name: value for name, value in item.items() if name not in ABOUT_ITSELF}
        case "text":
            return {calling.field: item.get(calling.field) or ""}
        case _:
            return item.get(calling.field) or {}


def read_arguments_text(item: Item, calling: CallType) -> str:
    """Return the arguments of a call as a JSON text; what came as one stays as it is."""
    found = read_arguments(item, calling)
    return found if isinstance(found, str) else to_json_text(plain(found))


def rewrite_call(item: Item, calling: CallType, name: str, arguments: Any) -> dict[str, Any]:
    """Write another name or other arguments into a call: an object, or a text that may be JSON."""
    if calling.tool is not None and name != calling.tool:
        return build_call(FUNCTION, str(item.get("call_id") or ""), name, arguments)
    kept = dict(item)
    if calling.style == "fields":
        kept = {key: value for key, value in item.items() if key in ABOUT_ITSELF}
    named = kept | ({"name": name} if calling.tool is None else {})
    return named | _write_arguments(calling, arguments)


def build_call(calling: CallType, id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Write a call of which there is no item yet."""
    named = {"name": name} if calling.tool is None else {}
    return {"type": calling.type, calling.id: id, **named, **_write_arguments(calling, arguments)}


def _write_arguments(calling: CallType, arguments: Any) -> dict[str, Any]:
    given = plain(arguments)
    if calling.style == "json":
        return {calling.field: given if isinstance(given, str) else to_json_text(given)}
    try:
        found = json_object(given)
    except ValueError:
        found = {calling.field or "arguments": given}
    if calling.style == "fields":
        return found
    if calling.style == "object":
        return {calling.field: found}
    text = found.get(calling.field) if len(found) == 1 else None
    return {calling.field: text if isinstance(text, str) else to_json_text(found)}


def call_type_for(id: str, name: str, tools: Iterable[Any]) -> CallType:
    """Return by which type of item a tool is called, according to the tools of a request."""
    offered = {(tool.get("type"), tool.get("name")) for tool in tools if isinstance(tool, Mapping)}
    types = {type_ for type_, _ in offered}
    if id.startswith("mcpr_") and "mcp" in types:
        return CALLINGS[APPROVAL]
    if ("function", name) in offered:
        return FUNCTION
    if ("custom", name) in offered:
        return CUSTOM
    by_tool = (calling for calling in CALLINGS.values() if calling.tool == name in types)
    return next(by_tool, FUNCTION)
