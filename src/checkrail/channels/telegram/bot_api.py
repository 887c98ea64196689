"""The Bot API, as a client that keeps the token to itself.

The token is a part of every URL, and HTTP clients log URLs and put them into their errors. So the
client is given URLs with a placeholder, and its transport puts the token in its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic import SecretStr

from checkrail.channels.protocol import ChannelError, Refused, RetryLater, Unknown
from checkrail.channels.telegram.errors import BotApiError

PLACEHOLDER = "bot__token__"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
DOWNLOAD_SECONDS = 120.0
BAD_TOKEN_SECONDS = 60.0
LONGEST_DESCRIPTION = 300


class TokenTransport(httpx2.AsyncHTTPTransport):
    """Puts the token into the path of a request, after everything that logs or keeps its URL."""

    def __init__(self, token: SecretStr) -> None:
        super().__init__()
        self._token = token

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with the token in its path."""
        token = f"bot{self._token.get_secret_value()}".encode()
        path = request.url.raw_path.replace(PLACEHOLDER.encode(), token, 1)
        real = httpx2.Request(
            request.method,
            request.url.copy_with(raw_path=path),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await super().handle_async_request(real)


class BotApi:
    """Calls of one bot. Errors are those of channels, and have no URL in them."""

    def __init__(self, token: SecretStr, api_url: str) -> None:
        self._token = token
        self._api_url = api_url.rstrip("/")
        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)  # calls have one for the whole
        self._client = httpx2.AsyncClient(transport=TokenTransport(token), timeout=timeout)

    async def call(
        self, method: str, parameters: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Return the result of a method, or raise a `ChannelError`."""
        url = f"{self._api_url}/{PLACEHOLDER}/{method}"
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(url, json=parameters)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise RetryLater(f"Telegram cannot be reached for {method}") from None
        except (httpx2.HTTPError, TimeoutError):
            raise Unknown(f"Telegram gave no answer to {method}") from None
        return self._read_result(method, response)

    async def download(self, path: str, limit: int) -> bytes:
        """Return a file that `getFile` named, or raise `Refused` if it has more bytes."""
        url = f"{self._api_url}/file/{PLACEHOLDER}/{quote(path.lstrip('/'))}"
        content = bytearray()
        try:
            async with (
                asyncio.timeout(DOWNLOAD_SECONDS),
                self._client.stream("GET", url) as response,
            ):
                if response.status_code != 200:
                    raise _download_error(response.status_code)
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > limit:
                        raise Refused(f"the file has more than {limit} bytes")
        except (httpx2.HTTPError, TimeoutError):
            raise RetryLater("Telegram did not send the file") from None
        return bytes(content)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _read_result(self, method: str, response: httpx2.Response) -> Any:
        shown = response.text.replace(self._token.get_secret_value(), "<token>")
        answer = _parse_object(shown)
        if answer.get("ok") is True and response.status_code == 200:
            return answer.get("result")
        code = answer.get("error_code")
        status = code if isinstance(code, int) else response.status_code
        raise _build_error(method, status, answer)


def _build_error(method: str, code: int, answer: Mapping[str, Any]) -> ChannelError:
    found = answer.get("parameters")
    parameters: Mapping[str, Any] = found if isinstance(found, dict) else {}
    why = str(answer.get("description", "it gave no reason"))[:LONGEST_DESCRIPTION]
    if code == 429:
        return RetryLater(f"Telegram asks to wait: {why}", _positive(parameters, "retry_after"))
    if code in (401, 404):
        problem = f"Telegram does not know the bot's token, or not {method}: {why}"
        return RetryLater(problem, BAD_TOKEN_SECONDS)
    if 400 <= code < 500:
        moved = parameters.get("migrate_to_chat_id")
        return BotApiError(code, why, moved if isinstance(moved, int) else None)
    return Unknown(f"Telegram failed at {method} ({code}): {why}")


def _parse_object(text: str) -> dict[str, Any]:
    """Return an answer's JSON; what stands between us and Telegram answers with other things."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _positive(parameters: Mapping[str, Any], name: str) -> float | None:
    found = parameters.get(name)
    return float(found) if isinstance(found, int) and found > 0 else None


def _download_error(status: int) -> ChannelError:
    why = f"Telegram does not send the file ({status})"
    return RetryLater(why) if status == 429 or status >= 500 else Refused(why)
