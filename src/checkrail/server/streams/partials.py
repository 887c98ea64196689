"""Messages that grow: what the older `messages` mode shows while a model speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_RICH = (
    "tool_call_chunks",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "additional_kwargs",
    "response_metadata",
)
_CHUNKS = frozenset(
    f"{kind}MessageChunk" for kind in ("AI", "Human", "System", "Chat", "Tool", "Function")
)


def is_chunk(message: Mapping[str, Any]) -> bool:
    """Whether this is a piece of a message."""
    return message.get("type") in _CHUNKS


def is_plain(chunk: Mapping[str, Any]) -> bool:
    """Whether a piece brings text and nothing else."""
    return type(chunk.get("content")) is str and not any(map(chunk.get, _RICH))


def revive_message(message: Mapping[str, Any]) -> Any:
    """Return LangChain's own message, or chunk of one."""
    from langchain_core.messages import messages_from_dict

    return messages_from_dict([{"type": message["type"], "data": dict(message)}])[0]


class Partials:
    """The messages of one run so far, by their ids."""

    def __init__(self) -> None:
        self._growing: dict[str, _PartialMessage] = {}
        self._known: set[str] = set()

    def feed(
        self, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """Take in a chunk or a whole message, and yield what it is now."""
        name = str(message.get("id"))
        if name not in self._known:
            self._known.add(name)
            yield "messages/metadata", {name: {"metadata": metadata}}
        if is_chunk(message):
            yield "messages/partial", [self._grow_message(name, message)]
        else:
            yield "messages/complete", [message]

    def _grow_message(self, name: str, message: Mapping[str, Any]) -> dict[str, Any]:
        growing = self._growing.get(name)
        if growing is None:
            growing = self._growing[name] = _PartialMessage(message)
        else:
            growing.add(message)
        return dict(growing.shown)


class _PartialMessage:
    """One message that chunks are added to. Most of them are plain text, which is quick to add."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self._whole = revive_message(message)
        self._pending = ""
        self.shown = self._render()

    def add(self, message: Mapping[str, Any]) -> None:
        if is_plain(message) and type(self.shown["content"]) is str:
            self._pending += message["content"]
            self.shown["content"] += message["content"]
            return
        chunk = revive_message(message)
        if self._pending:
            self._whole += type(self._whole)(content=self._pending, id=self._whole.id)
            self._pending = ""
        self._whole += chunk
        self.shown = self._render()

    def _render(self) -> dict[str, Any]:
        from langchain_core.messages import message_chunk_to_message

        shown: dict[str, Any] = message_chunk_to_message(self._whole).model_dump()
        return shown
