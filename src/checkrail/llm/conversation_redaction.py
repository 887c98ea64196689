"""What a redacted request does to the conversation that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from checkrail.engine.frozen import freeze
from checkrail.llm.conversation import Message

BLANK = "[redacted]"


def merge_redacted(ours: Sequence[Message], theirs: Sequence[Message]) -> list[Message]:
    """Return our messages with what was redacted in theirs.

    Other hooks may have added messages to a request, for that request alone: they are not taken
    over. What was left out is blanked, for it may have been the secret. What is alike is matched
    from the end, where the two are most likely to agree.
    """
    if len(ours) == len(theirs) and all(map(_stands_at, theirs, ours)):
        return [*theirs]
    start = _common_prefix(ours, theirs)
    if start:
        return [*theirs[:start], *merge_redacted(ours[start:], theirs[start:])]
    known = [message for message in ours if message in theirs]
    mine, yours = ([_match_key(m, known) for m in reversed(found)] for found in (ours, theirs))
    kept = [_blank_message(message) for message in reversed(ours)]
    found = [*reversed(theirs)]
    for block in SequenceMatcher(None, mine, yours, autojunk=False).get_matching_blocks():
        kept[block.a : block.a + block.size] = found[block.b : block.b + block.size]
    return [*reversed(kept)]


def _common_prefix(ours: Sequence[Message], theirs: Sequence[Message]) -> int:
    """Return how many messages the two begin with that are the very same."""
    pairs = zip(ours, theirs, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a is not b), min(len(ours), len(theirs)))


def _match_key(message: Message, known: Sequence[Message]) -> tuple[Any, ...]:
    """Return what identifies a message: itself if it is unchanged, else its position."""
    return *_position_of(message), known.index(message) if message in known else None


def _stands_at(message: Message, place: Message) -> bool:
    return message is place or _position_of(message) == _position_of(place)


def _position_of(message: Message) -> tuple[Any, Any]:
    return message.get("role"), message.get("tool_call_id")


def _blank_message(message: Message) -> Message:
    """Return a message of which nothing is known but its place: the order stays valid."""
    calls = [
        {**call, "function": {**call["function"], "arguments": "{}"}}
        for call in message.get("tool_calls") or ()
    ]
    blank: dict[str, Any] = {**message, "content": BLANK}
    return freeze(blank | ({"tool_calls": calls} if calls else {}))  # type: ignore[no-any-return]
