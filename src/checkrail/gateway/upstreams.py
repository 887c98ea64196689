"""Upstreams: where the models are, which of them takes a request, and asking it."""

from __future__ import annotations

import asyncio
import io
import logging
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from checkrail.actions.this_machine import is_loopback
from checkrail.config.gateway import FORMATS, UpstreamConfig
from checkrail.engine.extras import needs
from checkrail.engine.matchers import Pattern, compiled
from checkrail.gateway.errors import GatewayError, UpstreamError
from checkrail.gateway.formats.base import UnreadableError
from checkrail.gateway.formats.json_bytes import read_json, write_json
from checkrail.gateway.headers import ACCOUNT, CREDENTIALS, Headers, sent
from checkrail.gateway.patience import AGAIN, pause

with needs("aiohttp", "the gateway", "gateway"):
    import aiohttp
from multidict import CIMultiDict
from yarl import URL

from checkrail.gateway.sent import FAILURES, Sent, not_reached

log = logging.getLogger("checkrail.gateway")

__all__ = ["NoUpstreamError", "Route", "Sent", "UpstreamError", "Upstreams"]

Content = bytes | AsyncIterator[bytes]
"""What a request carries; what comes in pieces can be sent once only."""

BodyFor = Callable[[str], Awaitable[bytes | None]]
"""Gives the body for a provider; None: nothing may be sent there."""

_OPENAI = ("chat", "responses")
_IN_ONE_PIECE = 512 * 1024
_LONGEST_HEADER = 64 * 1024
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client would say of its own; the caller's words stand."""


class NoUpstreamError(GatewayError):
    """No upstream takes a request."""

    def __init__(self, format: str, model: str | None, known: Sequence[UpstreamConfig]) -> None:
        self.format = format
        self.model = model
        what = f"no upstream speaks the API {format!r}"
        if model is not None and any(each.format == format for each in known):
            what = f"no upstream of the API {format!r} takes the model {model[:200]!r}"
        told = (
            f"{each.name} ({each.format}: {', '.join(map(str, each.models))})" for each in known
        )
        configured = f"Configured under gateway.upstreams: {'; '.join(told) or 'none'}"
        super().__init__(404, f"{what}. {configured}")


class Upstreams:
    """All upstreams, and the connections to them. Close it when no answer is open any more."""

    def __init__(self, configs: Iterable[UpstreamConfig]) -> None:
        self.configs = tuple(configs)
        self._places = [Place(config) for config in self.configs]
        self._session: aiohttp.ClientSession | None = None

    def route(self, format: str, model: str | None) -> Route:
        """Find who takes a model: the first that does, then those to fall back to."""
        places = [each for each in self._places if each.takes(format, model)]
        if not places:
            raise NoUpstreamError(format, model, self.configs)
        return Route(self, places, model)

    def passing(self, format: str, model: str | None) -> Route:
        """Find who takes what is only passed on: of that format, else of the nearest."""
        near = _OPENAI if format in _OPENAI else ()
        spoken = {each.format for each in self.configs}
        order = dict.fromkeys((format, *near, *FORMATS))
        return self.route(next((each for each in order if each in spoken), format), model)

    def listing(self, format: str) -> list[Route]:
        """Give everybody who has a list of models for the callers of an API, once each."""
        first = self.passing(format, None)
        spoken = _OPENAI if first.format in _OPENAI else (first.format,)
        found: dict[str, Route] = {}
        for place in self._places:
            if place.config.format in spoken:
                made = Route(self, [place], None, home=first.home)
                found.setdefault(place.base, made)
        return [*found.values()]

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections, which are made when first needed."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NOT_ADDED,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


