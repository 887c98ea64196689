"""`provider_tools`: says which tools a provider may run itself."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from checkrail.builtin.base import Builtin, any_of, on_one_line
from checkrail.engine.event import Event
from checkrail.engine.matchers import LONGEST_NAME
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.other_fields import ITEM_FIELDS

if TYPE_CHECKING:
    from checkrail.builtin.options import ProviderToolsOptions

Judged = Block | Continue | None

MCP = "mcp"
WEB_SEARCH = "web_search"
CODE = "code_execution"

_OF_CALLER = frozenset({"function", "custom"})
_RUN_BY_CALLER = frozenset({"bash", "text_editor", "memory", "local_shell", "apply_patch"})
_LISTS_OF_CALLER = frozenset({"function_declarations", "functiondeclarations"})
_GROUPS = frozenset({"namespace"})
"""Types of tools that only hold others."""

_VERSION = re.compile(r"(_use)?(_preview)?(_(latest|\d{4}_\d\d_\d\d|\d{8}))?$")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+(:\d+)?(/[^\s\\@]*)?", re.IGNORECASE)

_FAMILIES = {
    "$web_search": WEB_SEARCH,
    "web": WEB_SEARCH,
    "browser_search": WEB_SEARCH,
    "enterprise_web_search": WEB_SEARCH,
    "google_search": WEB_SEARCH,
    "google_search_image": WEB_SEARCH,
    "google_search_retrieval": WEB_SEARCH,
    "google_search_web": WEB_SEARCH,
    "search": WEB_SEARCH,
    "url_context": "web_fetch",
    "bash_code_execution": CODE,
    "code_interpreter": CODE,
    "python": CODE,
    "text_editor_code_execution": CODE,
    "retrieval": "file_search",
}
"""What providers call the same thing."""

_SWITCHES = ("web_search_options", "search_parameters", "enable_search")
"""Parameters that switch a search of the web on."""

_LISTED = {"mcp_servers": "", "plugins": "id", "connectors": "id"}
"""Parameters that list tools, and the field that names each."""

_SEARCHING = re.compile(r":online$|-search-preview|-search-api|deep-research", re.IGNORECASE)
"""Names of models that search the web unasked."""

_EXECUTED = "executed_tools"

_PARTS = {"executableCode": CODE, "codeExecutionResult": CODE}
"""Parts of an answer that tell of one tool alone, and that tool."""

_CALLS = ("toolCall", "toolResponse")
"""Parts of an answer that name a tool as their `toolType`."""

_USED = {"url_context_metadata": "web_fetch", "url_retrieval_metadata": "web_fetch"}
_GROUNDED = {
    "grounding_chunks.image": WEB_SEARCH,
    "grounding_chunks.maps": "google_maps",
    "grounding_chunks.retrieved_context": "file_search",
    "grounding_chunks.web": WEB_SEARCH,
    "retrieval_queries": "file_search",
    "search_entry_point": WEB_SEARCH,
    "web_search_queries": WEB_SEARCH,
}
"""What stands beside the texts of an answer when a tool was used, in `grounding_metadata` too."""


def build(options: ProviderToolsOptions) -> Callable[[Event[Any], Any], Judged]:
    """Build the hook."""
    denies = _build_test(options)

    def provider_tools(event: Event[Any], value: Any) -> Judged:
        sieve = Sieve(denies)
        left = _strip(sieve, event, value)
        refused = sieve.fixed or (sieve.denied if options.on_denied == "block" else ())
        if refused:
            why = f"the provider's tool {on_one_line(refused[0].names[0])!r} is not allowed"
            return Block(options.reason or why, options.status, "tool_not_allowed")
        return None if left is value else Continue(left)

    return provider_tools


def _strip(sieve: Sieve, event: Event[Any], value: Any) -> ModelRequest | AssistantMessage:
    if isinstance(value, ModelRequest):
        return sieve.strip_request(value)
    return sieve.strip_answer(BUILTIN.expect_value(event, value, AssistantMessage))


def _build_test(options: ProviderToolsOptions) -> Denies:
    denied = any_of(options.deny)
    allowed = None if options.allow is None else any_of(options.allow)
    some_servers = any(pattern.startswith(f"{MCP}:") for pattern in options.allow or ())

    def denies(tool: ProviderTool) -> bool:
        if any(len(name) > LONGEST_NAME for name in tool.names) or any(map(denied, tool.names)):
            return True
        if allowed is None or (tool.is_mcp_label and some_servers):
            return False
        return not any(map(allowed, tool.own_names))

    return denies


BUILTIN = Builtin(
    name="provider_tools",
    summary="blocks or takes out tools that the provider would run itself, such as web search",
    points=(HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL),
    lane=Lane.TRANSFORM,
    build=build,
    example={"allow": ["web_search", "mcp:*.example.com"], "on_denied": "strip"},
    closed=True,
    reads=(ModelRequest, AssistantMessage),
)


def provider_tools(event: Event[Any], value: Any) -> Judged:
    """Refuse or take out a provider's own tools that may not be used."""
    return BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ProviderTool:
    """A tool of a provider: all its names, and those that the caller has not chosen.

    An answer tells of an MCP server only what its caller calls it.
    """

    names: tuple[str, ...]
    own_names: tuple[str, ...]
    is_mcp_label: bool = False


