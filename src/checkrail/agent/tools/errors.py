"""What cannot be a tool, and who does not offer any."""

from __future__ import annotations

from checkrail.engine.errors import CheckrailError


class ToolRefusedError(CheckrailError, TypeError):
    """Something was refused that was to be made a tool."""

    def __init__(self, tool: str, problem: str, remedy: str) -> None:
        self.tool = tool
        self.problem = problem
        self.remedy = remedy
        super().__init__(tool, problem, remedy)

    def __str__(self) -> str:
        return f"tool {self.tool!r} was refused: {self.problem}. {self.remedy}"


class ToolSourceError(CheckrailError):
    """A server that offers tools cannot be used."""

    def __init__(self, server: str, problem: str, remedy: str) -> None:
        self.server = server
        self.problem = problem
        self.remedy = remedy
        super().__init__(server, problem, remedy)

    def __str__(self) -> str:
        return f"the MCP server {self.server} {self.problem}. {self.remedy}"
