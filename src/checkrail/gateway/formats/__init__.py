"""The APIs that the gateway speaks, each as one `Format`."""

from __future__ import annotations

from checkrail.gateway.formats.base import Format
from checkrail.gateway.formats.chat import Chat
from checkrail.gateway.formats.messages import Messages
from checkrail.gateway.formats.responses import Responses

__all__ = ["COUNTING", "FORMATS"]

_ALL: tuple[Format, ...] = (Chat(), Messages(), Responses())

FORMATS: dict[str, Format] = {one.path: one for one in _ALL}
"""Each format by the path of its requests."""

COUNTING: dict[str, Format] = {one.counting_path: one for one in _ALL if one.counting_path}
"""Each format by the path at which the tokens of its requests are counted."""
