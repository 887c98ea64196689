"""A server, as a runner talks to it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from checkrail.engine.errors import CheckrailError
from checkrail.engine.extras import needs
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


class Refused(CheckrailError):
    """The server does not do what it was asked to, and would not if it was asked again."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message

    def __str__(self) -> str:
        return self.message

    @property
    def gone(self) -> bool:
        """Whether the server does not know the runner any more."""
        return self.status == 410

    @property
    def lost(self) -> bool:
        """Whether the run in question is nobody's, or somebody else's."""
        return self.gone or self.error in ("lease_lost", "not_found")


class Unavailable(CheckrailError):
    """The server is not there, or cannot answer now."""


def connection(server: str, key: str | None) -> dict[str, Any]:
    """Return what a client of a server is made with, or raise what is wrong with its address."""
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
        raise CheckrailError("the key is empty, or has signs in it that no key has")
    return {
        "base_url": str(url).rstrip("/"),
        "headers": {} if key is None else {"x-api-key": key.strip()},
        "timeout": httpx2.Timeout(_ANSWER, connect=_CONNECT),
        "trust_env": url.host not in _LOOPBACK,  # no proxy knows the way to it
    }


class Api:
    """The routes of the runner protocol."""

    def __init__(self, server: str, key: str | None) -> None:
        self.options = connection(server, key)
        import httpx2

        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(**self.options, limits=limits)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        runner_id: str | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        params: Params = (),
        patience: float | None = _ANSWER,
    ) -> Any:
        """Ask once: gives the answer, or raises `Refused` or `Unavailable`."""
        import httpx2

        try:
            answer = await self._client.request(
                method,
                path,
                params=list(params),
                content=None if body is None else jsons.dumps(body),
                headers=headers(runner_id),
                timeout=httpx2.Timeout(patience, connect=_CONNECT),
            )
        except httpx2.TransportError as error:
            raise Unavailable(f"the server cannot be reached: {type(error).__name__}") from None
        return read(answer)

    async def insist(
        self,
        method: str,
        path: str,
        runner_id: str | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        params: Params = (),
        patience: float | None = _ANSWER,
    ) -> Any:
        """Ask until there is an answer: gives it, or raises `Refused`."""
        pause, failures, silent = _FIRST_PAUSE, 0, False
        while True:
            try:
                answer = await self.ask(
                    method, path, runner_id, body, params=params, patience=patience
                )
            except Unavailable as error:
                if not silent:
                    log.warning("%s; it is tried again", error)
                silent = True
            except Refused as refused:
                failures += 1
                if refused.status < 500 or failures >= _BROKEN:
                    raise
            else:
                if silent:
                    log.info("the server is there again")
                return answer
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE)


def headers(runner_id: str | None) -> dict[str, str]:
    """Return the headers of a request."""
    told = {"content-type": "application/json"}
    return told if runner_id is None else {**told, RUNNER_ID: runner_id}


def read(answer: httpx2.Response) -> Any:
    """Read an answer: None if it has no content, or raise what it says is wrong."""
    if answer.status_code in _NOT_NOW:
        raise Unavailable(f"the server answered {answer.status_code}")
    try:
        content = orjson.loads(answer.content) if answer.content else None
    except orjson.JSONDecodeError:
        content = None
    if answer.is_success:
        return content
    told = content if isinstance(content, dict) else {}
    message = str(told.get("message") or f"the server answered {answer.status_code}")
    raise Refused(answer.status_code, str(told.get("error") or ""), message)
