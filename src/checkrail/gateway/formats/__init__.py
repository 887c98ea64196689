"""The APIs that the gateway speaks, each as one `Format`."""

from __future__ import annotations

from checkrail.gateway.formats.base import Format
from checkrail.gateway.formats.chat import Chat
from checkrail.gateway.formats.messages import Messages
from checkrail.gateway.formats.responses import Responses

__all__ = ["ASIDE", "FORMATS"]

_ALL: tuple[Format, ...] = (Chat(), Messages(), Responses())

FORMATS: dict[str, Format] = {one.path: one for one in _ALL}
"""Each format by the path of its requests."""

ASIDE: dict[str, Format] = {path: one for one in _ALL for path in one.aside}
"""Each format by the paths that take its requests and give no answers."""
