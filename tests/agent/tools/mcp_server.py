"""An MCP server, of the official package: run it with `stdio`, `pages`, or `http` and a port."""

import asyncio
import os
import socket
import sys
from pathlib import Path

from mcp import MCPError, types
from mcp.server import Server
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server

server = MCPServer("tests", log_level="CRITICAL")
both = asyncio.Barrier(2)
waiting = {"begun": 0, "cancelled": 0}


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def refuse(why: str) -> str:
    raise ToolError(why)


@server.tool()
def broken() -> str:
    raise MCPError(code=types.INTERNAL_ERROR, message="the database is away")


@server.tool()
def picture() -> list[str | Image]:
    return ["Look:", Image(data=b"abc", format="png")]


@server.tool()
def data() -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content={"degrees": 21})


@server.tool(name="files/read.all", title="Reads files")
def files() -> str:
    return "read"


@server.tool()
async def meet() -> str:
    """Come back when there are two."""
    await both.wait()
    return "met"


@server.tool()
async def wait() -> str:
    waiting["begun"] += 1
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        waiting["cancelled"] += 1
        raise
    return "waited"


@server.tool()
def waits() -> dict[str, int]:
    return waiting


@server.tool()
def about() -> dict[str, str]:
    return {"pid": str(os.getpid()), "cwd": str(Path.cwd()), **os.environ}


@server.tool()
def die() -> str:
    os._exit(3)


async def pages() -> None:
    """Serve seven tools, three to a page, whose results are not what they say."""
    schema = {"type": "object"}
    says = {"type": "object", "properties": {"degrees": {"type": "number"}}}
    tools = [
        types.Tool(name=f"tool_{number}", input_schema=schema, output_schema=says)
        for number in range(7)
    ]

    async def listed(context, params):
        start = int(params.cursor) if params and params.cursor else 0
        more = str(start + 3) if start + 3 < len(tools) else None
        return types.ListToolsResult(tools=tools[start : start + 3], next_cursor=more)

    async def called(context, params):
        return types.CallToolResult(content=[], structured_content={"degrees": "many"})

    paged = Server("pages", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await paged.run(read, write, paged.create_initialization_options())


async def http() -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - for whoever started it
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    if started := os.environ.get("STARTED"):
        with Path(started).open("a") as file:
            file.write("started\n")
    match sys.argv[1]:
        case "stdio":
            server.run()
        case "http":
            asyncio.run(http())
        case "pages":
            asyncio.run(pages())
