"""What a tool is to the loop: a name, a schema, and something to call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Context
from checkrail.engine.values import ToolCall

RUN_SCOPE = "scope"
"""Where a server puts the `scope` of a run in the metadata of its events."""


class ToolError(CheckrailError):
    """A tool has no result: the model is given the message, and may try again."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool is being called: the call as it was let through, and the ids around it."""

    call: ToolCall
    ids: Context

    @property
    def run(self) -> Mapping[str, Any]:
        """What whoever started the run gave it as its `scope`: for tools, never for models."""
        given: Mapping[str, Any] = self.ids.metadata.get(RUN_SCOPE) or {}
        return given


class Tool(ABC):
    """Something that a model can call.

    `parameters` is the JSON Schema of its arguments; `timeout` is in seconds, None for no limit.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    timeout: float | None = None

    @abstractmethod
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Do it, and give what it returned: a text, JSON data, or a `ToolResult`.

        Whatever is raised becomes an error that the model sees; `ToolError` by its message alone.
        """


@runtime_checkable
class ToolSource(Protocol):
    """Something that has tools to offer once it is connected, such as an MCP server."""

    async def tools(self) -> Sequence[Tool]:
        """Connect if need be, and give the tools."""

    async def aclose(self) -> None:
        """Disconnect; asked for its tools again, it connects again."""
