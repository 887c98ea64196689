"""Calling a gateway as a client does, without a web server between."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self

from checkrail import HookRegistry
from checkrail.config.gateway import GatewayConfig, UpstreamConfig
from checkrail.gateway.exchange import Call, Gateway, Reply
from checkrail.gateway.formats import FORMATS
from checkrail.gateway.relaying import Flow
from checkrail.gateway.upstreams import Upstreams

from .dialects import Chat, Heard, Messages, Responses
from .provider import Provider

Dialect = Chat | Messages | Responses


@dataclass
class Got:
    """What came back."""

    status: int
    raw: bytes
    heard: Heard
    headers: dict[bytes, bytes]


class Talk(AbstractAsyncContextManager["Talk"]):
    """Somebody who calls a gateway in one of the three APIs, streaming or not."""

    def __init__(
        self,
        dialect: Dialect,
        provider: Provider,
        *,
        stream: bool = False,
        models: tuple[str, ...] = ("*",),
        **settings: Any,
    ) -> None:
        self.records: list[Any] = []
        self.hooks = HookRegistry(self.records.append)
        self.dialect = dialect
        self.provider = provider
        self.stream = stream
        (self.format,) = (each for each in FORMATS.values() if each.name == dialect.name)
        upstream = UpstreamConfig(
            "here", dialect.name, provider.url, models, retries=0, provider="us"
        )
        self.upstreams = Upstreams([upstream])
        config = GatewayConfig(upstreams=(upstream,), **settings)
        self.gateway = Gateway(self.hooks, self.upstreams, config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.hooks.aclose()
        await self.upstreams.close()

    async def reply(self, body: Any = None, **ids: Any) -> Reply:
        """Call, and give the reply as it is."""
        if body is None:
            body = self.dialect.request(stream=self.stream)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer sk-1")]
        return await self.gateway.answer(Call(self.format, data, headers, b"", ids))

    async def ask(self, body: Any = None, **ids: Any) -> Got:
        """Call, and read all that comes."""
        return await self.read(await self.reply(body, **ids))

    async def read(self, reply: Reply) -> Got:
        """Read a reply to its end."""
        streamed = isinstance(reply.content, Flow)
        raw = b"".join([piece async for piece in reply.content]) if streamed else reply.content
        await self.hooks.aclose()
        heard = self.dialect.heard_stream(raw) if streamed else self.dialect.heard(json.loads(raw))
        return Got(reply.status, raw, heard, dict(reply.headers))

    @property
    def told(self) -> str:
        """Everything that records tell."""
        return str([record.wire() for record in self.records])
