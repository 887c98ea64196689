"""Socket Mode: Slack's payloads over a WebSocket that we open, where nobody can reach us."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from checkrail.actions.addresses import find_proxy
from checkrail.channels.protocol import ChannelError, RetryLater
from checkrail.channels.slack.api import SlackApi
from checkrail.extras import needs

with needs("aiohttp", "the Slack channel", "slack"):
    import aiohttp

Payload = Mapping[str, Any]

HEARTBEAT = 20.0
"""Seconds between pings; a socket without a pong is closed after half of them."""

_LONGEST_WAIT = 60.0
_STABLE = 5.0
_BACKLOG = 1000
_LAST_WORDS = 3.0

_log = logging.getLogger(__name__)


class SocketMode:
    """One connection that is made anew whenever it ends."""

    def __init__(
        self,
        name: str,
        api: SlackApi,
        app_token: str,
        take: Callable[[Sequence[Payload]], Awaitable[None]],
    ) -> None:
        self._name = name
        self._api = api
        self._app_token = app_token
        self._take = take
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run(), name=f"socket of channel {self._name}")

    async def close(self) -> None:
        """Disconnect. What was not acknowledged, Slack sends to another connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        tries = 0
        while True:
            began = time.monotonic()
            wait: float | None = None
            try:
                await self._serve_connection()
            except (ChannelError, aiohttp.ClientError, TimeoutError, OSError) as error:
                shown = error if isinstance(error, ChannelError) else type(error).__name__
                _log.warning("channel %s: no socket to Slack: %s", self._name, shown)
                wait = error.after if isinstance(error, RetryLater) else None
            except Exception as error:  # noqa: BLE001 - whatever it is, another socket may do
                _log.error("channel %s: the socket failed: %s", self._name, type(error).__name__)
            tries = 0 if time.monotonic() - began > _STABLE else tries + 1
            await asyncio.sleep(wait or _pause(tries))

    async def _serve_connection(self) -> None:
        """Take payloads from one connection until either side ends it."""
        async with await self._connect() as socket:
            envelopes: asyncio.Queue[Payload] = asyncio.Queue(_BACKLOG)
            taker = asyncio.create_task(self._take_envelopes(socket, envelopes))
            try:
                await self._read_frames(socket, envelopes)
                with suppress(TimeoutError):
                    await asyncio.wait_for(envelopes.join(), _LAST_WORDS)
            finally:
                taker.cancel()
                await asyncio.gather(taker, return_exceptions=True)

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        opened = self._api.client.apps_connections_open(app_token=self._app_token)
        url = (await self._api.call(opened)).get("url", "")
        return await self._api.session.ws_connect(url, heartbeat=HEARTBEAT, proxy=find_proxy(url))

    async def _read_frames(
        self, socket: aiohttp.ClientWebSocketResponse, envelopes: asyncio.Queue[Payload]
    ) -> None:
        async for frame in socket:
            envelope = _read_frame(frame)
            if envelope.get("type") == "disconnect":
                _log.info("channel %s: Slack asks for a new socket", self._name)
                return
            if "envelope_id" in envelope:
                await envelopes.put(envelope)

    async def _take_envelopes(
        self, socket: aiohttp.ClientWebSocketResponse, envelopes: asyncio.Queue[Payload]
    ) -> None:
        """Take what has come in, all at once, and acknowledge it only then."""
        while True:
            batch = [await envelopes.get()]
            while not envelopes.empty():
                batch.append(envelopes.get_nowait())
            try:
                await self._take([_payload_of(each) for each in batch])
                for envelope in batch:
                    await socket.send_json({"envelope_id": envelope["envelope_id"]})
            except (aiohttp.ClientError, OSError) as error:
                _log.info("channel %s: not acknowledged: %s", self._name, type(error).__name__)
            except Exception:  # noqa: BLE001 - it is logged, as if nothing had come
                _log.exception("channel %s: not taken, so Slack sends it again", self._name)
            for _ in batch:
                envelopes.task_done()


def _pause(tries: int) -> float:
    """Return the seconds to wait after so many connections that did not last."""
    return min(_LONGEST_WAIT, 2.0 ** min(tries - 2, 10)) if tries else 0.0


def _read_frame(frame: aiohttp.WSMessage) -> Payload:
    """Return what a frame says; empty if it is nothing of Socket Mode."""
    if frame.type is not aiohttp.WSMsgType.TEXT:
        return {}
    try:
        data = json.loads(frame.data)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _payload_of(envelope: Payload) -> Payload:
    payload = envelope.get("payload")
    return payload if isinstance(payload, dict) else {}
