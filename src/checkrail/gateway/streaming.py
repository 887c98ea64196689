"""A streamed answer that hooks see: passed on, held from its first tool call on, or held whole."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.asking import Asking, kept
from checkrail.gateway.formats.base import Kind, Reading, Refusal, UnreadableError
from checkrail.gateway.formats.json_bytes import is_json
from checkrail.gateway.relaying import is_stream, unanswered
from checkrail.gateway.sse import Piece, Splitter
from checkrail.gateway.upstreams import Sent, UpstreamError
from checkrail.gateway.verdicts import Refused

log = logging.getLogger("checkrail.gateway")

CUT_OFF = "cut_off"
"""Where the metadata of an answer says why there is no more of it."""


class Streamed:
    """One streamed answer on its way to the caller."""

    def __init__(self, asking: Asking, sent: Sent, request: ModelRequest) -> None:
        self._asking = asking
        self._judge = asking.judge
        self._format = asking.format
        self._given = False
        self._work: asyncio.Task[Iterable[bytes]] | None = None
        self._open(sent, request)

    def _open(self, sent: Sent, request: ModelRequest) -> None:
        self._sent = sent
        self._chunks = sent.chunks()
        self._request = request
        self._splitter = Splitter()
        self._reading: Reading = self._format.reading(self._asking.request)
        self._lost = False
        self._taken = False
        self._failed: bytes | None = None
        self._shown = False
        self._held: list[bytes] = []
        self._why = "the caller went away"

    async def content(self) -> AsyncGenerator[bytes]:
        """Yield what the caller gets. Raises `Refused`, as long as nothing was given."""
        try:
            async with aclosing(self._told()) as told:
                async for piece in told:
                    self._given = True
                    yield piece
        except Refused as refused:
            self._why = refused.refusal.message
            if not self._given:
                raise
            yield self._format.error_event(refused.refusal)
        finally:
            await self._close()

    async def _told(self) -> AsyncGenerator[bytes]:
        if self._judge.holds() != "all":
            async with aclosing(self._passed()) as passed:
                async for piece in passed:
                    yield piece
            if self._failed is not None:
                return
            if not self._held:
                await self._observed()
                return
        self._work = asyncio.create_task(self._rest())
        while not self._work.done():
            await asyncio.wait([self._work], timeout=self._asking.keep_alive)
            if not self._work.done():
                yield self._format.keep_alive
        for piece in self._work.result():
            yield piece

    async def _passed(self) -> AsyncGenerator[bytes]:
        """Pass on what need not wait."""
        async with aclosing(self._pieces()) as found:
            async for pieces in found:
                if out := b"".join(self._sorted(pieces)):
                    self._shown = True
                    yield out
                if self._failed is not None or self._held:
                    return

    def _sorted(self, pieces: list[Piece]) -> Iterator[bytes]:
        """Read pieces, give those that can be sent at once, and keep the others."""
        for piece in pieces:
            kind = self._take(piece)
            if self._failed is not None:
                yield self._failed
                return
            if kind == "hidden":
                continue
            if self._held or self._waits(kind):
                self._held.append(piece.raw)
                continue
            if not self._lost:
                self._reading.passed()
            yield piece.raw

    async def _pieces(self) -> AsyncGenerator[list[Piece]]:
        """Yield the pieces of the stream, those of one chunk together."""
        try:
            async for chunk in self._chunks:
                yield self._splitter.feed(chunk)
        except UpstreamError as error:
            raise Refused(unanswered(error)) from None
        if rest := self._splitter.rest():  # the last event may lack its empty line
            yield [replace(self._splitter.feed(b"\n\n")[0], raw=rest)]
        if not (self._lost or self._reading.ended):
            raise Refused(_garbled("it ended before the answer did"))

    def _take(self, piece: Piece) -> Kind:
        if self._lost:
            return "quiet"
        self._taken = self._taken or bool(piece.data)
        try:
            kind = self._read(piece)
        except UnreadableError as error:
            if self._reading.ended:  # whatever comes after the end is no part of the answer
                return "quiet" if self._judge.holds() == "nothing" else "hidden"
            self._lose(piece, error)
            return "quiet"
        if kind == "error":
            self._failed = piece.raw
            self._why = "the upstream ended it with an error"
        return kind

    def _read(self, piece: Piece) -> Kind:
        if piece.odd and self._judge.holds() != "nothing":
            raise UnreadableError("a line of it is no part of an event")
        return self._reading.take(piece)

    def _lose(self, piece: Piece, error: UnreadableError) -> None:
        """Go on without reading, where nobody but observers would: they are not to stop it."""
        if self._judge.holds() == "nothing" and not self._held and is_json(piece.data):
            log.warning("a stream is passed on unread, because it is not as its API is: %s", error)
            self._lost = True
            self._why = str(error)
            return
        raise Refused(_garbled(str(error)))

    def _waits(self, kind: str) -> bool:
        held = self._judge.holds()
        return held == "all" or (held == "tools" and kind in {"tool", "end"})

    async def _rest(self) -> Iterable[bytes]:
        """Read on to the end, see what hooks say of the answer, and give what is left to send."""
        while True:
            await self._hold()
            if self._failed is not None:
                return [self._failed]
            message = self._message()
            answered = await self._seen(message)
            if answered.refusal is not None:
                raise Refused(answered.refusal)
            if answered.message is not None:
                return self._written(message, answered.message)
            if self._shown or answered.again is None:
                raise Refused(_too_late("the model cannot be asked again"))
            await self._sent.close()
            self._open(*await self._asked(answered.again))

    async def _hold(self) -> None:
        async with aclosing(self._pieces()) as found:
            async for pieces in found:
                for piece in pieces:
                    if self._take(piece) != "hidden":
                        self._held.append(piece.raw)
                    if self._failed is not None:
                        return

    async def _asked(self, request: ModelRequest) -> tuple[Sent, ModelRequest]:
        self._taken = False
        sent, request = await self._asking.send(request)
        if is_stream(sent):
            return sent, request
        await sent.close()
        told = f"the upstream answered {sent.status} when it was asked again"
        raise Refused(Refusal(sent.status if sent.status >= 400 else 502, told, "upstream_error"))

    def _message(self) -> AssistantMessage:
        try:
            return self._asking.counted(self._request, self._reading.message)
        except UnreadableError as error:
            raise Refused(_garbled(str(error))) from None

    def _written(self, before: AssistantMessage, after: AssistantMessage) -> Iterable[bytes]:
        if after == before:
            return self._held
        if self._shown and not _continues(before.content, after.content):
            raise Refused(_too_late("a hook changed it"))
        return self._reading.rest(after)

    async def _observed(self) -> None:
        """Let hooks see an answer that the caller has: nobody there can change it."""
        if self._lost or self._failed is not None:
            return
        try:
            message = self._message()
        except Refused as refused:
            if self._judge.holds() != "nothing":
                raise
            log.warning("a stream was passed on unseen: %s", refused)
            return
        await self._seen(message)

    async def _seen(self, message: AssistantMessage) -> Any:
        """Let hooks see the answer to their end, also if the caller goes away meanwhile."""
        self._taken = False
        return await kept(self._judge.answer(self._request, message), self._asking.hold)

    async def _close(self) -> None:
        """Let go of the upstream at once, and tell hooks of an answer that is not whole."""
        work = self._work
        if work is not None:
            work.cancel()
        try:
            await self._sent.close()
        finally:
            if self._taken:
                self._asking.hold(self._cut_off())
        if work is not None:
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()

    async def _cut_off(self) -> None:
        reading = self._reading
        whole = reading.ended and not self._lost and self._failed is None
        try:
            found = reading.message if whole else reading.partial
            message = self._asking.counted(self._request, found)
        except UnreadableError:
            message = AssistantMessage(model=self._request.model)
        if whole:  # the caller did not wait for us
            await self._judge.answer(self._request, message)
            return
        metadata = {**message.metadata, CUT_OFF: self._why}
        await self._judge.cut_off(self._request, dataclasses.replace(message, metadata=metadata))


def _garbled(problem: str) -> Refusal:
    return Refusal(502, f"the upstream's stream cannot be read: {problem}", "upstream_error")


def _too_late(problem: str) -> Refusal:
    return Refusal(500, f"a part of the answer was sent when {problem}", "hook_invalid")


def _continues(before: Any, after: Any) -> bool:
    """Return whether whoever has the one can be told the other."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    alike = isinstance(before, list | tuple) and isinstance(after, list | tuple)
    return alike and [*after[: len(before)]] == [*before]
