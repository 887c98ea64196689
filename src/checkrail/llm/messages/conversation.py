"""A conversation as Anthropic's messages API takes it: turns of content blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.llm.tool_arguments import json_object

SYSTEM = ("system", "developer")
TEXTS = ("text", "output_text", "refusal")
THINKING = ("thinking", "redacted_thinking")
OPENING = "(The conversation begins.)"
"""What stands for the user's first turn where there is none: the API wants one."""

NO_MESSAGE = "(It failed without a message.)"

Block = dict[str, Any]


def anthropic_messages(messages: Iterable[Mapping[str, Any]]) -> tuple[list[Block], list[Block]]:
    """Write a conversation as a system prompt and turns, each as the API demands them.

    System messages at the start are the prompt, later ones are said by the user. Turns alternate;
    a user's begins with the tools' results, an assistant's with its thinking. Nothing is empty.
    """
    rest: list[dict[str, Any]] = thaw([*messages])
    system: list[Block] = []
    while rest and rest[0].get("role") in SYSTEM:
        system += _content_blocks(rest.pop(0).get("content"))
    turns: list[Block] = []
    for message in rest:
        role = "assistant" if message.get("role") == "assistant" else "user"
        _append_turn(turns, role, _message_blocks(message))
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [_text_block(OPENING)]})
    return system, [turn | {"content": _sort_blocks(turn["content"])} for turn in turns]


def _append_turn(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _sort_blocks(blocks: list[Block]) -> list[Block]:
    """Put first what has to be; thinking that stands between other blocks stays where it was."""
    if blocks[0]["type"] in THINKING:
        return blocks
    return sorted(blocks, key=lambda block: block["type"] not in ("tool_result", *THINKING))


def _message_blocks(message: dict[str, Any]) -> list[Block]:
    blocks = [*_content_blocks(message.get("content"))]
    if message.get("role") == "tool":
        return [_result_block(message, blocks)]
    return blocks + [_tool_use_block(call) for call in message.get("tool_calls") or ()]


def _result_block(message: dict[str, Any], blocks: list[Block]) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": _legal_id(message.get("tool_call_id"))}
    if message.get("is_error"):  # an error has text, and nothing but text
        result["is_error"] = True
        blocks = [block for block in blocks if block["type"] == "text"] or [_text_block(NO_MESSAGE)]
    return result | ({"content": blocks} if blocks else {})


def _tool_use_block(call: dict[str, Any]) -> Block:
    function = call.get("function") or {}
    try:
        arguments = json_object(function.get("arguments") or "")
    except ValueError:
        arguments = {}
    name = function.get("name")
    return {"type": "tool_use", "id": _legal_id(call.get("id")), "name": name, "input": arguments}


def _legal_id(id: Any) -> str:
    """Return an id in the characters that the API accepts; another model may have used others."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", str(id))


def _content_blocks(content: Any) -> Iterator[Block]:
    parts = [_text_block(content)] if isinstance(content, str) else content or ()
    for part in parts:
        block = _to_block(part)
        if block["type"] != "text" or block["text"].strip():
            yield block


def _to_block(part: Any) -> Block:
    if isinstance(part, str):
        return _text_block(part)
    if part["type"] in TEXTS:
        text = part.get("text") or part.get("refusal") or ""
        cache = {"cache_control": part["cache_control"]} if part.get("cache_control") else {}
        cited = {"citations": part["citations"]} if part.get("citations") else {}
        return _text_block(text) | cache | cited
    return _image_block(part["image_url"]) if part["type"] == "image_url" else dict(part)


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _image_block(given: Any) -> Block:
    url = str(given.get("url") if isinstance(given, Mapping) else given)
    head, _, data = url.partition(";base64,")
    if data and head.startswith("data:"):
        media_type = head.removeprefix("data:").partition(";")[0]
        return _image_from_source({"type": "base64", "media_type": media_type, "data": data})
    return _image_from_source({"type": "url", "url": url})


def _image_from_source(source: dict[str, str]) -> Block:
    return {"type": "image", "source": source}
