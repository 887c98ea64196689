"""MCP servers as sources of tools."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from checkrail.agent.tools.tool import (
    Tool,
    ToolContext,
    ToolError,
    ToolSourceError,
    check_timeout,
    legal_names,
)
from checkrail.engine.errors import suggestion
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.matchers import compile_pattern, list_patterns
from checkrail.engine.outcomes import UNSET, Unset
from checkrail.extras import needs
from checkrail.llm.conversation import text_of

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

    from checkrail.actions.outbound import Outbound
    from checkrail.agent.tools.mcp_connection import Connection
    from checkrail.agent.tools.mcp_servers import Server


Part = dict[str, Any]


def parameters_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments, completed with what some providers require."""
    frozen: Mapping[str, Any] = freeze({"type": "object", "properties": {}} | dict(schema))
    return frozen


def content_of(result: CallToolResult) -> Any:
    """Return what a tool returned: a text, parts if there is more than text, or data."""
    parts = [_to_part(block) for block in result.content]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if result.is_error:
        raise ToolError(
            text or _structured_text(result) or "the tool says that it failed, and not why"
        )
    if not parts:
        return "" if result.structured_content is None else result.structured_content
    if not text_of(parts) and result.structured_content is not None:
        return [_text_part(_structured_text(result)), *parts]
    return text if all(part["type"] == "text" for part in parts) else parts


def _structured_text(result: CallToolResult) -> str:
    data = result.structured_content
    return "" if data is None else json.dumps(data, ensure_ascii=False)


def _to_part(block: ContentBlock) -> Part:
    match block.type:
        case "text":
            return _text_part(block.text)
        case "image" | "audio":
            return _binary_part(block.mime_type, block.data)
        case "resource_link":
            about = [block.title or block.name, block.description]
            return _text_part(f"{': '.join(filter(None, about))} ({block.uri})")
    resource = block.resource
    if hasattr(resource, "text"):
        return _text_part(resource.text)
    return _binary_part(resource.mime_type or "application/octet-stream", resource.blob)


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _binary_part(kind: str, data: str) -> Part:
    """Return an image as a part for the model; of other data, a text that it was there."""
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    return _text_part(f"[{kind}, {len(data) * 3 // 4} bytes, which cannot be shown]")


CALL_SECONDS = 300.0
"""How long a call may take, unless `timeout` is given."""

ANSWER_SECONDS = 30.0
"""How long connecting and listing the tools may take, unless `timeout` is given."""


class MCPTool(Tool):
    """One tool of an MCP server."""

    def __init__(self, source: MCPTools, name: str, listed: Any) -> None:
        self.name = name
        self.description = listed.description or listed.title or ""
        self.parameters = parameters_of(listed.input_schema)
        self.timeout = source.timeout
        self._source = source
        self._own_name = listed.name

    def __repr__(self) -> str:
        return f"MCPTool({self.name!r})"

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:  # noqa: ARG002
        """Call the tool on its server."""
        return await self._source.call(self._own_name, args)


