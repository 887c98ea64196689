"""Blocks of the messages API: shown to hooks as parts and calls, and put back where they stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.llm.diff import match_items
from checkrail.llm.json_bytes import to_json_text
from checkrail.llm.messages.conversation import anthropic_messages
from checkrail.llm.tool_arguments import json_object

Block = Mapping[str, Any]
LAST = 1 << 31


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block, and where it stood when it came; None if it is new."""

    block: Block
    origin: int | None


def show_part(block: Any) -> Any:
    """Return a block as a part; except for images they are the same."""
    if not isinstance(block, Mapping) or block.get("type") != "image":
        return block
    source = block.get("source")
    url = _image_url(source) if isinstance(source, Mapping) else None
    if url is None:
        return block
    return {
        "type": "image_url",
        "image_url": {"url": url},
        **_without_keys(block, "type", "source"),
    }


def show_content(content: Any) -> Any:
    """Return the content of a message or a result as hooks see it."""
    return [show_part(block) for block in content] if isinstance(content, list) else content


def to_block(part: Any) -> Any:
    """Write a part as a block."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping) or part.get("type") != "image_url":
        return thaw(part)
    _, turns = anthropic_messages([{"role": "user", "content": [part]}])
    return turns[0]["content"][0] | thaw(_without_keys(part, "type", "image_url"))


def show_call(block: Block) -> dict[str, Any]:
    """Return a tool use block as a call."""
    arguments = block.get("input")
    text = arguments if isinstance(arguments, str) else to_json_text(arguments or {})
    function = {"name": block.get("name"), "arguments": text}
    others = _without_keys(block, "type", "id", "name", "input")
    return {"id": block.get("id"), "type": "function", "function": function, **others}


def to_tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    """Write a call as a tool use block."""
    function = call.get("function") or {}
    try:
        arguments = json_object(function.get("arguments") or "")
    except ValueError:
        arguments = {}
    written = {"type": "tool_use", "id": call.get("id"), "name": function.get("name")}
    others = _without_keys(call, "id", "type", "function")
    return thaw(written | {"input": arguments} | others)  # type: ignore[no-any-return]


def place_parts(
    came: Sequence[PlacedBlock], before: Sequence[Any], after: Any
) -> list[PlacedBlock]:
    """Return the blocks of parts that hooks changed; `before` is how `came` was shown to them.

    A signed thought that was changed is left out: nobody takes it with a signature that is wrong.
    """
    if isinstance(after, str):
        after = [_rewrite_text(came, after)] if after else []
    found: list[PlacedBlock] = []
    for part, origin in zip(after, match_items(before, after, _same_type), strict=True):
        if origin is None:
            found.append(PlacedBlock(to_block(part), None))
        elif before[origin] == part:
            found.append(came[origin])
        elif not (was := came[origin].block).get("signature"):
            nothing = {name: None for name in was if was[name] is None}
            found.append(PlacedBlock(nothing | to_block(part), came[origin].origin))
    return found


def merge_blocks(parts: Iterable[PlacedBlock], calls: Iterable[PlacedBlock]) -> list[PlacedBlock]:
    """Return parts and calls in the order in which they came; what is new follows its own kind."""
    keyed = [*_with_sort_keys(parts, -1), *_with_sort_keys(calls, LAST)]
    return [placed for _, placed in sorted(keyed, key=lambda one: one[0])]


def _with_sort_keys(
    given: Iterable[PlacedBlock], last: int
) -> Iterable[tuple[tuple[int, int], PlacedBlock]]:
    reached = (last, 1)
    for placed in given:
        if placed.origin is not None:
            own = (placed.origin, 0)
            reached = own if reached[0] == LAST else max(reached, own)
        else:
            reached = (reached[0], 1)
        yield reached, placed


def _rewrite_text(came: Sequence[PlacedBlock], text: str) -> dict[str, Any]:
    """Write one text for all the parts; if there was but one, it keeps its other fields."""
    texts = [placed.block for placed in came if placed.block.get("type") == "text"]
    marks = (
        _without_keys(texts[0], "citations") if len(texts) == len(came) == 1 else {"type": "text"}
    )
    return marks | {"text": text}


def _same_type(before: Any, after: Any) -> bool:
    kinds = [one.get("type") if isinstance(one, Mapping) else "text" for one in (before, after)]
    return kinds[0] == kinds[1]


def _image_url(source: Mapping[str, Any]) -> str | None:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)} if len(source) == 3:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)} if len(source) == 2:
            return url
    return None


def _without_keys(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}
