"""Streamed answers as LiteLLM has them: as bytes to hooks and callers, whatever they come as."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, cast

from checkrail.adapters.litellm.calls import Call
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.errors import UpstreamError
from checkrail.gateway.formats.chat_stream import DONE
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.sse import event
from checkrail.gateway.streaming import Streamed
from checkrail.gateway.upstreams import Sent
from checkrail.gateway.verdicts import Refused


async def streamed(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield what the caller gets of a stream. Raises `Refused`, as long as nothing was given.

    LiteLLM ends streams itself where the API has a word for that.
    """
    pieces = _judged(call, response) if call.synthetic is None else _made(call, response)
    async with aclosing(pieces):
        async for piece in pieces:
            if piece != DONE:
                yield piece


async def _made(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield an answer that no model gave, in place of what LiteLLM made of it."""
    async for _ in response:
        pass
    for piece in call.format.stream(call.synthetic or AssistantMessage(), call.request):
        yield piece


async def _judged(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield an answer as hooks leave it; if it breaks off, LiteLLM tells so, and logs it."""
    chunks = Chunks(call, response)
    stream = Streamed(call, cast("Sent", chunks), call.sent)
    try:
        async with aclosing(stream.content()) as content:
            async for piece in content:
                if chunks.failure is not None:
                    break
                yield piece
    except Refused:
        if chunks.failure is None:
            raise
    if chunks.failure is not None:
        raise chunks.failure


class Chunks:
    """A stream of LiteLLM's, as an upstream's answer that is read in bytes.

    What breaks it off is kept in `failure`.
    """

    status = 200

    def __init__(self, call: Call, response: Any) -> None:
        self.headers = [(b"content-type", b"text/event-stream")]
        self.failure: Exception | None = None
        self._call = call
        self._response = response
        self._reading: Any = None

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the stream as it comes in. Raises `UpstreamError` if it breaks off."""
        self._reading = reading = self._read()
        return reading

    async def _read(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._response:
                for piece in _bytes(self._call, chunk):
                    yield piece
        except Exception as error:
            self.failure = error
            raise UpstreamError(502, "the model broke off in the middle of its answer") from error

    async def close(self) -> None:
        """Let go of the stream; one that somebody reads is let go of by them."""
        if self._reading is not None and not self._reading.ag_running:
            await self._reading.aclose()


def _bytes(call: Call, chunk: Any) -> Iterator[bytes]:
    if isinstance(chunk, bytes | str):
        yield chunk.encode() if isinstance(chunk, str) else chunk
        return
    dump = getattr(chunk, "model_dump", None)
    body = dump(mode="json", exclude_none=True) if dump is not None else chunk
    if call.format.name == "chat" and isinstance(body, dict):
        body = _chat(call, body)
    name = body.get("type") if isinstance(body, dict) and call.format.name != "chat" else None
    yield event(write_json(body), name if isinstance(name, str) else None)


def _chat(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """Give a piece as the API has it: usage stands alone, and the model is the one asked for."""
    choices = body.get("choices") or []
    said = any(choice.get("delta") or choice.get("finish_reason") for choice in choices)
    choices = choices if said or not body.get("usage") else []
    return body | {"model": call.request.model, "choices": choices}
