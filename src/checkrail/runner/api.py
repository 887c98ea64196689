"""A server, as a runner talks to it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from checkrail.engine.errors import CheckrailError
from checkrail.extras import needs
from checkrail.runs import jsons

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger("checkrail.runner")

RUNNER_ID = "X-Runner-Id"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CONNECT = 10.0
_ANSWER = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_NOT_NOW = frozenset({429, 502, 503, 504})
_BROKEN = 5  # times that a server may fail at the same request, before it counts as an answer

Params = Sequence[tuple[str, str]]


class RequestRefused(CheckrailError):
    """The server refused a request, and would refuse it again."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message

    def __str__(self) -> str:
        return self.message

    @property
    def is_runner_gone(self) -> bool:
        """Whether the server does not know the runner any more."""
        return self.status == 410

    @property
    def is_lease_lost(self) -> bool:
        """Whether the run in question is nobody's, or somebody else's."""
        return self.is_runner_gone or self.error in ("lease_lost", "not_found")


class ServerUnavailable(CheckrailError):
    """The server is not there, or cannot answer now."""


def client_options(server: str, key: str | None) -> dict[str, Any]:
    """Return the options of a client of a server, or raise what is wrong with its address."""
    with needs("httpx2", "a runner", "server"):
        import httpx2
    try:
        url = httpx2.URL(server)
    except (httpx2.InvalidURL, TypeError, UnicodeError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise CheckrailError("--server is a URL such as http://127.0.0.1:2024")
    if url.userinfo:
        raise CheckrailError("--server has a password in it: say a key with CHECKRAIL_RUNNER_KEY")
    if key is not None and (not key.strip() or not key.isascii() or not key.strip().isprintable()):
        raise CheckrailError("the key is empty, or has characters that no key has")
    return {
        "base_url": str(url).rstrip("/"),
        "headers": {} if key is None else {"x-api-key": key.strip()},
        "timeout": httpx2.Timeout(_ANSWER, connect=_CONNECT),
        "trust_env": url.host not in _LOOPBACK,  # no proxy knows the way to it
    }


class ServerApi:
    """The routes of the runner protocol."""

    def __init__(self, server: str, key: str | None) -> None:
        self.options = client_options(server, key)
        import httpx2

        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(**self.options, limits=limits)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        runner_id: str | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        params: Params = (),
        patience: float | None = _ANSWER,
    ) -> Any:
        """Send a request once; raise `RequestRefused` or `ServerUnavailable`."""
        import httpx2

        try:
            answer = await self._client.request(
                method,
                path,
                params=list(params),
                content=None if body is None else jsons.dumps(body),
                headers=request_headers(runner_id),
                timeout=httpx2.Timeout(patience, connect=_CONNECT),
            )
        except httpx2.TransportError as error:
            raise ServerUnavailable(
                f"the server cannot be reached: {type(error).__name__}"
            ) from None
        return parse_answer(answer)

    async def send_until_answered(
        self,
        method: str,
        path: str,
        runner_id: str | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        params: Params = (),
        patience: float | None = _ANSWER,
    ) -> Any:
        """Send a request until there is an answer: return it, or raise `RequestRefused`."""
        pause, failures, silent = _FIRST_PAUSE, 0, False
        while True:
            try:
                answer = await self.send(
                    method, path, runner_id, body, params=params, patience=patience
                )
            except ServerUnavailable as error:
                if not silent:
                    log.warning("%s; it is tried again", error)
                silent = True
            except RequestRefused as refused:
                failures += 1
                if refused.status < 500 or failures >= _BROKEN:
                    raise
            else:
                if silent:
                    log.info("the server is there again")
                return answer
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE)


def request_headers(runner_id: str | None) -> dict[str, str]:
    """Return the headers of a request."""
    told = {"content-type": "application/json"}
    return told if runner_id is None else {**told, RUNNER_ID: runner_id}


def parse_answer(answer: httpx2.Response) -> Any:
    """Parse an answer: None if it has no content, or raise what it says is wrong."""
    if answer.status_code in _NOT_NOW:
        raise ServerUnavailable(f"the server answered {answer.status_code}")
    try:
        content = orjson.loads(answer.content) if answer.content else None
    except orjson.JSONDecodeError:
        content = None
    if answer.is_success:
        return content
    told = content if isinstance(content, dict) else {}
    message = str(told.get("message") or f"the server answered {answer.status_code}")
    raise RequestRefused(answer.status_code, str(told.get("error") or ""), message)
