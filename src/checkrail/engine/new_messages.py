"""Which messages of a request are new since the last request of its conversation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.engine.values import plain
from checkrail.recent import RecentEntries

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook
    from checkrail.engine.dispatch_state import Dispatch

SEEN_MESSAGES = 50_000
"""How many messages a registry remembers."""

_CHANGING = frozenset({"request_id", "tool_call_id", "attempt", "iteration"})
_OF_A_RUN = frozenset({"run_id", "parent_run_id"})
_KEY = os.urandom(32)
"""Nobody outside of this process can make two messages that have one digest."""

SeenMessages = RecentEntries["BoundHook"]
"""The hooks that let a message through, each under its id and the digest of the message."""


class NewMessages:
    """Tells each hook the messages of one request that it has not let through before.

    Only a request that passed is remembered: what was blocked, or what a hook failed on, is new
    again. So is everything to a hook that was loaded anew, or if another model is called.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._seen = dispatch.scope.outermost.seen_messages
        self._messages: Sequence[Any] = ()
        self._keys: list[bytes] = []
        self._shown: list[tuple[BoundHook, list[bytes]]] = []

    def find_in(self, messages: Sequence[Any]) -> list[Any]:
        """Return those of the messages that are new to the hook whose turn it is."""
        bound = getattr(self._dispatch, "bound", None)
        if bound is None:
            return [*messages]
        if messages is not self._messages:
            self._messages = messages
            self._keys = [*_message_keys(self._dispatch, messages)]
        keys = self._keys
        self._shown.append((bound, keys))
        known = (self._seen.get((id(bound), key)) is bound for key in keys)
        return [said for said, is_known in zip(messages, known, strict=True) if not is_known]

    def remember(self) -> None:
        """Remember what was shown, if all hooks were called and let the request through."""
        if self._dispatch.is_partial or self._is_held_up():
            return
        for bound, keys in self._shown:
            for key in keys:
                self._seen.put((id(bound), key), bound)

    def _is_held_up(self) -> bool:
        """Return whether a hook decided anything, asked somebody, or failed."""
        ruling = self._dispatch.ruling
        if ruling is not None and (ruling.outcome is not None or ruling.asks):
            return True
        return any(call.failure for call in self._dispatch.results())


def _message_keys(dispatch: Dispatch, messages: Sequence[Any]) -> Iterator[bytes]:
    """Yield a key for each message: what it is, how often it was said before, and by whom."""
    from hashlib import blake2b  # slow to import, and most programs never need it

    start = blake2b(_conversation_of(dispatch), key=_KEY, digest_size=16)
    said: Counter[bytes] = Counter()
    for message in messages:
        found = start.copy()
        found.update(_written(message))
        digest = found.digest()
        yield digest + said[digest].to_bytes(4, "big")
        said[digest] += 1


def _conversation_of(dispatch: Dispatch) -> bytes:
    context, request = dispatch.scope.context, dispatch.original
    is_named = context.thread_id is not None or context.session_id is not None
    left_out = _CHANGING | _OF_A_RUN if is_named else _CHANGING
    ids = {name: getattr(context, name) for name in context.__slots__ if name not in left_out}
    return _written([ids, request.model, request.provider])


def _written(data: Any) -> bytes:
    import json

    text = json.dumps(data, default=_plain_fields, ensure_ascii=False)
    return len(text).to_bytes(8, "big") + text.encode(errors="surrogatepass")


def _plain_fields(value: Any) -> Any:
    """Return a value as JSON data; one that has no such form is like none but itself, this once."""
    return plain(value, lambda _: os.urandom(8).hex())
