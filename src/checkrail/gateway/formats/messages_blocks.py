"""Blocks of the messages API: shown to hooks as parts and calls, and put back where they stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.agent.models.anthropic_messages import anthropic_messages
from checkrail.agent.models.arguments import json_object
from checkrail.engine.frozen import thaw
from checkrail.gateway.formats.aligning import aligned
from checkrail.gateway.formats.json_bytes import write_text

Block = Mapping[str, Any]
LAST = 1 << 31


@dataclass(frozen=True, slots=True)
class Placed:
    """A block, and where it stood when it came; None if it is new."""

    block: Block
    origin: int | None


def shown_part(block: Any) -> Any:
    """Show a block as a part; but for images they are the same."""
    if not isinstance(block, Mapping) or block.get("type") != "image":
        return block
    source = block.get("source")
    url = _url(source) if isinstance(source, Mapping) else None
    if url is None:
        return block
    return {"type": "image_url", "image_url": {"url": url}, **_but(block, "type", "source")}


def shown_content(content: Any) -> Any:
    """Show what a message or a result says."""
    return [shown_part(block) for block in content] if isinstance(content, list) else content


def block_of(part: Any) -> Any:
    """Write a part as a block."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping) or part.get("type") != "image_url":
        return thaw(part)
    _, turns = anthropic_messages([{"role": "user", "content": [part]}])
    return turns[0]["content"][0] | thaw(_but(part, "type", "image_url"))


def shown_call(block: Block) -> dict[str, Any]:
    """Show a block that uses a tool as a call."""
    arguments = block.get("input")
    text = arguments if isinstance(arguments, str) else write_text(arguments or {})
    function = {"name": block.get("name"), "arguments": text}
    others = _but(block, "type", "id", "name", "input")
    return {"id": block.get("id"), "type": "function", "function": function, **others}


def use_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Write a call as a block that uses a tool."""
    function = call.get("function") or {}
    try:
        arguments = json_object(function.get("arguments") or "")
    except ValueError:
        arguments = {}
    written = {"type": "tool_use", "id": call.get("id"), "name": function.get("name")}
    others = _but(call, "id", "type", "function")
    return thaw(written | {"input": arguments} | others)  # type: ignore[no-any-return]


def placed_parts(came: Sequence[Placed], before: Sequence[Any], after: Any) -> list[Placed]:
    """Return the blocks of parts that hooks changed; `before` is how `came` was shown to them.

    A signed thought that was changed is left out: nobody takes it with a signature that is wrong.
    """
    if isinstance(after, str):
        after = [_retold(came, after)] if after else []
    found: list[Placed] = []
    for part, origin in zip(after, aligned(before, after, _alike), strict=True):
        if origin is None:
            found.append(Placed(block_of(part), None))
        elif before[origin] == part:
            found.append(came[origin])
        elif not (was := came[origin].block).get("signature"):
            nothing = {name: None for name in was if was[name] is None}
            found.append(Placed(nothing | block_of(part), came[origin].origin))
    return found


def woven(parts: Iterable[Placed], calls: Iterable[Placed]) -> list[Placed]:
    """Bring parts and calls into the order in which they came; what is new follows its own kind."""
    keyed = [*_keyed(parts, -1), *_keyed(calls, LAST)]
    return [placed for _, placed in sorted(keyed, key=lambda one: one[0])]


def _keyed(given: Iterable[Placed], last: int) -> Iterable[tuple[tuple[int, int], Placed]]:
    reached = (last, 1)
    for placed in given:
        if placed.origin is not None:
            own = (placed.origin, 0)
            reached = own if reached[0] == LAST else max(reached, own)
        else:
            reached = (reached[0], 1)
        yield reached, placed


def _retold(came: Sequence[Placed], text: str) -> dict[str, Any]:
    """Write one text for all the parts; if there was but one, it keeps what it was marked with."""
    texts = [placed.block for placed in came if placed.block.get("type") == "text"]
    marks = _but(texts[0], "citations") if len(texts) == len(came) == 1 else {"type": "text"}
    return marks | {"text": text}


def _alike(before: Any, after: Any) -> bool:
    kinds = [one.get("type") if isinstance(one, Mapping) else "text" for one in (before, after)]
    return kinds[0] == kinds[1]


def _url(source: Mapping[str, Any]) -> str | None:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)} if len(source) == 3:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)} if len(source) == 2:
            return url
    return None


def _but(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}