Denies = Callable[[ProviderTool], bool]


@dataclass(slots=True)
class Sieve:
    """Takes out the tools of a provider that are denied; `fixed` are those that cannot be."""

    denies: Denies
    denied: list[ProviderTool] = dataclasses.field(default_factory=list)
    fixed: list[ProviderTool] = dataclasses.field(default_factory=list)

    def strip_request(self, request: ModelRequest) -> ModelRequest:
        """Return a request without the tools that are denied; the same if there are none."""
        if _SEARCHING.search(request.model or ""):
            self._keep(_named(WEB_SEARCH), fixed=True)
        servers = _mcp_servers(request)
        tools = self._strip_tools(request.tools, servers)
        params = {
            name: left
            for name, given in request.params.items()
            if (left := self._strip_param(name, given)) is not None
        }
        if not self.denied:
            return request
        if not _is_choice_left(params.get("tool_choice"), self.denied):
            del params["tool_choice"]
        return dataclasses.replace(request, tools=tools, params=params)

    def strip_answer(self, message: AssistantMessage) -> AssistantMessage:
        """Return an answer without the calls of denied tools, and without what came of them."""
        for fields in _answer_fields(message):
            for tool in _executed_tools(fields):
                self._keep(tool, fixed=True)
        for tool in _used_tools(message.metadata.get(ITEM_FIELDS)):
            self._keep(tool, fixed=True)
        if isinstance(message.content, str):
            return message
        content = [part for part in message.content if self._keeps(find_called_tool(part))]
        same = len(content) == len(message.content)
        return message if same else dataclasses.replace(message, content=content)

    def _keeps(self, tool: ProviderTool | None) -> bool:
        return tool is None or self._keep(tool)

    def _keep(self, tool: ProviderTool, *, fixed: bool = False) -> bool:
        denied = self.denies(tool)
        if denied:
            (self.fixed if fixed else self.denied).append(tool)
        return not denied

    def _strip_tools(self, tools: Sequence[Any], servers: Mapping[str, Any]) -> list[Any]:
        left = []
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(inner := tool.get("tools"), list | tuple):
                kept = self._strip_tools(inner, servers)
                tool = tool if len(kept) == len(inner) else {**tool, "tools": kept}  # noqa: PLW2901
            if all(self._keep(found) for found in find_offered_tools(tool, servers)):
                left.append(tool)
        return left

    def _strip_param(self, name: str, given: Any) -> Any:
        """Return what is left of a parameter, or None."""
        if given is None or (name in _SWITCHES and given is False):
            return given
        if name in _SWITCHES:
            return given if self._keep(_named(WEB_SEARCH, name)) else None
        if name not in _LISTED or not isinstance(given, list | tuple):
            return given
        left = [item for item in given if self._keep(_listed_tool(name, item))]
        return given if len(left) == len(given) else left or None


