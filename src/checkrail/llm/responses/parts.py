"""Parts of messages and tools of the Responses API, in the words of the chat API, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

TEXTS = ("input_text", "output_text", "text")
MESSAGE_PARTS = frozenset(
    {"text", "image_url", "refusal", "input_text", "output_text", "input_image", "input_file"}
    | {"input_audio", "file", "summary_text", "reasoning_text", "computer_screenshot"}
)
"""Parts that stand in a message; all others are items of their own."""

NAMED = ("function", "custom")
"""Types of tools that the caller has, which the chat API keeps one level deeper."""

OF_FUNCTION = ("name", "description", "parameters", "strict", "format")
"""What of a tool stands in that level."""


def show_part(part: Any) -> Any:
    """Return a part of an item as hooks see it; one unknown to the chat API stays as it came."""
    if not isinstance(part, Mapping):
        return part
    if part.get("type") in TEXTS:
        return {**part, "type": "text"}
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"]}
        if "detail" in part:
            image["detail"] = part["detail"]
        others = {name: part[name] for name in part if name not in ("type", "image_url", "detail")}
        return {"type": "image_url", "image_url": image, **others}
    return part


def write_part(part: Any, role: str) -> Any:
    """Write a part of a message."""
    text = "output_text" if role == "assistant" else "input_text"
    if isinstance(part, str):
        return {"type": text, "text": part}
    if not isinstance(part, Mapping):
        return part
    if part.get("type") in TEXTS:
        return {**part, "type": text}
    if part.get("type") != "image_url":
        return part
    image = part.get("image_url")
    image = image if isinstance(image, Mapping) else {"url": image}
    others = {name: part[name] for name in part if name not in ("type", "image_url")}
    detail = {"detail": image["detail"]} if "detail" in image else {}
    return {"type": "input_image", "image_url": image.get("url"), **detail, **others}


def show_tool(tool: Any) -> Any:
    """Return a tool as hooks see it; one of the provider stays as it came."""
    if not isinstance(tool, Mapping):
        return tool
    type_ = tool.get("type")
    if type_ not in NAMED or type_ in tool or not isinstance(tool.get("name"), str):
        return tool
    inner = {name: tool[name] for name in tool if name in OF_FUNCTION}
    others = {name: tool[name] for name in tool if name not in OF_FUNCTION}
    return {**others, type_: inner}


def write_tools(tools: Iterable[Any], given: Iterable[Any] = ()) -> list[Any]:
    """Write tools that hooks changed; those that they left alone are written as they came."""
    came = [(show_tool(tool), tool) for tool in given]
    return [
        next((tool for shown, tool in came if shown == changed), None) or _write_tool(changed)
        for changed in tools
    ]


def _write_tool(tool: Any) -> Any:
    type_ = tool.get("type") if isinstance(tool, Mapping) else None
    inner = tool.get(type_) if type_ in NAMED else None
    if not isinstance(inner, Mapping):
        return tool
    others = {name: value for name, value in tool.items() if name != type_}
    return {**others, **inner}