class Place:
    """One upstream, as it is asked."""

    def __init__(self, config: UpstreamConfig) -> None:
        self.config = config
        self.base = _base(config)
        self.origin = URL(config.url).origin()
        self._tests = [compiled(pattern) for pattern in config.models]
        self._prefixes = [
            _prefix(pattern) if config.strip_prefix else "" for pattern in config.models
        ]
        self._proxy = _proxy(config.url)
        self._timeout = aiohttp.ClientTimeout(
            total=config.timeout_seconds, sock_connect=config.connect_seconds
        )
        self._own = [("accept-encoding", "identity"), *config.headers.items()]
        if config.key is not None and config.format == "messages":
            self._own.append(("x-api-key", config.key))
        elif config.key is not None:
            self._own.append(("authorization", f"Bearer {config.key}"))
        own = frozenset(name.lower().encode() for name, _ in self._own)
        self._without = own | ACCOUNT if own & CREDENTIALS else own

    def takes(self, format: str, model: str | None) -> bool:
        """Return whether requests for a model can be sent here."""
        if format != self.config.format:
            return False
        return model is None or any(test(model) for test in self._tests)

    def provider(self, model: str | None) -> str:
        """Return whose model is asked here: as the config says, by its prefix, or this place."""
        prefix, slash, _ = (model or "").partition("/")
        return self.config.provider or (prefix if slash else "") or self.config.name

    def own_name(self, model: str) -> str:
        """Return the name under which a model is known here: without the prefix of its pattern."""
        for test, prefix in zip(self._tests, self._prefixes, strict=True):
            if test(model):
                return model.removeprefix(prefix) or model
        return model

    def public_name(self, own: str) -> str | None:
        """Return the name by which callers ask for one of this place's models, if they can."""
        for test, prefix in zip(self._tests, self._prefixes, strict=True):
            if test(prefix + own):
                return prefix + own
        return None

    @property
    def renames(self) -> bool:
        """Whether models have other names here than for callers."""
        return any(self._prefixes)

    def body(self, body: Content | None, model: str | None) -> Content | None:
        """Return a body that asks for a model by the name that it has here."""
        if model is None or not isinstance(body, bytes) or self.own_name(model) == model:
            return body
        try:
            found = read_json(body, "the body of the request")
        except UnreadableError:  # it goes as it is: this place says what is wrong with it
            return body
        named = isinstance(found, dict) and found.get("model") == model
        return write_json({**found, "model": self.own_name(model)}) if named else body

    def headers(self, given: Headers, *, stranger: bool) -> CIMultiDict[str]:
        """Return what is sent of a caller's headers; a stranger does not get the caller's key."""
        without = self._without | ACCOUNT if stranger else self._without
        return CIMultiDict([*sent(given, without), *self._own])

    async def ask(
        self, session: aiohttp.ClientSession, request: Request, *, stranger: bool
    ) -> Sent:
        """Send a request, and again while that may help and nothing of an answer has come."""
        headers = self.headers(request.headers, stranger=stranger)
        tries = 1 if request.once else 1 + self.config.retries
        for tried in range(1, tries):
            try:
                answer = await self._once(session, request, headers)
            except UpstreamError as error:
                if not error.again:
                    raise
                wait = pause(tried)
            else:
                wait = pause(tried, answer.response.headers) if answer.status in AGAIN else None
                if wait is None:
                    return answer
                await answer.close()
            await asyncio.sleep(wait or 0)
        return await self._once(session, request, headers)

    async def _once(
        self, session: aiohttp.ClientSession, request: Request, headers: CIMultiDict[str]
    ) -> Sent:
        try:
            async with asyncio.timeout(self.config.first_byte_seconds):
                response = await session.request(
                    request.method,
                    URL(self.base + request.target, encoded=True),
                    data=request.data(),
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._proxy,
                    timeout=self._timeout,
                )
        except FAILURES as error:
            raise not_reached(self.config.name, error) from None
        return Sent(self.config.name, response)