def find_offered_tools(tool: Any, servers: Mapping[str, Any]) -> Iterator[ProviderTool]:
    """Yield the tools of a provider that an entry of a request's `tools` stands for."""
    if not isinstance(tool, Mapping):
        return
    type_ = tool.get("type")
    if not isinstance(type_, str) or not type_:
        if not tool.keys() & {"name", *_OF_CALLER}:
            keys = (key for key in tool if _fold(key) not in _LISTS_OF_CALLER)
            yield from (_named(key) for key in keys)
        return
    base = _base_name(type_)
    if type_ in _OF_CALLER or base in _GROUPS or _is_run_by_caller(base, tool):
        return
    if base == MCP:
        yield _mcp_tool(tool, tool.get("server_label"), tool.get("connector_id"))
    elif base == "mcp_servers":
        listed = tool.get(type_)
        yield from map(_listed_server, listed if isinstance(listed, list | tuple) else [listed])
    elif base == "mcp_toolset":
        label = tool.get("mcp_server_name")
        yield _mcp_tool(servers.get(str(label)) or {}, label)
    else:
        function = tool.get("function")
        inner = function.get("name") if isinstance(function, Mapping) else None
        is_built_in = base == "builtin_function" and isinstance(inner, str)
        yield _named(str(inner) if is_built_in else type_, chosen=(tool.get("name"), inner))


def find_called_tool(part: Any) -> ProviderTool | None:
    """Return the tool of a provider that a part of an answer tells of, if it does."""
    if not isinstance(part, Mapping):
        return None
    type_ = str(part.get("type"))
    if type_ in ("mcp_tool_use", "mcp_tool_result", "mcp_call", "mcp_list_tools"):
        label = part.get("server_name") or part.get("server_label")
        return _mcp_called(label)
    if type_ == "server_tool_use":
        return _named(str(part.get("name")))
    if type_ in _PARTS:
        return _named(_PARTS[type_], type_)
    if type_ in _CALLS:
        called = part.get(type_)
        return _named(str(called.get("toolType") if isinstance(called, Mapping) else type_))
    for ending in ("_tool_result", "_call", "_call_output"):
        if type_.endswith(ending):
            return _named(type_.removesuffix(ending))
    return None


def _is_run_by_caller(base: str, tool: Mapping[str, Any]) -> bool:
    if base == "shell":
        environment = tool.get("environment")
        kind = environment.get("type") if isinstance(environment, Mapping) else "local"
        return kind == "local"
    return base in _RUN_BY_CALLER or (base == "tool_search" and tool.get("execution") == "client")


def _named(name: str, *others: str, chosen: Iterable[Any] = ()) -> ProviderTool:
    base = _base_name(name)
    own = dict.fromkeys([base, _FAMILIES.get(base, base), _fold(name), name, *others])
    picked = [each for each in chosen if isinstance(each, str)]
    families = (_FAMILIES.get(_base_name(each), each) for each in picked)
    return ProviderTool((*dict.fromkeys([*own, *picked, *families]),), (*own,))


def _listed_tool(param: str, item: Any) -> ProviderTool:
    if param == "mcp_servers":
        return _listed_server(item)
    found = item.get(_LISTED[param]) if isinstance(item, Mapping) else item
    return _named(str(found), param)


def _listed_server(item: Any) -> ProviderTool:
    server: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    transport = server.get("streamableHttpTransport") or server.get("streamable_http_transport")
    place = transport if isinstance(transport, Mapping) else server
    return _mcp_tool(place, server.get("name"))


