"""What a tool is to the loop: a name, a schema, something to call, and what cannot be one."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Context
from checkrail.engine.values import ToolCall
from checkrail.llm.conversation import LEGAL_NAME, LONGEST_NAME

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
        """Call the tool, and return a text, JSON data, or a `ToolResult`.

        Whatever is raised becomes an error that the model sees; `ToolError` by its message alone.
        """

    def to_schema(self) -> dict[str, Any]:
        """Return the tool as requests to a model describe it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@runtime_checkable
class ToolSource(Protocol):
    """Something that has tools to offer once it is connected, such as an MCP server."""

    async def tools(self) -> Sequence[Tool]:
        """Connect if need be, and return the tools."""

    async def aclose(self) -> None:
        """Disconnect; the next `tools` connects again."""


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


def check_name(name: str) -> None:
    """Refuse a name that some provider would refuse."""
    if not LEGAL_NAME.fullmatch(name):
        problem = f"{name!r} is no name that all models accept"
        remedy = f"Say name=…, with up to {LONGEST_NAME} letters, digits, _ and -"
        raise ToolRefusedError(name, problem, remedy)


def check_timeout(tool: str, timeout: object) -> None:
    """Refuse a timeout that is neither seconds nor None."""
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        remedy = "Say seconds, more than 0, or None for no limit"
        raise ToolRefusedError(tool, f"its timeout is {timeout!r}", remedy)


def legal_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return each name a legal form of its own; those that are legal already keep theirs."""
    names = [*dict.fromkeys(names)]
    legal = {name: _legal_form(prefix + name) for name in names}
    names.sort(key=lambda name: legal[name] != prefix + name)
    taken: set[str] = set()
    for name in names:
        legal[name] = _unused_name(legal[name], taken)
        taken.add(legal[name])
    return legal


def _legal_form(name: str) -> str:
    written = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(written) <= LONGEST_NAME:
        return written
    short = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{written[: LONGEST_NAME - 9]}_{short}"


def _unused_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[: LONGEST_NAME - len(str(number)) - 1]}_{number}"
    return free