class MCPTools:
    """The tools of one MCP server; make one with `mcp_stdio` or `mcp_http`.

    It connects when it is first asked for its tools, and stays connected until `aclose`, or until
    the event loop is over. A server that went away is connected to again at its next use.
    """

    def __init__(
        self,
        server: Server,
        *,
        prefix: str = "",
        include: str | Iterable[str] = "*",
        timeout: float | Unset | None = UNSET,
    ) -> None:
        self.timeout = CALL_SECONDS if isinstance(timeout, Unset) else timeout
        check_timeout(f"MCPTools({server.label})", self.timeout)
        self._answer_seconds = ANSWER_SECONDS
        if not isinstance(timeout, Unset) and timeout is not None:
            self._answer_seconds = timeout
        self._server = server
        self._prefix = prefix
        self._include = {
            str(pattern): compile_pattern(pattern) for pattern in list_patterns(include)
        }
        self._open = False
        self._lock = threading.Lock()
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"MCPTools({self._server.label})"

    async def tools(self) -> Sequence[Tool]:
        """Connect if need be, and return the tools."""
        self._open = True
        known = self._connections.get(asyncio.get_running_loop())
        connection = self._open_connection()
        try:
            listed = await connection.list_tools()
        except ToolSourceError:
            if connection is not known:
                raise
            listed = (
                await self._open_connection().list_tools()
            )  # it went away since it was last used
        return self._build_tools(listed)

    async def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Call a tool by the server's own name for it."""
        if not self._open:
            raise ToolError(f"the MCP server {self._server.label} was disconnected")
        try:
            return content_of(await self._open_connection().call_tool(name, dict(thaw(args))))
        except ToolSourceError as error:
            raise ToolError(str(error)) from error

    async def aclose(self) -> None:
        """Disconnect; the next `tools` connects again."""
        self._open = False
        here = asyncio.get_running_loop()
        with self._lock:
            connections, self._connections = self._connections, {}
        for loop, connection in connections.items():
            if loop is here:
                connection.close()
            else:
                with contextlib.suppress(RuntimeError):  # that loop is over, and so is this
                    loop.call_soon_threadsafe(connection.close)
        if own := [task for task in tuple(self._tasks) if task.get_loop() is here]:
            await asyncio.wait(own)

    async def leave(self) -> None:
        """Disconnect in this event loop, which is about to end; others go on."""
        here = asyncio.get_running_loop()
        with self._lock:
            connection = self._connections.pop(here, None)
        if connection is not None:
            connection.close()
        if own := [task for task in tuple(self._tasks) if task.get_loop() is here]:
            await asyncio.wait(own)

    def _open_connection(self) -> Connection:
        """Return the connection of this event loop: each has its own, and none outlives it."""
        from checkrail.agent.tools.mcp_connection import Connection

        here = asyncio.get_running_loop()
        with self._lock:
            found = self._connections.get(here)
            if found is None or found.lost:
                live = self._connections.items()
                self._connections = {loop: it for loop, it in live if not loop.is_closed()}
                found = self._connections[here] = Connection(
                    self._server, self._tasks, self._answer_seconds
                )
            return found

    def _build_tools(self, listed: Sequence[Any]) -> list[Tool]:
        by_name = {tool.name: tool for tool in listed}
        for pattern, match in self._include.items():
            if pattern != "*" and not any(map(match, by_name)):
                problem = f"has no tool {pattern!r}{suggestion(pattern, by_name)}"
                known = f"Its tools are: {', '.join(by_name) or 'none'}"
                raise ToolSourceError(self._server.label, problem, known)
        wanted = [name for name in by_name if any(match(name) for match in self._include.values())]
        legal = legal_names(wanted, self._prefix)
        return [MCPTool(self, legal[name], by_name[name]) for name in wanted]


def mcp_stdio(
    command: str | Path,
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    prefix: str = "",
    include: str | Iterable[str] = "*",
    timeout: float | Unset | None = UNSET,
) -> MCPTools:
    """Return the tools of an MCP server that is started as a program.

    Of this process's environment it gets little more than HOME and PATH: name in `env` what it
    needs. `include` are globs of the server's own names; `prefix` goes before them for the model.
    `timeout` limits each call, and connecting with listing the tools: 300 and 30 s unless given.
    """
    with needs("mcp", "an MCP server", "mcp"):
        from checkrail.agent.tools.mcp_servers import StdioServer
    server = StdioServer(str(command), tuple(map(str, args)), dict(env or {}), cwd)
    _check_texts(server, "env", server.env)
    return MCPTools(server, prefix=prefix, include=include, timeout=timeout)


def mcp_http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    include: str | Iterable[str] = "*",
    timeout: float | Unset | None = UNSET,
    guard: Outbound | None = None,
) -> MCPTools:
    """Return the tools of an MCP server at a URL (streamable HTTP).

    `include` are globs of the server's own names; `prefix` goes before them for the model.
    `timeout` limits each call, and connecting with listing the tools: 300 and 30 s unless given.
    With a `guard`, connections are made only to addresses that it permits.
    """
    with needs("mcp", "an MCP server", "mcp"):
        from checkrail.agent.tools.mcp_servers import HttpServer
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "has a URL that names no host, or no http:// or https://"
        raise ToolSourceError("of mcp_http", problem, "Write such as https://example.com/mcp")
    server = HttpServer(url, dict(headers or {}), guard)
    _check_texts(server, "headers", server.headers)
    return MCPTools(server, prefix=prefix, include=include, timeout=timeout)


def _check_texts(server: Server, what: str, given: Mapping[str, object]) -> None:
    """Refuse what is no text: None often comes from a variable that is not set."""
    for name, value in given.items():
        if not isinstance(value, str):
            problem = f"is given {type(value).__name__} for {name!r} in {what}"
            raise ToolSourceError(server.label, problem, "Give a text, or leave it out")
