"""Calls of Slack's Web API, whose failures are those of a channel."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

from checkrail.actions.addresses import find_proxy
from checkrail.channels.protocol import ChannelError, Refused, RetryLater, Unknown
from checkrail.extras import needs

with needs("slack_sdk", "the Slack channel", "slack"):
    import aiohttp
    from slack_sdk.errors import SlackApiError
    from slack_sdk.web.async_client import AsyncWebClient
    from slack_sdk.web.async_slack_response import AsyncSlackResponse
from yarl import URL

BUSY = frozenset(
    {
        "accesslimited",
        "external_channel_migrating",
        "message_limit_exceeded",
        "rate_limited",
        "ratelimited",
        "request_timeout",
        "team_added_to_org",
    }
)
"""Errors after which the same call may succeed, and nothing was done."""

BROKEN = frozenset({"fatal_error", "internal_error", "service_unavailable"})
"""Errors after which something may have been done."""

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
_LOST = (aiohttp.ClientError, TimeoutError, OSError)

_sdk_log = logging.getLogger(f"{__name__}.sdk")
_sdk_log.setLevel(logging.WARNING)  # below, it writes down messages and the socket's URL


class SlackApi:
    """The Web API for one bot."""

    def __init__(self, token: str, base_url: str) -> None:
        self._token = token
        self._home = URL(base_url)
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections, which are made when first needed."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    @property
    def client(self) -> AsyncWebClient:
        """The client of Slack's own package, which sends each request once."""
        if self._client is None:
            self._client = AsyncWebClient(
                self._token,
                base_url=str(self._home),
                session=self.session,
                logger=_sdk_log,
                retry_handlers=[],
            )
            self._client.proxy = find_proxy(str(self._home))  # its own choice knows no exceptions
        return self._client

    async def call(self, request: Awaitable[AsyncSlackResponse]) -> dict[str, Any]:
        """Return what Slack answers to a request of the client, or raise a `ChannelError`."""
        try:
            response = await request
        except SlackApiError as error:
            failure = read_failure(error.response)
        except _LOST as error:
            failure = read_loss(error)
        except (AttributeError, LookupError, ValueError):  # the client takes any body for JSON
            failure = Unknown("Slack's answer cannot be read")
        else:
            return response.data if isinstance(response.data, dict) else {}
        raise failure  # outside, so that it does not carry a request with its token

    async def read_file(self, url: str, limit: int) -> bytes:
        """Return the bytes of a file at Slack; the token is sent nowhere else."""
        place = self._find_at_home(url)
        if place is None:
            raise Refused("the file is not at Slack, so the bot's token was not sent there")
        try:
            return await self._read_file(place, limit)
        except _LOST as error:
            failure = read_loss(error)
        raise failure

    async def _read_file(self, place: URL, limit: int) -> bytes:
        proxy = find_proxy(str(place))
        bearer = {"Authorization": f"Bearer {self._token}"}
        request = self.session.get(place, headers=bearer, proxy=proxy, allow_redirects=False)
        async with request as response:
            if response.status == 429:
                raise RetryLater("Slack limits how often files are read", _read_wait(response))
            if response.status >= 500:
                raise Unknown(f"Slack answers with HTTP {response.status}")
            if response.status != 200:  # whoever may not read it is led to a login
                raise Refused("Slack does not give the file: the bot may lack `files:read`")
            content = bytearray()
            async for piece in response.content.iter_any():
                content += piece
                if len(content) > limit:
                    raise Refused(f"the file is larger than {limit} bytes")
            return bytes(content)

    def _find_at_home(self, url: str) -> URL | None:
        """Return a URL if it leads to Slack."""
        try:
            place = URL(url)
        except ValueError:
            return None
        home, host = self._home.host or "", place.host or ""
        same = (place.scheme, place.port) == (self._home.scheme, self._home.port)
        return place if same and (host == home or host.endswith(f".{home}")) else None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        self._session = self._client = None


def read_failure(response: Any) -> ChannelError:
    """Return what an answer means that says no, or that nobody can read."""
    status: int = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    code = data.get("error") if isinstance(data, dict) else None
    shown = f"Slack answers {str(code)[:80]!r}" if code else f"Slack answers with HTTP {status}"
    if status == 429 or code in BUSY:
        return RetryLater(shown, _read_wait(response))
    if status >= 500 or code in BROKEN or (code is None and status < 400):
        return Unknown(shown)
    if isinstance(data, dict) and data.get("needed"):
        shown += f"; give the bot the scope {str(data['needed'])[:80]!r}, and install it anew"
    return Refused(shown)


def read_loss(error: BaseException) -> ChannelError:
    """Return what a failed connection means. Its text is left out, for it may have a URL."""
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        return RetryLater(f"no connection to Slack ({type(error).__name__})")
    return Unknown(f"the connection to Slack was lost ({type(error).__name__})")


def _read_wait(response: Any) -> float | None:
    """Return how long Slack asks to wait, if it says so."""
    seconds = response.headers.get("Retry-After", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() else None
