"""A server, as commands talk to it."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from uuid import UUID

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.output import escape_text, match_beginning

if TYPE_CHECKING:
    import httpx2

Sent = TypeVar("Sent")

SERVER = "http://127.0.0.1:2024"
NEWEST = 200
"""So many of the newest are looked through for the beginning of an id."""

PATIENCE = 60.0
"""For how many seconds a stream that broke is opened again before it is given up."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SILENCE = 60.0  # seconds: the server breaks a stream's silence long before
_PAUSE = 0.5
_LARGEST = 64 * 1024 * 1024
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

KEYS_WANTED = 'Bearer realm="checkrail keys"'
"""How a server says that it knows callers by keys of its own."""


class ServerRequestError(click.ClickException):
    """The server is not there, or did not do what was requested."""

    exit_code = 2

    def __init__(self, message: str, status: int | None = None, said: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.said: dict[str, Any] = said if isinstance(said, dict) else {}
        """The body of the server's answer."""


@dataclass(frozen=True)
class ServerAddress:
    """Where a server is, and the credentials for it."""

    url: str
    key: str | None = field(default=None, repr=False)
    headers: tuple[str, ...] = field(default=(), repr=False)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--server`, `--key` and `--header` to a command, which takes them as one `address`."""
    return _add_options(command, SERVER)


def optional_server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options to a command that may do without a server; `address` is None then."""
    return _add_options(command, None)


def _add_options(command: Callable[..., Any], default: str | None) -> Callable[..., Any]:
    @functools.wraps(command)
    def call_with_address(
        server: str | None, key: str | None, headers: tuple[str, ...], **more: Any
    ) -> Any:
        address = None if server is None else ServerAddress(server, key, headers)
        return command(address=address, **more)

    shown = "" if default is None else f"  [default: {default}]"
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
            default=default,
            help=f"Where the server is, also said as CHECKRAIL_SERVER.{shown}",
        ),
    )
    return functools.reduce(lambda made, option: option(made), options, call_with_address)


@contextlib.contextmanager
def connect_server(address: ServerAddress) -> Iterator[ServerClient]:
    """Open a client of a server."""
    require_extra("server", "httpx2")
    import httpx2

    url = _check_url(httpx2, address.url)
    headers = _credential_headers(address)
    local = url.host in _LOOPBACK  # no proxy knows the way to it
    timeout = httpx2.Timeout(_SILENCE, connect=10.0)
    with httpx2.Client(headers=headers, timeout=timeout, trust_env=not local) as client:
        yield ServerClient(client, str(url).rstrip("/"), with_key=bool(headers))


def _credential_headers(address: ServerAddress) -> dict[str, str]:
    """Return the headers with the credentials; servers with their own auth want a bearer token."""
    headers = {}
    if address.key is not None:
        key = _check_key(address.key)
        headers = {"x-api-key": key, "authorization": f"Bearer {key}"}
    for given in address.headers:
        name, colon, value = (part.strip() for part in given.partition(":"))
        if not (colon and value and _HEADER_NAME.fullmatch(name) and _is_sendable(value)):
            raise click.UsageError("--header is a name and a value, such as 'X-Token: abc'")
        headers[name.lower()] = value
    return headers


def _check_url(http: Any, server: str) -> httpx2.URL:
    try:
        url: httpx2.URL = http.URL(server)
    except (http.InvalidURL, TypeError, UnicodeError):
        url = http.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise click.UsageError(f"--server is a URL such as {SERVER}, not {escape_text(server)!r}")
    if url.userinfo:
        raise click.UsageError("--server has a password in it: say a key with CHECKRAIL_API_KEY")
    return url


def _check_key(key: str) -> str:
    if not key.strip() or not _is_sendable(key.strip()):
        raise click.UsageError("the API key is empty, or has characters that no key has")
    return key.strip()


def _is_sendable(value: str) -> bool:
    """Whether a text can be the value of a header."""
    return value.isascii() and value.isprintable()


class ServerClient:
    """The routes that commands need, and errors that say what to do."""

    def __init__(self, client: httpx2.Client, url: str, *, with_key: bool) -> None:
        self._client = client
        self._with_key = with_key
        self.url = url

    def get(self, path: str, **params: Any) -> Any:
        """Send a GET request, and return the JSON of its response."""
        return self._send_request("GET", path, params)

    def post(self, path: str, *, patient: bool = False, body: Any = None, **params: Any) -> Any:
        """Send a POST request; with `patient`, wait as long as it takes."""
        options: dict[str, Any] = {"timeout": None} if patient else {}
        if body is not None:
            options["json"] = body
        return self._send_request("POST", path, params, **options)

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a stream as they come; one that breaks is opened again."""
        last = ""

        def open_stream() -> Iterator[dict[str, Any]]:
            nonlocal last
            headers = {"last-event-id": last} if last else {}
            for sent in self._open_stream(path, headers=headers):
                last = sent.id or last
                yield json.loads(sent.data)

        return self._keep_open(open_stream)

    def frames(
        self, path: str, body: Any, last: Collection[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a POST request streams, as names and data, up to one of the `last` names.

        A stream that breaks is opened again, and begins anew; so does one that is silent for long,
        before which something else may have to be done.
        """
        import httpx2

        def open_stream() -> Iterator[tuple[str, dict[str, Any]]]:
            name = ""
            for sent in self._open_stream(path, method="POST", json=body):
                name = sent.event
                yield name, json.loads(sent.data)
            if name not in last:
                raise httpx2.ReadError("the stream ended before there was a reply")

        return self._keep_open(open_stream, patient=True)

    def _keep_open(
        self, open_stream: Callable[[], Iterator[Sent]], *, patient: bool = False
    ) -> Iterator[Sent]:
        import httpx2

        broken, heard = 0.0, False
        while True:
            try:
                for sent in open_stream():
                    broken, heard = 0.0, True
                    yield sent
            except httpx2.TransportError as error:
                if patient and isinstance(error, httpx2.ReadTimeout):
                    continue
                now = time.monotonic()
                broken = broken or now
                if not heard or now - broken > PATIENCE:
                    self._raise_unreachable(error)
                time.sleep(_PAUSE)
            else:
                return

    def _open_stream(self, path: str, **options: Any) -> Iterator[httpx2.ServerSentEvent]:
        at = f"{self.url}{path}"
        with self._client.sse(at, max_event_size=_LARGEST, **options) as source:
            response = source.response
            if response.status_code != 200:
                response.read()
                self._raise_refused(response)
            yield from source

    def _send_request(self, method: str, path: str, params: dict[str, Any], **options: Any) -> Any:
        import httpx2

        said = {name: value for name, value in params.items() if value is not None}
        try:
            response = self._client.request(method, f"{self.url}{path}", params=said, **options)
        except httpx2.TransportError as error:
            self._raise_unreachable(error)
        if not response.is_success:
            self._raise_refused(response)
        return _read_json(response) if response.content else None

    def _raise_unreachable(self, error: Exception) -> NoReturn:
        told = escape_text(str(error)).rstrip(".") or type(error).__name__
        remedy = "Start one with `checkrail dev`, or say where it is with --server"
        raise ServerRequestError(f"no server answers at {self.url} ({told}). {remedy}") from None

    def _raise_refused(self, response: httpx2.Response) -> NoReturn:
        status = response.status_code
        said = _error_message(response)
        if said is None:
            told = f"{self.url} answered {status}, and not as a Checkrail server does"
            raise ServerRequestError(f"{told}. See whether --server is right", status)
        if status == 401:
            sent = "with the key or headers that were sent" if self._with_key else "without a key"
            raise ServerRequestError(
                f"{said} ({status}, {sent}). {_credentials_advice(response)}", status
            )
        raise ServerRequestError(f"{said} ({status})", status, _read_json(response))


def find_id(it: ServerClient, noun: str, given: str) -> str:
    """Return the id of the run or the session that an id, the beginning of one, or `last` names."""
    try:
        return str(UUID(given))
    except ValueError:
        pass
    newest = [row[f"{noun}_id"] for row in it.get(f"/{noun}s", limit=NEWEST)]
    if given == "last" and newest:
        return str(newest[0])
    return match_beginning(given, newest, f"{noun}s", f"checkrail {noun}s ls")


def _credentials_advice(response: httpx2.Response) -> str:
    """Return how to authenticate to a server: by a key of its own, or as its project wants it."""
    if response.headers.get("www-authenticate") == KEYS_WANTED:
        return "Say a key with CHECKRAIL_API_KEY"
    return (
        "It knows callers by its project's `auth`: say a token with CHECKRAIL_API_KEY, which is "
        "sent as `Authorization: Bearer` and as `x-api-key`, or other headers with --header"
    )


def _read_json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        told = f"{response.url.host} answered something that is not JSON"
        raise ServerRequestError(f"{told}. See whether --server is a Checkrail server") from None


def _error_message(response: httpx2.Response) -> str | None:
    """Return the error message of a Checkrail server, or None."""
    try:
        said = response.json()
    except ValueError:
        return None
    found = said.get("message") if isinstance(said, dict) else None
    return escape_text(found).rstrip(".") if isinstance(found, str) and found else None
