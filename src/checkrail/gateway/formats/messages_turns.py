"""Turns of the messages API, written from the messages that hooks left of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from checkrail.agent.models.anthropic_messages import OPENING, SYSTEM, anthropic_messages
from checkrail.engine.frozen import thaw
from checkrail.gateway.formats.aligning import aligned
from checkrail.gateway.formats.messages_blocks import (
    Placed,
    block_of,
    placed_parts,
    shown_call,
    shown_part,
    use_of,
    woven,
)

Message = Mapping[str, Any]
Turn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as hooks see it, the turn that it came from, and the places of its blocks there."""

    message: Message
    turn: int | None
    places: tuple[int, ...]


Pair = tuple[Message, Shown | None]
"""A message after hooks, and what it was; None if it is new."""


def written_turns(turns: Sequence[Turn], came: Sequence[Shown], pairs: list[Pair]) -> list[Turn]:
    """Write messages as turns; one that hooks left alone stays as it came."""
    whole: dict[int | None, list[Message]] = {}
    for shown in came:
        whole.setdefault(shown.turn, []).append(shown.message)
    written: list[Turn] = []
    for turn, group in groupby(_settled(pairs), key=lambda pair: pair[1] and pair[1].turn):
        members = [*group]
        if turn is None:
            written += _new_turns([message for message, _ in members])
        elif [message for message, _ in members] == whole[turn]:
            written.append(turns[turn])
        else:
            written += _changed_turn(turns[turn], members)
    return written


def _settled(pairs: list[Pair]) -> list[Pair]:
    """Put what is new behind the results that it would part from their calls or from each other."""
    following: list[Shown | None] = [None] * len(pairs)
    for place in range(len(pairs) - 1, 0, -1):
        following[place - 1] = pairs[place][1] or following[place]
    settled: list[Pair] = []
    waiting: list[Pair] = []
    reached: int | None = None
    for pair, ahead in zip(pairs, following, strict=True):
        shown = pair[1]
        if shown is not None:
            reached = shown.turn
        parts = ahead is not None and reached is not None and ahead.turn == reached
        if shown is None:
            results = ahead is not None and ahead.message.get("role") == "tool"
            (waiting if parts or results else settled).append(pair)
            continue
        settled.append(pair)
        if not parts:
            settled += waiting
            waiting = []
    return settled + waiting


def _new_turns(messages: list[Message]) -> list[Turn]:
    said = [
        {**message, "role": "user"} if message.get("role") in SYSTEM else message
        for message in messages
    ]
    _, turns = anthropic_messages(said)
    opening = {"role": "user", "content": [{"type": "text", "text": OPENING}]}
    return turns[1:] if turns[0] == opening else turns


def _changed_turn(turn: Turn, members: list[Pair]) -> Iterator[Turn]:
    fields = {name: turn[name] for name in turn if name != "content"}
    for message, _ in members:
        if message.get("role") != "tool":
            fields = _but(message, "content", "tool_calls")
    content: Any = []
    if isinstance(turn.get("content"), list):
        for message, shown in members:
            content += _blocks(message, turn["content"], shown)
    else:
        content = _said(members[0][0])
    if content:
        yield {**thaw(fields), "content": content}


def _said(message: Message) -> str | list[Any]:
    """Write the content of a turn that came as a text."""
    content: Any = message.get("content") or ""
    calls = message.get("tool_calls")
    if isinstance(content, str) and not calls:
        return content
    parts = ([content] if content else []) if isinstance(content, str) else content
    return [*map(block_of, parts), *map(use_of, calls or ())]


def _blocks(message: Message, content: Sequence[Any], shown: Shown | None) -> list[Any]:
    came = [Placed(content[place], place) for place in (shown.places if shown else ())]
    if message.get("role") == "tool":
        return [_result(message, came[0].block, shown)]
    said = [placed for placed in came if placed.block.get("type") != "tool_use"]
    uses = [placed for placed in came if placed.block.get("type") == "tool_use"]
    before = [shown_part(placed.block) for placed in said]
    parts = placed_parts(said, before, message.get("content") or "")
    return [placed.block for placed in woven(parts, _uses(uses, message.get("tool_calls") or ()))]


def _uses(came: list[Placed], calls: Sequence[Message]) -> Iterator[Placed]:
    before = [shown_call(placed.block) for placed in came]
    for call, origin in zip(calls, aligned(before, calls, _same_id), strict=True):
        if origin is None:
            yield Placed(use_of(call), None)
        elif before[origin] == call:
            yield came[origin]
        else:
            yield Placed(use_of(call), came[origin].origin)


def _same_id(before: Message, after: Message) -> bool:
    return bool(before.get("id") == after.get("id"))


def _result(message: Message, block: Message, shown: Shown | None) -> Message:
    was = shown.message if shown else {}
    if message == was:
        return block
    written: Turn = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    content = message.get("content")
    if content == was.get("content"):
        written |= {"content": block["content"]} if "content" in block else {}
    elif isinstance(content, str):
        written["content"] = content
    else:
        blocks = block["content"] if isinstance(block.get("content"), list) else []
        came = [Placed(one, place) for place, one in enumerate(blocks)]
        parts = placed_parts(came, was["content"] if blocks else [], content or [])
        written["content"] = [placed.block for placed in parts]
    if message.get("is_error") or "is_error" in block:
        written["is_error"] = bool(message.get("is_error"))
    others = _but(message, "role", "tool_call_id", "content", "is_error", "name")
    return written | thaw(others)  # type: ignore[no-any-return]


def _but(given: Message, *names: str) -> Turn:
    return {name: value for name, value in given.items() if name not in names}
