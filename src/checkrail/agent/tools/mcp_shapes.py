"""How a model sees the tools and the results of an MCP server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkrail.agent.messages import text_of
from checkrail.agent.tools.tool import ToolError
from checkrail.engine.frozen import freeze

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

Part = dict[str, Any]


def parameters_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the schema of a tool's arguments, with what some providers want to see in every one."""
    frozen: Mapping[str, Any] = freeze({"type": "object", "properties": {}} | dict(schema))
    return frozen


def content_of(result: CallToolResult) -> Any:
    """Return what a tool returned: a text, parts if there is more than text, or data."""
    parts = [_part(block) for block in result.content]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if result.is_error:
        raise ToolError(text or _written(result) or "the tool says that it failed, and not why")
    if not parts:
        return "" if result.structured_content is None else result.structured_content
    if not text_of(parts) and result.structured_content is not None:
        return [_text(_written(result)), *parts]
    return text if all(part["type"] == "text" for part in parts) else parts


def _written(result: CallToolResult) -> str:
    data = result.structured_content
    return "" if data is None else json.dumps(data, ensure_ascii=False)


def _part(block: ContentBlock) -> Part:
    match block.type:
        case "text":
            return _text(block.text)
        case "image" | "audio":
            return _binary(block.mime_type, block.data)
        case "resource_link":
            about = [block.title or block.name, block.description]
            return _text(f"{': '.join(filter(None, about))} ({block.uri})")
    resource = block.resource
    if hasattr(resource, "text"):
        return _text(resource.text)
    return _binary(resource.mime_type or "application/octet-stream", resource.blob)


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _binary(kind: str, data: str) -> Part:
    """Return an image as a model can look at it; of other data, only say that it was there."""
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    return _text(f"[{kind}, {len(data) * 3 // 4} bytes, which cannot be shown]")
