"""Requests that last end with the key that they were made with."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkrail.runs.events.hub import Hub, Wakeup
from checkrail.server.auth.caller import SCOPE_KEY, Caller, Role
from checkrail.server.auth.errors import Unauthenticated, send_refusal
from checkrail.store import keys
from checkrail.store.database import Database

log = logging.getLogger("checkrail.server.auth")

RECHECK = 2.0
"""Seconds between looks at the keys of open requests: a notice that was lost costs no more."""


def revoked_error() -> Unauthenticated:
    """Return the refusal of a request whose key went out of force while it was open."""
    return Unauthenticated("The API key of this request was revoked, or its role was changed")


class KeyWatch:
    """Knows which keys have requests open, and looks whether they are still in force."""

    def __init__(self, database: Database, hub: Hub) -> None:
        self._database = database
        self._hub = hub
        self._open: dict[tuple[str, Role], set[asyncio.Future[None]]] = {}

    @contextlib.contextmanager
    def watch_key(self, caller: Caller | None) -> Iterator[asyncio.Future[None]]:
        """Yield a future that is done once a caller's key is not what it was.

        Callers whom something else than a key let in cannot be looked up again.
        """
        revoked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if caller is None or caller.key_id is None:
            yield revoked
            return
        key = (caller.key_id, caller.role)
        self._open.setdefault(key, set()).add(revoked)
        try:
            yield revoked
        finally:
            self._open[key].discard(revoked)
            if not self._open[key]:
                del self._open[key]

    async def serve(self) -> None:
        """Check after every notice and every `RECHECK` seconds, until cancelled."""
        with Wakeup(self._hub, keys.CHANGED) as bell:
            while True:
                await bell.wait(RECHECK)
                if self._open:
                    try:
                        await self._check()
                    except Exception as error:  # noqa: BLE001 - the next look may reach it
                        log.warning("keys could not be looked up: %s", type(error).__name__)

    async def _check(self) -> None:
        looked_up = [*self._open]  # what is opened meanwhile is looked up the next time
        ids = [key_id for key_id, _ in looked_up]
        roles = await self._database.read(lambda reads: keys.roles_in_force(reads, ids))
        for key_id, role in looked_up:
            if roles.get(key_id) != role:
                for revoked in self._open.get((key_id, role), ()):
                    if not revoked.done():
                        revoked.set_result(None)


class EndWithKey:
    """An ASGI app whose requests seem to be given up by their clients once a key is revoked."""

    def __init__(self, app: ASGIApp, watch: KeyWatch) -> None:
        self._app = app
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and end its answer where the app leaves it unfinished."""
        started = ended = False

        async def pass_on(message: Message) -> None:
            nonlocal started, ended
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        with self._watch.watch_key(scope.get(SCOPE_KEY)) as revoked:

            async def receive_until_revoked() -> Message:
                received = asyncio.ensure_future(receive())
                ends: set[asyncio.Future[Any]] = {received, revoked}
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    return received.result() if received.done() else {"type": "http.disconnect"}
                finally:
                    received.cancel()

            await self._app(scope, receive_until_revoked, pass_on)
            if not revoked.done() or ended:
                return
        if started:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await send_refusal(revoked_error(), scope, receive, send)
