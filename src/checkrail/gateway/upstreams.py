"""Upstreams: where the models are, which of them takes a request, and asking it."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from checkrail.actions.addresses import find_proxy
from checkrail.config.gateway import UpstreamConfig
from checkrail.engine.matchers import Pattern, compile_pattern
from checkrail.extras import needs
from checkrail.gateway.errors import GatewayError, UpstreamError
from checkrail.gateway.headers import (
    ACCOUNT,
    CREDENTIALS,
    Headers,
    headers_to_caller,
    headers_to_upstream,
    is_credential,
    retries_itself,
    without_signature,
)
from checkrail.gateway.signing import build_signer
from checkrail.llm.formats import BY_NAME, NAMED_BY_PATH
from checkrail.llm.json_bytes import read_json, write_json
from checkrail.llm.wire_format import UnreadableError

with needs("aiohttp", "the gateway", "gateway"):
    import aiohttp
from multidict import CIMultiDict
from yarl import URL

__all__ = ["NoUpstreamError", "Route", "UpstreamError", "UpstreamResponse", "Upstreams"]

log = logging.getLogger("checkrail.gateway")

AGAIN = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses that may be others the next time."""

LONGEST = 10.0
"""Seconds that a caller is kept waiting for another try, at most."""

_FIRST = 0.25

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
"""What the client raises when an upstream fails."""

Content = bytes | AsyncIterator[bytes]
"""What a request carries; what comes in pieces can be sent once only."""

BodyFor = Callable[[str], Awaitable[bytes | None]]
"""Gives the body for a provider; None: nothing may be sent there."""

_OPENAI = ("chat", "responses")
_NEAR = {"chat": (*_OPENAI, "messages"), "responses": (*_OPENAI[::-1], "messages")}
_NEAR |= {"messages": ("messages", *_OPENAI)}
"""Whose upstreams take what is only passed on, where there are none of its own API."""

_KEY_HEADERS = {"messages": "x-api-key", "gemini": "x-goog-api-key"}
"""Where an upstream's key is sent that is no bearer token."""

_VERSION = re.compile(r"/v1(alpha|beta)?$")
_IN_ONE_PIECE = 512 * 1024
_LONGEST_HEADER = 64 * 1024
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client would say of its own; the caller's words stand."""


def resend_delay(tries: int, headers: Mapping[str, str] | None = None) -> float | None:
    """Return the seconds to wait after so many tries; None if it is not worth the wait."""
    headers = {} if headers is None else headers
    if headers.get("x-should-retry", "").lower() == "false":
        return None
    told = _read_retry_after(headers)
    if told is not None:
        return told if told <= LONGEST else None
    return min(LONGEST, _FIRST * 2.0**tries) * random.uniform(0.75, 1.25)  # noqa: S311 - no secret


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how long the upstream says to wait: milliseconds, seconds, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.replace(".", "", 1).isdecimal() and value.isascii():
            return float(value) * unit
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, moment - time.time())


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
        self._places = [Upstream(config) for config in self.configs]
        self._session: aiohttp.ClientSession | None = None

    def find_route(self, format: str, model: str | None) -> Route:
        """Return the upstreams that take a model: the first that does, then the fallbacks."""
        places = [each for each in self._places if each.can_take(format, model)]
        if not places:
            raise NoUpstreamError(format, model, self.configs)
        return Route(self, places, model)

    def find_passthrough_route(self, format: str, model: str | None) -> Route:
        """Return who takes what is only passed on: upstreams of the format, else of the nearest."""
        spoken = {each.format for each in self.configs}
        order = _NEAR.get(format, (format,))
        return self.find_route(next((each for each in order if each in spoken), format), model)

    def model_list_routes(self, format: str) -> list[Route]:
        """Return everybody who has a list of models for the callers of an API, once each."""
        first = self.find_passthrough_route(format, None)
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


