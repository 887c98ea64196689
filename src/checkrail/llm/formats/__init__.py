"""The APIs that the gateway speaks, each as one `Format`.

Those whose paths name the model have a `Format` for each call.
"""

from __future__ import annotations

from checkrail.llm.chat.api import Chat
from checkrail.llm.gemini.api import COUNT, Gemini, open_gemini
from checkrail.llm.gemini.api import VERBS as GEMINI_VERBS
from checkrail.llm.messages.api import Messages
from checkrail.llm.messages.cloud import Bedrock, Vertex, open_bedrock, open_vertex
from checkrail.llm.responses.api import Responses
from checkrail.llm.wire_format import Format

__all__ = [
    "ASIDE",
    "BY_NAME",
    "FORMATS",
    "NAMED_BY_PATH",
    "VERBS",
    "open_format",
]

_ALL: tuple[Format, ...] = (Chat(), Messages(), Responses())

FORMATS: dict[str, Format] = {one.path: one for one in _ALL}
"""Each format by the path of its requests."""

ASIDE: dict[str, Format] = {path: one for one in _ALL for path in one.aside}
"""Each format by the paths that take its requests and give no answers."""

_BY_PATH: tuple[Format, ...] = (Gemini("", "", ""), Bedrock(), Vertex())

BY_NAME: dict[str, Format] = {one.name: one for one in (*_ALL, *_BY_PATH)}
"""A format of each API, by its name."""

NAMED_BY_PATH = frozenset(one.name for one in _BY_PATH)
"""The formats whose paths name the model, and the version of the API if it has one."""

VERBS = (
    *(f":{verb}" for verb in (*GEMINI_VERBS, COUNT.casefold(), "rawpredict", "streamrawpredict")),
    *("/invoke", "/invoke-with-response-stream", "/converse", "/converse-stream"),
)
"""How the paths of such calls end, in small letters, be they known or not."""


def open_format(path: str, query: str = "") -> Format | None:
    """Return the format of a call whose path names the model; None for another path."""
    return open_gemini(path, query) or open_bedrock(path) or open_vertex(path)
