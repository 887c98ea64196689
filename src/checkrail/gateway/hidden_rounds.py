"""Rounds that callers know nothing of: calls that were blocked, and what the model was told.

A caller sends its conversation again with every request, as it knows it. The model would find an
answer there that follows from nothing, and would try what was blocked once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any

from checkrail.engine.event import Context
from checkrail.engine.frozen import freeze
from checkrail.engine.values import AssistantMessage
from checkrail.llm.conversation import Message, text_of
from checkrail.llm.gemini.parts import MADE
from checkrail.recent import RecentEntries

KEPT = 2_000
"""How many answers are remembered with the rounds before them."""

WEIGHT = 32 * 1024 * 1024
"""How much of those rounds is kept, in characters."""

UNSTEADY = ("system", "developer")
"""Roles of messages that clients write anew for each request."""

Calls = list[tuple[str, str]]


class HiddenRounds:
    """Remembers what stood before answers, and puts it back where they are sent again.

    An answer is known by itself and by all that was said before it, so that no conversation gets
    what belongs to another.
    """

    def __init__(self, kept: int = KEPT, weight: int = WEIGHT) -> None:
        self._rounds: RecentEntries[tuple[Sequence[Message], int]] = RecentEntries(kept)
        self._owners: RecentEntries[None] = RecentEntries(kept)
        self._ids: RecentEntries[str] = RecentEntries(kept)
        self._weight = weight
        self._weighs = 0

    def store(
        self,
        context: Context,
        messages: Sequence[Message],
        answer: AssistantMessage,
        rounds: Sequence[Message],
    ) -> None:
        """Remember the rounds before an answer to these messages."""
        weight = len(json.dumps(rounds, default=str))
        if weight > self._weight:
            return
        calls = [(_steady_id(call.id), call.name) for call in answer.tool_calls]
        story = _Story(_owner_of(context), messages)
        key = story.key(_steady_text(text_of(answer.content)), calls)
        self._owners.put(_owner_of(context), None)
        for _, gone in self._rounds.put(key, (freeze([*rounds]), weight)):
            self._weighs -= gone
        self._weighs += weight
        while self._weighs > self._weight:
            self._weighs -= self._rounds.pop_oldest()[1]

    def restore(self, context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages with the rounds before their answers; the very same if none is known."""
        owner = _owner_of(context)
        if self._owners.get(owner, known=False) is False:
            return messages
        story = _Story(owner)
        found: list[Message] = []
        for speaks, group in groupby(messages, _is_answer):
            turn = [*group]
            if speaks:
                found += self._find_rounds(story, turn)
            found += turn
            story.add(turn)
        return messages if len(found) == len(messages) else found

    def _find_rounds(self, story: _Story, turn: Sequence[Message]) -> Sequence[Message]:
        """Return the rounds before an answer; a client may name calls that came without an id."""
        text, calls = _text_of_turn(turn), [*_calls_of_turn(turn)]
        for known in (calls, [("", name) for _, name in calls]):
            rounds = self._rounds.get(story.key(text, known))
            if rounds is not None:
                return rounds[0]
        return ()

    def store_id(self, context: Context, first: str, last: str) -> None:
        """Remember under which id a provider knows an answer that has another one for its caller.

        An answer that goes on after a hidden round keeps the id that it began with.
        """
        self._ids.put((_owner_of(context), first), last)

    def find_id(self, context: Context, first: Any) -> str | None:
        """Return the id under which the provider knows an answer, if it is another one."""
        found = self._ids.get((_owner_of(context), first)) if isinstance(first, str) else None
        return found if isinstance(found, str) else None


class _Story:
    """What was said so far, as a digest."""

    def __init__(self, owner: Any, messages: Sequence[Message] = ()) -> None:
        self._digest = blake2b(_bytes_of(owner), digest_size=20)
        self.add(messages)

    def add(self, messages: Sequence[Message]) -> None:
        """Go on with what was said; an answer is one turn, in however many messages it comes."""
        for speaks, group in groupby(messages, _is_answer):
            turn = [*group]
            if speaks:
                self._digest.update(_identity_of(_text_of_turn(turn), [*_calls_of_turn(turn)]))
            else:
                self._add_messages(turn)

    def _add_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.get("role") not in UNSTEADY:
                text = text_of(message.get("content")).encode(errors="surrogatepass")
                about = message.get("role"), message.get("tool_call_id"), len(text)
                self._digest.update(_bytes_of(about))
                self._digest.update(text)

    def key(self, text: str, calls: Calls) -> bytes:
        """Return the key of an answer that is given now."""
        digest = self._digest.copy()
        digest.update(_identity_of(text, calls))
        return digest.digest()


def _identity_of(text: str, calls: Calls) -> bytes:
    """Return what tells an answer apart: its calls, beside which clients may leave out texts."""
    return _bytes_of([None if calls else text, calls])


def _owner_of(context: Context) -> tuple[Any, ...]:
    user = context.user and context.user.identity
    return user, context.metadata.get("api_key"), context.session_id


def _is_answer(message: Message) -> bool:
    return message.get("role") == "assistant"


def _text_of_turn(turn: Sequence[Message]) -> str:
    return _steady_text("".join(text_of(message.get("content")) for message in turn))


def _calls_of_turn(turn: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in turn:
        for call in message.get("tool_calls") or ():
            inner = next((call[name] for name in ("function", "custom") if name in call), call)
            named = inner.get("name") if isinstance(inner, Mapping) else None
            yield _steady_id(str(call.get("id") or "")), str(named or "")


def _steady_id(id: str) -> str:
    """Return the id of a call, or nothing if its API has none and it was made up here."""
    return "" if id.startswith(MADE) else id


def _steady_text(text: str) -> str:
    """Return a text without what clients trim when they send it again."""
    return " ".join(text.split())


def _bytes_of(value: Any) -> bytes:
    return json.dumps(value, default=str).encode(errors="surrogatepass")
