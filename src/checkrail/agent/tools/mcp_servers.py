"""MCP servers and how to connect to them. Pulls in the `mcp` package."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, Implementation

from checkrail.actions.outbound import Outbound, OutboundRefused
from checkrail.actions.process import build_environment, missing_interpreter
from checkrail.agent.tools.tool import ToolSourceError

HTTP_SECONDS = 30.0
"""How long to wait for a connection, or until something is sent; answers may take their time."""

_REMEDIES = {
    401: "Check its headers: it wants to know who asks",
    403: "Check its headers: whoever asks there may not",
    404: "Check the path of its URL, which often ends in /mcp",
    405: "Check the path of its URL, which often ends in /mcp",
}


class Server(Protocol):
    """A server: its name in messages, and a way to connect to it.

    Arguments, headers and paths stay out of the name: they may hold secrets.
    """

    @property
    def label(self) -> str:
        """What messages call it."""

    def open(self) -> AbstractAsyncContextManager[Client]:
        """Connect; what goes wrong with that is a `ToolSourceError`."""


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A program that is started, and talked to over its standard input and output."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | Path | None = None

    @property
    def label(self) -> str:
        """What messages call it: somebody may have put arguments into the command."""
        return repr(Path(self.command).name.partition(" ")[0])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Client]:
        """Start it; its environment is what every server gets, and `env`."""
        parameters = StdioServerParameters(
            command=self.command,
            args=[*self.args],
            env=dict(self.env),
            cwd=self.cwd,
        )
        async with AsyncExitStack() as stack:
            client = _build_client(stdio_client(parameters, errlog=_standard_error()))
            try:
                connected = await stack.enter_async_context(client)
            except Exception as error:
                raise self._connect_error(first_error(error)) from error
            yield connected

    def _connect_error(self, error: Exception) -> ToolSourceError:
        if isinstance(error, OSError):
            if self.cwd is not None and not Path(self.cwd).is_dir():
                return self._source_error(
                    f"cannot be started: there is no folder {self.cwd}", "Check cwd"
                )
            remedy = "Check that it is installed and on the PATH"
            if " " in self.command:
                remedy = "Give the command and each of its arguments by itself"
            elif missing := self._missing_interpreter():
                problem, remedy = missing
                return self._source_error(f"cannot be started: {problem}", remedy.capitalize())
            return self._source_error(f"cannot be started: {error.strerror or error}", remedy)
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            remedy = "What it wrote to standard error says why"
            return self._source_error("ended before it answered", remedy)
        return self._source_error(
            f"did not connect: {describe_error(error)}", "See that it is an MCP server"
        )

    def _missing_interpreter(self) -> tuple[str, str] | None:
        cwd = None if self.cwd is None else Path(self.cwd)
        return missing_interpreter(self.command, cwd, build_environment(self.env))

    def _source_error(self, problem: str, remedy: str) -> ToolSourceError:
        return ToolSourceError(self.label, problem, remedy)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at a URL, talked to over streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    guard: Outbound | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """What messages call it: a path or a query may hold a key, so they are left out."""
        parts = urlsplit(self.url)
        return f"at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Client]:
        """Connect to it."""
        statuses: deque[int] = deque(maxlen=1)

        async def note_status(response: httpx2.Response) -> None:
            statuses.append(response.status_code)

        limits = httpx2.Timeout(HTTP_SECONDS, read=None)
        http = httpx2.AsyncClient(
            headers=dict(self.headers),
            timeout=limits,
            event_hooks={"response": [note_status]},
            transport=None if self.guard is None else self.guard.build_transport(),
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(http)
            client = _build_client(streamable_http_client(self.url, http_client=http))
            try:
                connected = await stack.enter_async_context(client)
            except Exception as error:
                raise self._connect_error(first_error(error), *statuses) from error
            yield connected

    def _connect_error(self, error: Exception, status: int = 200) -> ToolSourceError:
        if isinstance(error, OutboundRefused):
            return ToolSourceError(self.label, f"may not be reached: {error.problem}", error.remedy)
        if isinstance(error, httpx2.TransportError):
            remedy = "Check its URL, and that it runs"
            return ToolSourceError(
                self.label, f"cannot be reached: {describe_error(error)}", remedy
            )
        if status >= 400:
            remedy = _REMEDIES.get(status, "See that it is an MCP server, and what it logs")
            answer = f"answered {status} {_status_phrase(status)}"
            return ToolSourceError(self.label, answer, remedy)
        remedy = "See that it is an MCP server"
        return ToolSourceError(self.label, f"did not connect: {describe_error(error)}", remedy)


def _build_client(transport: Any) -> Client:
    info = Implementation(name="checkrail", version=version("checkrail"))
    return Client(transport, client_info=info)


def _standard_error() -> Any:
    """Return the standard error to a program, if there is a real one."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.fileno()
        return sys.stderr
    return sys.__stderr__


def _status_phrase(status: int) -> str:
    with contextlib.suppress(ValueError):
        return HTTPStatus(status).phrase
    return ""


def first_error(error: Exception) -> Exception:
    """Return the first error in a group of errors."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_error(error: Exception) -> str:
    """Return an error in a few words."""
    return str(error).partition("\n")[0] or type(error).__name__
