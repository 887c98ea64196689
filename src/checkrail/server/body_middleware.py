"""How large a request may be."""

from __future__ import annotations

import contextlib
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkrail.server.auth.guard import RULE_KEY
from checkrail.server.responses import error_response

_JSON = (b"content-type", b"application/json")


class AssumeJson:
    """Has the API's routes take every body for JSON, unless a page of the web sends it.

    Pages may send what does not say that it is JSON to any site, and nobody asks the site first.
    They name their origin with it: from them, it has to be said.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its content type corrected."""
        if scope["type"] == "http" and RULE_KEY in scope:
            headers = dict(scope["headers"])
            said = headers.get(b"content-type", b"").lower()
            if b"json" not in said and b"origin" not in headers:
                others = [each for each in scope["headers"] if each[0] != b"content-type"]
                scope = {**scope, "headers": [*others, _JSON]}
        await self._app(scope, receive, send)


BLUEPRINTS = ("/agents", "/hooks")
BLUEPRINT_BYTES = 1 << 20
"""How large an agent or a hook may be: reading one costs more than its bytes."""

DEEPEST = 100
"""How deeply a body's lists and objects may nest: code that walks them goes as deep."""

_SIGNS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)


class TooLarge(Exception):
    """A body went past a limit while it was read."""


class _Body:
    """What was read of a body, and whether it is too large or nests too deeply."""

    __slots__ = ("_chunks", "_is_json", "_left", "_opened", "too_deep")

    def __init__(self, most: int, *, is_json: bool) -> None:
        self._is_json = is_json
        self._chunks: list[bytes] = []
        self._left = most
        self._opened = 0
        self.too_deep = False

    @property
    def is_refused(self) -> bool:
        """Whether it is too large, or nests too deeply."""
        return self._left < 0 or self.too_deep

    def feed(self, message: Message) -> None:
        """Count a part of it, or raise `TooLarge`."""
        chunk = message.get("body", b"")
        self._left -= len(chunk)
        if self._left < 0:
            raise TooLarge
        if not self._is_json:
            return
        self._opened += chunk.count(b"[") + chunk.count(b"{")
        self._chunks.append(chunk)
        if not message.get("more_body"):
            whole, self._chunks = self._chunks, []
            self.too_deep = self._opened > DEEPEST and _is_deep(b"".join(whole))
            if self.too_deep:
                raise TooLarge


def _is_deep(body: bytes) -> bool:
    """Whether brackets outside of texts nest deeper than they may."""
    depth = 0
    for found in _SIGNS.finditer(body):
        sign = body[found.start()]
        if sign in b"[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif sign in b"]}":
            depth -= 1
    return False


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
        most = self.most
        if scope["path"].startswith(BLUEPRINTS):
            most = min(most, BLUEPRINT_BYTES)
        length = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        if length.isdigit() and int(length) > most:
            await _send_too_large(most, scope, receive, send)
            return
        await self._call_limited(most, scope, receive, send)

    async def _call_limited(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        kind = next((value for key, value in scope["headers"] if key == b"content-type"), b"json")
        body = _Body(most, is_json=b"json" in kind.lower())
        started = False

        async def receive_counted() -> Message:
            message = await receive()
            body.feed(message)
            return message

        async def send_unless_refused(message: Message) -> None:
            nonlocal started
            if body.is_refused and not started:
                return  # whatever the app made of it, the answer is ours
            started = True
            await send(message)

        with contextlib.suppress(TooLarge):
            await self.app(scope, receive_counted, send_unless_refused)
        if body.too_deep and not started:
            told = f"The body is nested deeper than {DEEPEST} levels"
            await error_response(422, "invalid", told)(scope, receive, send)
        elif body.is_refused and not started:
            await _send_too_large(most, scope, receive, send)


async def _send_too_large(most: int, scope: Scope, receive: Receive, send: Send) -> None:
    told = f"The body is larger than limits.body_bytes allows, which is {most} bytes"
    if most == BLUEPRINT_BYTES:
        told = f"The body is larger than {most} bytes, which is the limit for agents and hooks"
    await error_response(413, "too_large", told)(scope, receive, send)
