"""What came back from an upstream: its answer as it comes in, and what can go wrong on the way."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator

import aiohttp

from checkrail.gateway.errors import UpstreamError
from checkrail.gateway.headers import headers_to_caller

log = logging.getLogger("checkrail.gateway")

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
"""What the client raises when an upstream fails."""


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
