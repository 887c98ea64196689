"""Calling a gateway as a client does, without a web server between."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self

from checkrail import HookRegistry
from checkrail.config.gateway import GatewayConfig, UpstreamConfig
from checkrail.gateway.call import Gateway, ModelCall, Reply
from checkrail.gateway.relay import ReplyStream
from checkrail.gateway.upstreams import Upstreams
from checkrail.llm.formats import FORMATS, open_format
from checkrail.llm.wire_format import Format

from .dialects import Dialect, Heard
from .place import PATHS
from .provider import Provider


def format_at(target: str) -> Format:
    """Give the API that is called at a path."""
    path, _, query = target.partition("?")
    found = FORMATS.get(path) or open_format(path, query)
    assert found is not None
    return found


@dataclass
class Got:
    """What came back."""

    status: int
    raw: bytes
    heard: Heard
    headers: dict[bytes, bytes]


class Talk(AbstractAsyncContextManager["Talk"]):
    """Somebody who calls a gateway in one of the APIs, streaming or not."""

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
        upstream = UpstreamConfig(
            "here", dialect.name, provider.url, models, retries=0, provider="us"
        )
        self.upstreams = Upstreams([upstream])
        settings = {"blocked_tool": "text", **settings}  # one call of the model is one answer
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
        named = self.dialect.request(stream=self.stream) if isinstance(body, bytes) else body
        target, written = self.dialect.sent(PATHS[self.dialect.name], named)
        data = body if isinstance(body, bytes) else json.dumps(written).encode()
        path, _, query = target.partition("?")
        headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer sk-1")]
        called = format_at(target)
        return await self.gateway.answer(
            ModelCall(called, data, headers, query.encode(), ids, path)
        )

    @property
    def format(self) -> Format:
        """The API, as it is called here."""
        asked = self.dialect.request(stream=self.stream)
        return format_at(self.dialect.sent(PATHS[self.dialect.name], asked)[0])

    async def ask(self, body: Any = None, **ids: Any) -> Got:
        """Call, and read all that comes."""
        return await self.read(await self.reply(body, **ids))

    async def read(self, reply: Reply) -> Got:
        """Read a reply to its end."""
        streamed = isinstance(reply.content, ReplyStream)
        raw = b"".join([piece async for piece in reply.content]) if streamed else reply.content
        await self.hooks.aclose()
        heard = self.dialect.heard_stream(raw) if streamed else self.dialect.heard(json.loads(raw))
        return Got(reply.status, raw, heard, dict(reply.headers))

    @property
    def told(self) -> str:
        """Everything that records tell."""
        return str([record.wire() for record in self.records])
