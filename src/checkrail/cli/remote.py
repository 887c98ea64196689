"""A server, as commands talk to it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn

import click

from checkrail.cli.show import shown
from checkrail.engine.errors import CheckrailError
from checkrail.engine.extras import needs

if TYPE_CHECKING:
    import httpx2

SERVER = "http://127.0.0.1:2024"
PATIENCE = 60.0
"""For how many seconds a stream that broke is opened again before it is given up."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SILENCE = 60.0  # seconds: the server breaks a stream's silence long before
_PAUSE = 0.5
_LARGEST = 64 * 1024 * 1024


class ServerRefused(click.ClickException):
    """The server is not there, or did not do what it was asked to."""

    exit_code = 2

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--server` and `--key` to a command."""
    options = (
        click.option(
            "--key",
            envvar="CHECKRAIL_API_KEY",
            metavar="KEY",
            help="An API key of the server; better said as CHECKRAIL_API_KEY.",
        ),
        click.option(
            "--server",
            envvar="CHECKRAIL_SERVER",
            metavar="URL",
            default=SERVER,
            help=f"Where the server is, also said as CHECKRAIL_SERVER.  [default: {SERVER}]",
        ),
    )
    return reduce(lambda made, option: option(made), options, command)


@contextlib.contextmanager
def remote(server: str, key: str | None) -> Iterator[Remote]:
    """Open a way to a server."""
    try:
        with needs("httpx2", "talking to a server", "server"):
            import httpx2
    except CheckrailError as error:
        raise click.UsageError(str(error)) from None
    url = _checked_url(httpx2, server)
    headers = {} if key is None else {"x-api-key": _checked_key(key)}
    local = url.host in _LOOPBACK  # no proxy knows the way to it
    timeout = httpx2.Timeout(_SILENCE, connect=10.0)
    with httpx2.Client(headers=headers, timeout=timeout, trust_env=not local) as client:
        yield Remote(client, str(url).rstrip("/"))


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
    if not key.strip() or not key.isascii() or not key.strip().isprintable():
        raise click.UsageError("the API key is empty, or has signs in it that no key has")
    return key.strip()


class Remote:
    """The routes that commands need, and errors that say what to do."""

    def __init__(self, client: httpx2.Client, url: str) -> None:
        self._client = client
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
        """Give the events of a stream as they come; one that breaks is opened again."""
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
        if status in (401, 403):
            sent = "the key that was sent" if "x-api-key" in self._client.headers else "no key"
            hint = "Say one with CHECKRAIL_API_KEY; `checkrail keys create` makes one"
            raise ServerRefused(f"{said} ({status}, with {sent}). {hint}", status)
        raise ServerRefused(f"{said} ({status})", status)


def _read(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        told = f"{response.url.host} answered something that is not JSON"
        raise ServerRefused(f"{told}. See whether --server is a Checkrail server") from None


def _message(response: httpx2.Response) -> str | None:
    """Give what a server of ours says of an error."""
    try:
        said = response.json()
    except ValueError:
        return None
    found = said.get("message") if isinstance(said, dict) else None
    return shown(found).rstrip(".") if isinstance(found, str) and found else None