class Request:
    """What an upstream is to be sent."""

    __slots__ = ("body", "headers", "method", "once", "target")

    def __init__(
        self, method: str, path: str, query: bytes, body: Content | None, headers: Headers
    ) -> None:
        self.method = method
        self.target = path.removeprefix("/v1") + (f"?{query.decode('latin-1')}" if query else "")
        self.body = body
        self.headers = headers
        self.once = not isinstance(body, bytes | None)

    def data(self) -> Any:
        """Return the body as the client takes it: a large one is written piece by piece."""
        if isinstance(self.body, bytes) and len(self.body) > _IN_ONE_PIECE:
            return io.BytesIO(self.body)
        return self.body


class Route:
    """The upstreams that take a request, in the order in which they are asked."""

    def __init__(
        self,
        upstreams: Upstreams,
        places: Sequence[Place],
        model: str | None,
        *,
        home: URL | None = None,
    ) -> None:
        config = places[0].config
        self.home = home or places[0].origin  # whose key the caller has, if it has one
        self.name = config.name
        self.format = config.format
        self.provider = places[0].provider(model)
        self._model = model
        self._upstreams = upstreams
        self._places = places

    def __repr__(self) -> str:
        return f"Route({' → '.join(place.config.name for place in self._places)})"

    def public_name(self, own: str) -> str | None:
        """Return how callers name a model of the first of the upstreams, if they can have it."""
        return self._places[0].public_name(own)

    @property
    def renames(self) -> bool:
        """Whether models have other names at the first of the upstreams than for callers."""
        return self._places[0].renames

    async def send(
        self,
        path: str,
        body: Content | None,
        headers: Headers,
        query: bytes = b"",
        *,
        method: str = "POST",
        body_for: BodyFor | None = None,
    ) -> Sent:
        """Return the first good answer, or the last one if none is. Raises `UpstreamError`.

        `body_for` gives the body for upstreams of another provider than the first.
        """
        session = self._upstreams.session
        places = self._places if isinstance(body, bytes | None) else self._places[:1]
        provider, is_refused = self.provider, False
        kept: Sent | None = None
        failure: UpstreamError | None = None
        for place in places:
            last = place is places[-1]
            try:
                if body_for is not None and place.provider(self._model) != provider:
                    provider = place.provider(self._model)
                    written = await body_for(provider)
                    body, is_refused = written or body, written is None
                if is_refused:
                    continue
                own = place.body(body, self._model)
                request = Request(method, path, query, own, headers)
                answer = await place.ask(session, request, stranger=place.origin != self.home)
            except UpstreamError as error:
                _note(error.message, last=last)
                failure = error
                continue
            except BaseException:
                if kept is not None:
                    await kept.close()
                raise
            if kept is not None:
                await kept.close()
            kept = answer
            kept.provider = place.provider(self._model)
            if answer.status not in AGAIN:
                break
            _note(f"the upstream {place.config.name!r} answered {answer.status}", last=last)
        if kept is None:
            assert failure is not None  # noqa: S101 - an answer or an error
            raise failure
        return kept


def _note(told: str, *, last: bool) -> None:
    """Tell whoever runs the gateway that an upstream fails."""
    log.warning("%s: %s", told, "the caller is told" if last else "another one is asked")


def _prefix(pattern: Pattern) -> str:
    """Return the prefix of a pattern such as groq/*; a name without wildcards has none."""
    if not isinstance(pattern, str) or pattern.startswith("/"):
        return ""
    prefix, slash, rest = pattern.partition("/")
    plain = not any(sign in prefix for sign in "*?[")
    return prefix + slash if plain and any(sign in rest for sign in "*?[") else ""


def _base(config: UpstreamConfig) -> str:
    """Return what stands before what comes after `/v1` in a path.

    As their SDKs have it: an address of OpenAI's API ends in its version, which is `/v1` if there
    is no path at all; one of Anthropic's ends before it.
    """
    url = config.url.rstrip("/")
    if config.format == "messages":
        return f"{url.removesuffix('/v1')}/v1"
    return url if urlsplit(url).path else f"{url}/v1"


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; nobody goes to this machine by one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
