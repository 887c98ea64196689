"""A streamed answer that hooks see: passed on, held from its first tool call on, or held whole."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.hooks import GatewayHooks
from checkrail.gateway.relay import build_upstream_refusal, is_stream
from checkrail.gateway.upstreams import UpstreamError, UpstreamResponse
from checkrail.gateway.verdicts import Refused
from checkrail.llm.json_bytes import is_json
from checkrail.llm.sse import Piece
from checkrail.llm.wire_format import Format, Kind, Refusal, StreamReader, UnreadableError

T = TypeVar("T")

Hold = Callable[[Coroutine[Any, Any, None]], None]
"""Does something that outlives the caller."""


class StreamContext(Protocol):
    """What a streamed reply has to know of the call that it answers."""

    @property
    def format(self) -> Format:
        """The caller's API."""

    @property
    def judge(self) -> GatewayHooks:
        """The hooks."""

    @property
    def request(self) -> ModelRequest:
        """The request as the caller sent it."""

    @property
    def keep_alive(self) -> float:
        """The seconds of silence after which a sign of life is sent."""

    async def send_request(self, request: ModelRequest) -> tuple[UpstreamResponse, ModelRequest]:
        """Send a request; return the response and the request as sent. Raises `Refused`."""

    def add_cost(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer to a request with its cost."""

    def note_refused(self, refusal: Refusal) -> None:
        """Note why the caller gets no whole answer."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that outlives the caller."""


async def run_detached(work: Awaitable[T], hold: Hold) -> T:
    """Return the result of some work, which goes on if nobody waits for it any more."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def finish_work() -> None:
        try:
            result = await work
        except BaseException as error:
            if done.done():
                raise
            done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    hold(finish_work())
    return await done


log = logging.getLogger("checkrail.gateway")

CUT_OFF = "cut_off"
"""Where the metadata of an answer says why there is no more of it."""


class StreamedReply:
    """One streamed answer on its way to the caller."""

    def __init__(
        self, asking: StreamContext, sent: UpstreamResponse, request: ModelRequest
    ) -> None:
        self._asking = asking
        self._judge = asking.judge
        self._format = asking.format
        self._given = False
        self._has_begun = False
        self._work: asyncio.Task[Iterable[bytes]] | None = None
        self._begun: StreamReader | None = None
        self._stands: AssistantMessage | None = None
        self._shown = False
        self._open_response(sent, request)

    def _open_response(self, sent: UpstreamResponse, request: ModelRequest) -> None:
        self._sent = sent
        self._chunks = sent.chunks()
        self._request = request
        self._splitter = self._format.open_splitter()
        self._reading: StreamReader = self._format.open_stream(self._asking.request)
        self._lost = False
        self._taken = False
        self._failed: bytes | None = None
        self._held: list[bytes] = []
        self._why = "the caller went away"

    async def content(self) -> AsyncGenerator[bytes]:
        """Yield what the caller gets. Raises `Refused`, as long as nothing was sent."""
        try:
            async with aclosing(self._iter_content()) as told:
                async for piece in told:
                    self._given = True
                    yield piece
        except Refused as refused:
            self._why = refused.refusal.message
            if not self._given:
                raise
            self._asking.note_refused(refused.refusal)
            yield self._format.write_stream_error(refused.refusal, begun=self._has_begun)
        finally:
            await self._close_response()

    async def _iter_content(self) -> AsyncGenerator[bytes]:
        if self._judge.current_hold() != "all":
            async with aclosing(self._iter_unheld()) as passed:
                async for piece in passed:
                    yield piece
            if self._failed is not None:
                return
            if not self._held:
                await self._observe_answer()
                return
        self._work = asyncio.create_task(self._finish_held())
        while not self._work.done():
            await asyncio.wait([self._work], timeout=self._asking.keep_alive)
            if not self._work.done():
                yield self._format.keep_alive
        for piece in self._work.result():
            yield piece

    async def _iter_unheld(self) -> AsyncGenerator[bytes]:
        """Yield what need not wait for hooks."""
        async with aclosing(self._iter_pieces()) as found:
            async for pieces in found:
                if out := b"".join(self._sort_pieces(pieces)):
                    self._shown = True
                    yield out
                if self._failed is not None or self._held:
                    return

    def _sort_pieces(self, pieces: list[Piece]) -> Iterator[bytes]:
        """Read pieces, yield those that can be sent at once, and keep the others."""
        for piece in pieces:
            kind = self._take_piece(piece)
            if self._failed is not None:
                yield self._failed
                return
            if kind == "hidden":
                continue
            if self._held or self._should_hold(kind):
                self._held.append(piece.raw)
                continue
            if not self._lost:
                self._reading.mark_sent()
            self._has_begun = self._has_begun or bool(piece.data)
            yield piece.raw

    async def _iter_pieces(self) -> AsyncGenerator[list[Piece]]:
        """Yield the pieces of the stream, those of one chunk together."""
        try:
            async for chunk in self._chunks:
                yield self._splitter.feed(chunk)
        except UpstreamError as error:
            raise Refused(build_upstream_refusal(error)) from None
        if left := self._splitter.finish():
            yield left
        if not (self._lost or self._reading.has_ended):
            raise Refused(_garbled_refusal("it ended before the answer did"))

    def _take_piece(self, piece: Piece) -> Kind:
        if self._lost:
            return "quiet"
        self._taken = self._taken or bool(piece.data)
        try:
            kind = self._read_piece(piece)
        except UnreadableError as error:
            if self._reading.has_ended:  # whatever comes after the end is no part of the answer
                return "quiet" if self._judge.current_hold() == "nothing" else "hidden"
            self._skip_reading(piece, error)
            return "quiet"
        if kind == "error":
            self._failed = self._format.relay_stream_error(piece, begun=self._has_begun)
            self._why = "the upstream ended it with an error"
            self._asking.note_refused(Refusal(502, self._why, "upstream_error"))
        return kind

    def _read_piece(self, piece: Piece) -> Kind:
        if piece.odd and self._judge.current_hold() != "nothing":
            raise UnreadableError("a line of it is no part of an event")
        return self._reading.read_piece(piece)

    def _skip_reading(self, piece: Piece, error: UnreadableError) -> None:
        """Go on without reading, where only observers would see the answer."""
        if self._judge.current_hold() == "nothing" and not self._held and is_json(piece.data):
            log.warning("a stream is passed on unread, because it is not as its API is: %s", error)
            self._lost = True
            self._why = str(error)
            return
        raise Refused(_garbled_refusal(str(error)))

    def _should_hold(self, kind: str) -> bool:
        held = self._judge.current_hold()
        return held == "all" or (held == "tools" and kind in {"tool", "end"})

    async def _finish_held(self) -> Iterable[bytes]:
        """Read to the end, fire the hooks on the answer, and return what is left to send."""
        while True:
            await self._hold_pieces()
            if self._failed is not None:
                return [self._failed]
            message = self._read_message()
            answered = await self._fire_answer(message)
            if answered.refusal is not None:
                raise Refused(answered.refusal)
            if answered.message is not None:
                sent = message.content if answered.unmarked is None else answered.unmarked
                return self._write_changes(message, answered.message, sent)
            if answered.again is None:
                raise Refused(_too_late_refusal("the model cannot be asked again"))
            self._keep_begun(answered.stands)
            await self._sent.close()
            self._open_response(*await self._request_again(answered.again))

    def _keep_begun(self, stands: AssistantMessage | None) -> None:
        """Keep the answer of which the caller has the beginning: the next one goes on with it."""
        if not self._shown or self._begun is not None:
            return
        if stands is None:
            raise Refused(_too_late_refusal("the model cannot be asked again"))
        self._begun, self._stands = self._reading, stands

    async def _hold_pieces(self) -> None:
        async with aclosing(self._iter_pieces()) as found:
            async for pieces in found:
                for piece in pieces:
                    if self._take_piece(piece) != "hidden":
                        self._held.append(piece.raw)
                    if self._failed is not None:
                        return

    async def _request_again(self, request: ModelRequest) -> tuple[UpstreamResponse, ModelRequest]:
        self._taken = False
        sent, request = await self._asking.send_request(request)
        if is_stream(sent, self._format):
            return sent, request
        await sent.close()
        told = f"the upstream answered {sent.status} when it was asked again"
        raise Refused(Refusal(sent.status if sent.status >= 400 else 502, told, "upstream_error"))

    def _read_message(self) -> AssistantMessage:
        try:
            return self._asking.add_cost(self._request, self._reading.message)
        except UnreadableError as error:
            raise Refused(_garbled_refusal(str(error))) from None

    def _write_changes(
        self, before: AssistantMessage, after: AssistantMessage, shown: Any
    ) -> Iterable[bytes]:
        """Write an answer that hooks changed for a caller who may have a part of `shown`."""
        if self._begun is not None:
            self._judge.note_id(self._begun.response_id, self._reading.response_id)
            return self._begun.write_rest(after)
        if after == before:
            return self._held
        if self._shown and not _is_continuation(shown, after.content):
            raise Refused(_too_late_refusal("a hook changed it"))
        return self._reading.write_rest(after)

    async def _observe_answer(self) -> None:
        """Let hooks see an answer that the caller has, which nobody can change."""
        if self._lost or self._failed is not None:
            return
        try:
            message = self._read_message()
        except Refused as refused:
            if self._judge.current_hold() != "nothing":
                raise
            log.warning("a stream was passed on unseen: %s", refused)
            return
        await self._fire_answer(message)

    async def _fire_answer(self, message: AssistantMessage) -> Any:
        """Fire the hooks on the answer to their end, even if the caller goes away meanwhile."""
        self._taken = False
        return await run_detached(
            self._judge.check_answer(self._request, message, self._stands), self._asking.spawn
        )

    async def _close_response(self) -> None:
        """Close the upstream at once, and let hooks see an answer that is not whole."""
        work = self._work
        if work is not None:
            work.cancel()
        try:
            await self._sent.close()
        finally:
            if self._taken:
                self._asking.spawn(self._observe_cut_off(*self._read_cut_off()))
        if work is not None:
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()

    def _read_cut_off(self) -> tuple[AssistantMessage, bool]:
        """Return what there was of an answer, and whether it was whole."""
        reading = self._reading
        whole = reading.has_ended and not self._lost and self._failed is None
        try:
            found = reading.message if whole else reading.partial
            return self._asking.add_cost(self._request, found), whole
        except UnreadableError:
            return AssistantMessage(model=self._request.model), whole

    async def _observe_cut_off(self, message: AssistantMessage, whole: bool) -> None:  # noqa: FBT001
        if whole:  # the caller did not wait for us
            await self._judge.check_answer(self._request, message)
            return
        metadata = {**message.metadata, CUT_OFF: self._why}
        await self._judge.observe_cut_off(
            self._request, dataclasses.replace(message, metadata=metadata)
        )


def _garbled_refusal(problem: str) -> Refusal:
    return Refusal(502, f"the upstream's stream cannot be read: {problem}", "upstream_error")


def _too_late_refusal(problem: str) -> Refusal:
    return Refusal(500, f"a part of the answer was sent when {problem}", "hook_invalid")


def _is_continuation(before: Any, after: Any) -> bool:
    """Return whether a caller who has the first text can still be sent the second."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    alike = isinstance(before, list | tuple) and isinstance(after, list | tuple)
    return alike and [*after[: len(before)]] == [*before]
