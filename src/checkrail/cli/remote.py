"""A server, as commands talk to it."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.show import shown

if TYPE_CHECKING:
    import httpx2

SERVER = "http://127.0.0.1:2024"
PATIENCE = 60.0
"""For how many seconds a stream that broke is opened again before it is given up."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SILENCE = 60.0  # seconds: the server breaks a stream's silence long before
_PAUSE = 0.5
_LARGEST = 64 * 1024 * 1024
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

KEYS_WANTED = 'Bearer realm="checkrail keys"'
"""How a server says that it knows callers by keys of its own."""


class ServerRefused(click.ClickException):
    """The server is not there, or did not do what it was asked to."""

    exit_code = 2

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Address:
    """Where a server is, and how a command makes itself known there."""

    url: str
    key: str | None = field(default=None, repr=False)
    headers: tuple[str, ...] = field(default=(), repr=False)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--server`, `--key` and `--header` to a command, which takes them as one `address`."""

    @functools.wraps(command)
    def call(server: str, key: str | None, headers: tuple[str, ...], **more: Any) -> Any:
        return command(address=Address(server, key, headers), **more)

    options = (
        click.option(
            "--header",
            "headers",
            metavar="'NAME: VALUE'",
            multiple=True,
            help="A header for a server that knows callers by another one; may be repeated.",
        ),
        click.option(
            "--key",
            envvar="CHECKRAIL_API_KEY",
            metavar="KEY",
            help="An API key or a token of the server; better said as CHECKRAIL_API_KEY.",
        ),
        click.option(
            "--server",
            envvar="CHECKRAIL_SERVER",
            metavar="URL",
            default=SERVER,
            help=f"Where the server is, also said as CHECKRAIL_SERVER.  [default: {SERVER}]",
        ),
    )
    return functools.reduce(lambda made, option: option(made), options, call)


@contextlib.contextmanager
def remote(address: Address) -> Iterator[Remote]:
    """Open a way to a server."""
    require_extra("server", "httpx2")
    import httpx2

    url = _checked_url(httpx2, address.url)
    headers = _credentials(address)
    local = url.host in _LOOPBACK  # no proxy knows the way to it
    timeout = httpx2.Timeout(_SILENCE, connect=10.0)
    with httpx2.Client(headers=headers, timeout=timeout, trust_env=not local) as client:
        yield Remote(client, str(url).rstrip("/"), with_key=bool(headers))


def _credentials(address: Address) -> dict[str, str]:
    """Return the headers that say who calls: servers with their own auth want a bearer token."""
    headers = {}
    if address.key is not None:
        key = _checked_key(address.key)
        headers = {"x-api-key": key, "authorization": f"Bearer {key}"}
    for given in address.headers:
        name, colon, value = (part.strip() for part in given.partition(":"))
        if not (colon and value and _HEADER_NAME.fullmatch(name) and _is_sendable(value)):
            raise click.UsageError("--header is a name and a value, such as 'X-Token: abc'")
        headers[name.lower()] = value
    return headers


def _checked_url(http: Any, server: str) -> httpx2.URL:
    try:
        url: httpx2.URL = http.URL(server)
    except (http.InvalidURL, TypeError, UnicodeError):
        url = http.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise click.UsageError(f"--server is a URL such as {SERVER}, not {shown(server)!r}")
    if url.userinfo:
        raise click.UsageError("--server has a password in it: say a key with CHECKRAIL_API_KEY")
    return url


def _checked_key(key: str) -> str:
    if not key.strip() or not _is_sendable(key.strip()):
        raise click.UsageError("the API key is empty, or has signs in it that no key has")
    return key.strip()


def _is_sendable(value: str) -> bool:
    """Whether a text can be the value of a header."""
    return value.isascii() and value.isprintable()


class Remote:
    """The routes that commands need, and errors that say what to do."""

    def __init__(self, client: httpx2.Client, url: str, *, with_key: bool) -> None:
        self._client = client
        self._with_key = with_key
        self.url = url

    def get(self, path: str, **params: Any) -> Any:
        """Read something."""
        return self._answered("GET", path, params)

    def post(self, path: str, *, patient: bool = False, body: Any = None, **params: Any) -> Any:
        """Ask for something; one who is patient waits as long as it takes."""
        options: dict[str, Any] = {"timeout": None} if patient else {}
        if body is not None:
            options["json"] = body
        return self._answered("POST", path, params, **options)

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a stream as they come; one that breaks is opened again."""
        import httpx2

        last, broken, heard = "", 0.0, False
        while True:
            try:
                for number, event in self._stream(path, last):
                    last, broken, heard = number or last, 0.0, True
                    yield event
            except httpx2.TransportError as error:
                now = time.monotonic()
                broken = broken or now
                if not heard or now - broken > PATIENCE:
                    self._unreachable(error)
                time.sleep(_PAUSE)
            else:
                return

    def _stream(self, path: str, last: str) -> Iterator[tuple[str, dict[str, Any]]]:
        headers = {"last-event-id": last} if last else {}
        at = f"{self.url}{path}"
        with self._client.sse(at, headers=headers, max_event_size=_LARGEST) as source:
            response = source.response
            if response.status_code != 200:
                response.read()
                self._refused(response)
            for sent in source:
                yield sent.id or "", json.loads(sent.data)

    def _answered(self, method: str, path: str, params: dict[str, Any], **options: Any) -> Any:
        import httpx2

        said = {name: value for name, value in params.items() if value is not None}
        try:
            response = self._client.request(method, f"{self.url}{path}", params=said, **options)
        except httpx2.TransportError as error:
            self._unreachable(error)
        if not response.is_success:
            self._refused(response)
        return _read(response) if response.content else None

    def _unreachable(self, error: Exception) -> NoReturn:
        told = shown(str(error)) or type(error).__name__
        remedy = "Start one with `checkrail dev`, or say where it is with --server"
        raise ServerRefused(f"no server answers at {self.url} ({told}). {remedy}") from None

    def _refused(self, response: httpx2.Response) -> NoReturn:
        status = response.status_code
        said = _message(response)
        if said is None:
            told = f"{self.url} answered {status}, and not as a Checkrail server does"
            raise ServerRefused(f"{told}. See whether --server is right", status)
        if status == 401:
            sent = "with the key or headers that were sent" if self._with_key else "without a key"
            raise ServerRefused(f"{said} ({status}, {sent}). {_advice(response)}", status)
        raise ServerRefused(f"{said} ({status})", status)


def _advice(response: httpx2.Response) -> str:
    """Return how to become known to a server: by a key of its own, or as its project wants it."""
    if response.headers.get("www-authenticate") == KEYS_WANTED:
        return "Say a key with CHECKRAIL_API_KEY"
    return (
        "It knows callers by its project's `auth`: say a token with CHECKRAIL_API_KEY, which is "
        "sent as `Authorization: Bearer` and as `x-api-key`, or other headers with --header"
    )


def _read(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        told = f"{response.url.host} answered something that is not JSON"
        raise ServerRefused(f"{told}. See whether --server is a Checkrail server") from None


def _message(response: httpx2.Response) -> str | None:
    """Return what a server of ours says of an error."""
    try:
        said = response.json()
    except ValueError:
        return None
    found = said.get("message") if isinstance(said, dict) else None
    return shown(found).rstrip(".") if isinstance(found, str) and found else None
