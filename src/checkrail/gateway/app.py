"""The gateway as a plain ASGI app: short ways, for every call of a model comes by here."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson

from checkrail.config.gateway import MIB
from checkrail.config.server import LimitsConfig
from checkrail.connections.watch import hold_to_limits
from checkrail.engine.containment import contain_tasks
from checkrail.gateway.answering import Answering, Send, while_there
from checkrail.gateway.door import Admitted, Door, LocalDoor
from checkrail.gateway.errors import GatewayError, NotTakenError
from checkrail.gateway.exchange import Call, Gateway
from checkrail.gateway.formats import ASIDE, FORMATS
from checkrail.gateway.formats.base import Format, Refusal, UnreadableError
from checkrail.gateway.identity import Identity
from checkrail.gateway.incoming import Gone, Incoming, Receive, canonical
from checkrail.gateway.passing import MODELS, pass_on, spoken
from checkrail.gateway.upstreams import Upstreams

log = logging.getLogger("checkrail.gateway")

Lifespan = Callable[[], AbstractAsyncContextManager[None]]

REQUEST_ID = b"x-checkrail-request-id"
_JSON = (b"content-type", b"application/json")
_LATER = (b"retry-after", b"5")
_HELLO = b'{"ok":true,"service":"checkrail gateway"}'
_DOORSTEP = ("", "/", "/ok")

_CALLS = tuple(path.removeprefix("/v1") for path in (*FORMATS, *ASIDE))
"""How paths end where models are called: behind another prefix, an upstream might do it unseen."""

_OTHERS = re.compile(r"/v1/threads/[^/]+/messages")
"""Paths that end so and call no model."""

_CALLED_AT = (
    f"Models are called at {', '.join(FORMATS)}: base URLs of OpenAI's SDK end in /v1, "
    "those of Anthropic's before it"
)


class GatewayApp:
    """Takes requests, has those judged that call a model, and passes all others on."""

    def __init__(
        self,
        gateway: Gateway,
        upstreams: Upstreams,
        door: Door,
        body_bytes: int,
        lifespan: Lifespan,
        *,
        limits: LimitsConfig,
    ) -> None:
        self._gateway = gateway
        self._upstreams = upstreams
        self._door = door
        self._body_bytes = body_bytes
        self._lifespan = lifespan
        self._limits = limits
        self._by_name = {each.name: each for each in FORMATS.values()}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] == "http":
            await self._answer(Incoming(scope, receive, self._body_bytes), scope, Answering(send))
        elif scope["type"] == "lifespan":
            async with hold_to_limits(scope, self._limits):
                await self._live(receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 4404, "reason": "There is none here"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        contain_tasks()
        async with self._lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await self._upstreams.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(
        self, incoming: Incoming, scope: Mapping[str, Any], answering: Answering
    ) -> None:
        called = _called(incoming)
        try:
            if incoming.path in _DOORSTEP and incoming.method in ("GET", "HEAD"):
                await answering.give(200, [_JSON], _HELLO)
                return
            admitted = await self._door.admit(scope)
            incoming.headers = admitted.headers
            await while_there(
                incoming, answering, self._work(called, incoming, admitted, answering)
            )
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told in its words
            refusal = _refusal(error)
            if answering.started:
                log.warning("an answer was cut off: %s", refusal.message)
                return  # the web server cuts off what is left unfinished
            teller = called or self._by_name[spoken(incoming.path, incoming.headers)]
            headers = [_JSON, _LATER] if refusal.status == 503 else [_JSON]
            await answering.give(refusal.status, headers, orjson.dumps(teller.error(refusal)))

    async def _work(
        self, called: Format | None, incoming: Incoming, admitted: Admitted, answering: Answering
    ) -> None:
        if called is None:
            await self._passed(incoming, answering)
        else:
            await self._judged(called, incoming, admitted, answering)

    async def _judged(
        self, called: Format, incoming: Incoming, admitted: Admitted, answering: Answering
    ) -> None:
        body = await incoming.decoded()
        ids = Identity(incoming.headers, body, key=admitted.key, user=admitted.user)
        path = _spelled(incoming)
        call = Call(called, body, incoming.headers, incoming.query, ids, path)
        reply = await self._gateway.answer(call)
        headers = [*reply.headers, (REQUEST_ID, ids.request_id.encode())]
        await answering.give(reply.status, headers, reply.content)

    async def _passed(self, incoming: Incoming, answering: Answering) -> None:
        path = canonical(incoming.path)
        if path is None or not incoming.path.startswith("/v1/"):
            raise NotTakenError(404, "There is nothing at this path: models are under /v1")
        if incoming.method == "POST" and path.endswith(_CALLS) and not _OTHERS.fullmatch(path):
            raise NotTakenError(404, f"There is nothing at this path. {_CALLED_AT}")
        if not self._gateway.settings.pass_through and not _lists_models(incoming):
            raise NotTakenError(403, "This gateway passes on calls of models and nothing else")
        passed = await pass_on(self._upstreams, incoming)
        await answering.give(passed.status, passed.headers, passed.content)


def gateway_app(
    gateway: Gateway,
    upstreams: Upstreams,
    *,
    door: Door | None = None,
    body_bytes: int = 32 * MIB,
    lifespan: Lifespan = contextlib.nullcontext,
    limits: LimitsConfig | None = None,
) -> GatewayApp:
    """Make the app. `door` lets callers in, those of this machine unless said.

    `lifespan` is what goes on beside it; `upstreams` are closed at its end. `limits` are those of
    the connections to it.
    """
    limits = limits or LimitsConfig()
    return GatewayApp(gateway, upstreams, door or LocalDoor(), body_bytes, lifespan, limits=limits)


def _called(incoming: Incoming) -> Format | None:
    """Return the format of a call of a model, however its path is spelled."""
    if incoming.method != "POST":
        return None
    path = _spelled(incoming)
    return FORMATS.get(path) or ASIDE.get(path)


def _lists_models(incoming: Incoming) -> bool:
    return incoming.method in ("GET", "HEAD") and incoming.path == MODELS


def _spelled(incoming: Incoming) -> str:
    """Return a path as it is commonly spelled."""
    return incoming.path if incoming.path in FORMATS else canonical(incoming.path) or ""


def _refusal(error: Exception) -> Refusal:
    """Say what went wrong to a caller; what nobody foresaw goes to the log, without its words."""
    if isinstance(error, GatewayError):
        return Refusal(error.status, error.message)
    if isinstance(error, UnreadableError):
        return Refusal(400, str(error))
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("a request failed: %s\n%s", type(error).__name__, where)
    return Refusal(500, "The gateway failed; its log says where")