class Upstream:
    """One upstream, as requests are sent to it."""

    def __init__(self, config: UpstreamConfig) -> None:
        self.config = config
        self.base = _base_url(config)
        self.origin = URL(config.url).origin()
        self._tests = [compile_pattern(pattern) for pattern in config.models]
        self._prefixes = [
            _pattern_prefix(pattern) if config.strip_prefix else "" for pattern in config.models
        ]
        self._proxy = find_proxy(config.url)
        self._timeout = aiohttp.ClientTimeout(
            total=config.timeout_seconds, sock_connect=config.connect_seconds
        )
        self._own = [("accept-encoding", "identity"), *config.headers.items()]
        if config.key is not None:
            name = _KEY_HEADERS.get(config.format)
            bearer = ("authorization", f"Bearer {config.key}")
            self._own.append((name, config.key) if name else bearer)
        own = frozenset(name.lower().encode() for name, _ in self._own)
        self._without = own | ACCOUNT if own & CREDENTIALS else own
        self._signer = build_signer(config)

    def can_take(self, format: str, model: str | None) -> bool:
        """Return whether requests for a model can be sent here."""
        if format != self.config.format:
            return False
        return model is None or any(test(model) for test in self._tests)

    def provider_of(self, model: str | None) -> str:
        """Return the provider of a model here: by the config, by its prefix, or this upstream."""
        prefix, slash, _ = (model or "").partition("/")
        return self.config.provider or (prefix if slash else "") or self.config.name

    def own_name(self, model: str) -> str:
        """Return the name under which a model is known here: without the prefix of its pattern."""
        for test, prefix in zip(self._tests, self._prefixes, strict=True):
            if test(model):
                return model.removeprefix(prefix) or model
        return model

    def public_name(self, own: str) -> str | None:
        """Return the name by which callers request one of this upstream's models, if they can."""
        for test, prefix in zip(self._tests, self._prefixes, strict=True):
            if test(prefix + own):
                return prefix + own
        return None

    @property
    def takes_all(self) -> bool:
        """Whether callers can request every model of this upstream, under its own name."""
        return "*" in self.config.models

    def write_body(self, body: Content | None, model: str | None) -> Content | None:
        """Return a body that names a model as it is called here."""
        if model is None or not isinstance(body, bytes) or self.own_name(model) == model:
            return body
        try:
            found = read_json(body, "the body of the request")
        except UnreadableError:  # it goes as it is: this place says what is wrong with it
            return body
        named = isinstance(found, dict) and found.get("model") == model
        return write_json({**found, "model": self.own_name(model)}) if named else body

    def write_path(self, path: str, model: str | None) -> str:
        """Return a path below the address of this upstream, with the model as it is called here."""
        if self.config.format in NAMED_BY_PATH:
            own = None if model is None else self.own_name(model)
            return path if own == model else BY_NAME[self.config.format].target_path(path, own)
        return path.removeprefix("/v1")

    def build_headers(self, given: Headers, *, stranger: bool) -> CIMultiDict[str]:
        """Return the caller's headers to send; a `stranger` does not get the caller's key."""
        without = self._without | ACCOUNT if stranger else self._without
        sent = headers_to_upstream(given, without)
        if self.config.format == "bedrock":
            sent = without_signature(sent)
        return CIMultiDict([*sent, *self._own])

    async def _sign(self, request: UpstreamRequest, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return headers with the gateway's own credentials, unless the caller has a token."""
        if self._signer is None or headers.get("authorization", "").lower().startswith("bearer "):
            return headers
        unsigned = ((name, value) for name, value in headers.items() if not is_credential(name))
        signed = CIMultiDict(unsigned)
        body = request.body if isinstance(request.body, bytes) else b""
        await self._signer.sign(request.method, self.base + request.target, signed, body)
        return signed

    async def send(
        self, session: aiohttp.ClientSession, request: UpstreamRequest, *, stranger: bool
    ) -> UpstreamResponse:
        """Send a request, and again while that may help and nothing of an answer has come.

        Never both the caller and we: each of their tries would be several of ours.
        """
        headers = self.build_headers(request.headers, stranger=stranger)
        tries = 1 if request.once else 1 + self.config.retries
        for tried in range(1, tries):
            try:
                answer = await self._send_once(session, request, headers)
            except UpstreamError as error:
                if not error.again:
                    raise
                wait = resend_delay(tried)
            else:
                wait = (
                    resend_delay(tried, answer.response.headers) if answer.status in AGAIN else None
                )
                if wait is None:
                    return answer
                await answer.close()
            await asyncio.sleep(wait or 0)
        return await self._send_once(session, request, headers)

    async def _send_once(
        self, session: aiohttp.ClientSession, request: UpstreamRequest, headers: CIMultiDict[str]
    ) -> UpstreamResponse:
        headers = await self._sign(request, headers)
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
            raise unreachable_error(self.config.name, error) from None
        return UpstreamResponse(self.config.name, response)


class UpstreamRequest:
    """What an upstream is to be sent."""

    __slots__ = ("body", "headers", "method", "once", "target")

    def __init__(
        self, method: str, path: str, query: bytes, body: Content | None, headers: Headers
    ) -> None:
        self.method = method
        self.target = path + (f"?{query.decode('latin-1')}" if query else "")
        self.body = body
        self.headers = headers
        self.once = not isinstance(body, bytes | None) or retries_itself(headers)

    def data(self) -> Any:
        """Return the body as the client takes it: a large one is written piece by piece."""
        if isinstance(self.body, bytes) and len(self.body) > _IN_ONE_PIECE:
            return io.BytesIO(self.body)
        return self.body


class Route:
    """The upstreams that take a request, in the order in which they are tried."""

    def __init__(
        self,
        upstreams: Upstreams,
        places: Sequence[Upstream],
        model: str | None,
        *,
        home: URL | None = None,
    ) -> None:
        config = places[0].config
        self.home = home or places[0].origin  # whose key the caller has, if it has one
        self.name = config.name
        self.format = config.format
        self.provider = places[0].provider_of(model)
        self._model = model
        self._upstreams = upstreams
        self._places = places

    def __repr__(self) -> str:
        return f"Route({' → '.join(place.config.name for place in self._places)})"

    def public_name(self, own: str) -> str | None:
        """Return how callers name a model of the first of the upstreams, if they can have it."""
        return self._places[0].public_name(own)

    @property
    def takes_all(self) -> bool:
        """Whether callers can request every model of the first of the upstreams, as it is named."""
        return self._places[0].takes_all

    async def send(
        self,
        path: str,
        body: Content | None,
        headers: Headers,
        query: bytes = b"",
        *,
        method: str = "POST",
        body_for: BodyFor | None = None,
    ) -> UpstreamResponse:
        """Return the first good answer, or the last one if none is. Raises `UpstreamError`.

        `body_for` gives the body for upstreams of another provider than the first.
        """
        session = self._upstreams.session
        places = self._places if isinstance(body, bytes | None) else self._places[:1]
        provider, is_refused = self.provider, False
        kept: UpstreamResponse | None = None
        failure: UpstreamError | None = None
        for place in places:
            last = place is places[-1]
            try:
                if body_for is not None and place.provider_of(self._model) != provider:
                    provider = place.provider_of(self._model)
                    written = await body_for(provider)
                    body, is_refused = written or body, written is None
                if is_refused:
                    continue
                own = place.write_body(body, self._model)
                at = place.write_path(path, self._model)
                request = UpstreamRequest(method, at, query, own, headers)
                answer = await place.send(session, request, stranger=place.origin != self.home)
            except UpstreamError as error:
                _log_failure(error.message, last=last)
                failure = error
                continue
            except BaseException:
                if kept is not None:
                    await kept.close()
                raise
            if kept is not None:
                await kept.close()
            kept = answer
            kept.provider = place.provider_of(self._model)
            if answer.status not in AGAIN:
                break
            _log_failure(f"the upstream {place.config.name!r} answered {answer.status}", last=last)
        if kept is None:
            assert failure is not None  # noqa: S101 - an answer or an error
            raise failure
        return kept


def _log_failure(told: str, *, last: bool) -> None:
    """Log that an upstream fails."""
    log.warning("%s: %s", told, "the caller is told" if last else "another one is asked")


def _pattern_prefix(pattern: Pattern) -> str:
    """Return the prefix of a pattern such as groq/*; a name without wildcards has none."""
    if not isinstance(pattern, str) or pattern.startswith("/"):
        return ""
    prefix, slash, rest = pattern.partition("/")
    plain = not any(sign in prefix for sign in "*?[")
    return prefix + slash if plain and any(sign in rest for sign in "*?[") else ""


def _base_url(config: UpstreamConfig) -> str:
    """Return what stands before what comes after `/v1` in a path, or before a path with a version.

    As their SDKs have it: an address of OpenAI's API ends in its version, which is `/v1` if there
    is no path at all; one of Anthropic's ends before it.
    """
    url = config.url.rstrip("/")
    if config.format == "messages":
        return f"{url.removesuffix('/v1')}/v1"
    if config.format in NAMED_BY_PATH:
        return _VERSION.sub("", url)
    return url if urlsplit(url).path else f"{url}/v1"


class UpstreamResponse:
    """A response of an upstream, decoded, as far as it has come. Read it, or close it."""

    def __init__(self, name: str, response: aiohttp.ClientResponse) -> None:
        self.name = name
        self.provider: str | None = None
        self.status = response.status
        self.headers = headers_to_caller(response.raw_headers)
        self.response = response

    async def read(self) -> bytes:
        """Return the whole body. Raises `UpstreamError`."""
        try:
            return await self.response.read()
        except FAILURES as error:
            raise interrupted_error(self.name, error) from None

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes in. Raises `UpstreamError` if it ends before its end."""
        read = self.response.content.readany
        try:
            while chunk := await read():
                yield chunk
        except FAILURES as error:
            raise interrupted_error(self.name, error) from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Release the response; one that has not ended yet is cancelled at once."""
        self.response.close()


def unreachable_error(name: str, error: BaseException) -> UpstreamError:
    """Return the error for an upstream that did not answer, without what was sent to it."""
    who = f"the upstream {name!r}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamError(504, f"{who} cannot be reached: nobody answers there", again=True)
    if isinstance(error, TimeoutError):
        return UpstreamError(504, f"{who} did not answer in time")
    if isinstance(error, aiohttp.ClientSSLError):
        return UpstreamError(502, f"{who} cannot be reached: its certificate is not trusted")
    if isinstance(error, (aiohttp.ClientConnectionError, OSError)):
        return UpstreamError(502, f"{who} cannot be reached: {_describe_error(error)}", again=True)
    return UpstreamError(502, f"{who} answered with something that is no HTTP")


def interrupted_error(name: str, error: BaseException) -> UpstreamError:
    """Return the error for a response that ended early, and log it."""
    late = isinstance(error, TimeoutError)
    did = "did not finish its answer in time" if late else "broke off in the middle of its answer"
    told = f"the upstream {name!r} {did}"
    log.warning("%s", told)
    return UpstreamError(504 if late else 502, told)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host is not known"
    number = getattr(getattr(error, "os_error", error), "errno", None)
    return os.strerror(number) if number else "it closed the connection"