def _mcp_tool(server: Mapping[str, Any], label: Any, connector: Any = None) -> ProviderTool:
    url = server.get("server_url") or server.get("url")
    place = _host_of(url) if url else connector
    own = [MCP, *([f"{MCP}:{place}"] if isinstance(place, str) and place else [])]
    chosen = [] if label is None else [f"{MCP}:{label}", f"{MCP}:{_fold(str(label))}"]
    beside = [f"{MCP}:{connector}"] if url and connector else []
    return ProviderTool((*dict.fromkeys([*reversed(own), *chosen, *beside]),), (*own,))


def _mcp_called(label: Any) -> ProviderTool:
    chosen = [] if label is None else [f"{MCP}:{label}", f"{MCP}:{_fold(str(label))}"]
    return ProviderTool((*dict.fromkeys([*chosen, MCP]),), (MCP,), is_mcp_label=True)


def _host_of(url: Any) -> str | None:
    """Return the host of a server, or None where somebody might read the address otherwise."""
    if not isinstance(url, str) or not _PLAIN_URL.fullmatch(url):
        return None
    return urlsplit(url).netloc.lower()


def _mcp_servers(request: ModelRequest) -> dict[str, Any]:
    given = request.params.get("mcp_servers")
    servers = given if isinstance(given, list | tuple) else ()
    return {str(each.get("name")): each for each in servers if isinstance(each, Mapping)}


def _is_choice_left(choice: Any, denied: Iterable[ProviderTool]) -> bool:
    """Return whether a `tool_choice` names no tool that was taken out; none is left alone."""
    if not isinstance(choice, Mapping):
        return True
    listed = choice.get("tools")
    inner = listed if isinstance(listed, list | tuple) else ()
    names = {_fold(str(each.get(key))) for each in (choice, *inner) for key in ("type", "name")}
    return not any(names & {_fold(name) for name in tool.names} for tool in denied)


def _answer_fields(message: AssistantMessage) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of messages of the chat API beside their texts and calls."""
    choices = message.metadata.get("choices")
    among = choices.values() if isinstance(choices, Mapping) else ()
    for metadata in (message.metadata, *among):
        fields = metadata.get("fields") if isinstance(metadata, Mapping) else None
        if isinstance(fields, Mapping):
            yield fields


def _executed_tools(fields: Mapping[str, Any]) -> Iterator[ProviderTool]:
    noted, executed = fields.get("annotations"), fields.get(_EXECUTED)
    for note in noted if isinstance(noted, list | tuple) else ():
        if isinstance(note, Mapping) and note.get("type") == "url_citation":
            yield _named(WEB_SEARCH)
            break
    for each in executed if isinstance(executed, list | tuple) else ():
        if isinstance(each, Mapping):
            yield _named(str(each.get("type") or each.get("name")))


def _used_tools(items: Any) -> Iterator[ProviderTool]:
    """Yield the tools that candidates of Gemini tell of beside their content."""
    for fields in items.values() if isinstance(items, Mapping) else ():
        for name, given in fields.items() if isinstance(fields, Mapping) else ():
            if _fold(name) in _USED:
                yield _named(_USED[_fold(name)])
            elif _fold(name) == "grounding_metadata" and isinstance(given, Mapping):
                kinds = (kind for key, value in given.items() for kind in _kinds_at(key, value))
                yield from (_named(_GROUNDED[kind]) for kind in kinds if kind in _GROUNDED)


def _kinds_at(name: str, value: Any) -> list[str]:
    """Return the name of a field that is not empty, and those of the fields in its items."""
    if not value:
        return []
    items = [item for item in value if isinstance(item, Mapping)] if _is_list(value) else []
    return [_fold(name), *(f"{_fold(name)}.{_fold(key)}" for item in items for key in item)]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _base_name(type_: str) -> str:
    """Return what a type is without its version, and without the name of who offers it."""
    return _VERSION.sub("", _fold(type_).rpartition(":")[2])


def _fold(name: str) -> str:
    return _HUMP.sub("_", name.strip()).casefold().replace("-", "_")
