"""A connection to an MCP server, kept by a task of its own. Pulls in the `mcp` package."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Tool

from checkrail.agent.tools.mcp_servers import Server, describe_error, first_error
from checkrail.agent.tools.tool import ToolError, ToolSourceError

log = logging.getLogger("checkrail.mcp")

RUNS = "See that it runs, and is an MCP server"


class Connection:
    """One connection: opened, held and closed by the same task, used from any of its loop.

    One that is `lost` takes no new work, and is closed when the work on it is done. Its task is
    among `tasks` until it is over. `answer_seconds` limit connecting and listing the tools.
    """

    def __init__(
        self, server: Server, tasks: set[asyncio.Task[None]], answer_seconds: float
    ) -> None:
        loop = asyncio.get_running_loop()
        self.server = server
        self._answer_seconds = answer_seconds
        self.lost = False
        self._uses = 0
        self._over = asyncio.Event()
        self._client: asyncio.Future[Client] = loop.create_future()
        apart = contextvars.Context()  # it outlives the run that opens it, and is no part of it
        self.task = loop.create_task(self._run_connection(), context=apart)
        self.task.add_done_callback(tasks.discard, context=apart)
        tasks.add(self.task)

    async def list_tools(self) -> list[Tool]:
        """List the server's tools, all pages of them, after connecting if need be."""
        with self._count_use():
            try:
                async with asyncio.timeout(self._answer_seconds):
                    return await _list_all_tools(await asyncio.shield(self._client))
            except ToolSourceError:
                raise
            except Exception as error:
                self.lost = True
                raise self._no_answer_error(error) from error

    async def call_tool(self, name: str, args: dict[str, Any]) -> CallToolResult:
        """Call a tool; if the caller is cancelled, the server is notified."""
        with self._count_use():
            client = await asyncio.shield(self._client)
            try:
                return await client.call_tool(name, args)
            except MCPError as error:
                if error.code != CONNECTION_CLOSED:
                    raise ToolError(f"the MCP server says: {error.message}") from error
                self.lost = True
                problem = "is gone: the connection broke before the answer"
                remedy = "It is connected to again when it is next used"
                raise ToolSourceError(self.server.label, problem, remedy) from error
            except Exception as error:
                raise ToolError(f"the answer cannot be used: {describe_error(error)}") from error

    def close(self) -> None:
        """Close the connection, whatever is under way; wait for `task` to see it closed."""
        self.lost = True
        self._over.set()
        if not self._client.done():
            self.task.cancel()

    @contextlib.contextmanager
    def _count_use(self) -> Iterator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self.lost and not self._uses:
                self.close()

    async def _run_connection(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._answer_seconds):
                    client = await stack.enter_async_context(self.server.open())
                self._client.set_result(client)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 - told to those who wait for it
            self._set_failure(error)
        finally:
            self.lost = True
            if not self._client.done():
                self._set_failure(
                    self._source_error("was disconnected while it was being connected to")
                )

    def _set_failure(self, error: Exception) -> None:
        if self._client.done():
            log.debug(
                "the connection to the MCP server %s broke", self.server.label, exc_info=error
            )
            return
        self._client.set_exception(
            error if isinstance(error, ToolSourceError) else self._no_answer_error(error)
        )
        self._client.exception()  # somebody may have waited for it, or nobody

    def _no_answer_error(self, error: Exception) -> ToolSourceError:
        if isinstance(error, TimeoutError):
            remedy = f"{RUNS}, or raise its `timeout`"
            return self._source_error(f"did not answer within {self._answer_seconds:g} s", remedy)
        return self._source_error(f"did not list its tools: {describe_error(first_error(error))}")

    def _source_error(self, problem: str, remedy: str = RUNS) -> ToolSourceError:
        return ToolSourceError(self.server.label, problem, remedy)


async def _list_all_tools(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
