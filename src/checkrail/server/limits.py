"""How large a request may be."""

from __future__ import annotations

import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkrail.server.answers import problem


class TooLarge(Exception):
    """A body went past the limit while it was read."""


class BodyLimit:
    """Refuses bodies that are too large, as plain ASGI, before anybody reads them whole.

    What is under the path `apart` has a limit of its own.
    """

    def __init__(self, app: ASGIApp, most: int, apart: str = "") -> None:
        self.app = app
        self.most = most
        self.apart = apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and count what is read of it."""
        if scope["type"] != "http" or (self.apart and scope["path"].startswith(self.apart)):
            await self.app(scope, receive, send)
            return
        length = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        if length.isdigit() and int(length) > self.most:
            await self._refuse(scope, receive, send)
            return
        if length != b"0":  # the web server holds the client to what it announced
            await self.app(scope, receive, send)
            return
        await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0
        started = False

        async def counting() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise TooLarge
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            if read > self.most and not started:
                return  # whatever the app made of it, the answer is ours
            started = True
            await send(message)

        with contextlib.suppress(TooLarge):
            await self.app(scope, counting, sending)
        if read > self.most and not started:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = f"The body is larger than limits.body_bytes allows, which is {self.most} bytes"
        await problem(413, "too_large", told)(scope, receive, send)
