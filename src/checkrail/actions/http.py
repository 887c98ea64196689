"""Hooks that are web services: the event is the JSON of a request, their answer that of its reply.

What is sent along may be secret: no error names more of it than scheme, host and port.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from checkrail.actions.destinations import Destination, parse_destination
from checkrail.actions.errors import ActionError, OutboundRefused, about_key
from checkrail.actions.outbound import HEADER, OURS, VALUE, Outbound, OutboundAnswer
from checkrail.actions.outside import Outside
from checkrail.actions.signatures import parse_secret
from checkrail.actions.wire import encode_request, parse_answer, read_json, render_event
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.event import Event
from checkrail.engine.hook import DEFAULT_TIMEOUT
from checkrail.engine.outcomes import Outcome
from checkrail.engine.values import plain
from checkrail.extras import needs

LIMIT = 1 << 20
"""How many bytes an answer may have."""

_USUAL = {"accept": "application/json", "content-type": "application/json"}
_CREDENTIAL = re.compile(
    r"authorization|cookie|credential|key|password|secret|token", re.IGNORECASE
)
_WORD = re.compile(r"[^\s\"',;]{8,}")
_AFTER = 1.0  # seconds: the engine is to see first that time is up


@dataclass(frozen=True, slots=True)
class _Service:
    """The request that is sent, and how; `hidden` is what must not come back in an answer."""

    method: str
    url: str = field(repr=False)
    where: Destination
    headers: Mapping[str, str] = field(repr=False)
    secret: str | None = field(repr=False)
    signer: tuple[str, ...]
    hidden: frozenset[str] = field(repr=False)
    seconds: float


def http(
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    secret: str | None = None,
    outside: Outside | None = None,
    timeout: float | None = None,
    signer: tuple[str, ...] = (),
) -> Callable[[Event[Any]], Awaitable[Outcome | None]]:
    """Build a hook from a web service; `timeout` is the hook's own, which the engine enforces.

    The request is signed with `secret`, or with that of `outside`, if there is one. A `signer`, the
    owner and the name of an agent that a request made, has a secret derived from that.
    """
    with needs("httpx2", "a hook that is a web service", "server"):
        import httpcore2  # noqa: F401
    given = headers or {}
    with about_key("secret"):
        if secret is not None:
            parse_secret(secret)
    with about_key("headers"):
        told = _USUAL | _check_headers(given)
    with about_key("url"):
        where = parse_destination(url)
    seconds = (DEFAULT_TIMEOUT if timeout is None else timeout) + _AFTER
    hidden = frozenset((*_find_secrets(given), *(() if secret is None else (secret,))))
    service = _Service(method, url, where, told, secret, signer, hidden, seconds)
    around = outside or Outside()

    async def call_service(event: Event[Any]) -> Outcome | None:
        try:
            answer = await _send_event(service, event, around)
        except OutboundRefused as error:
            raise UnreachableError(str(error)) from None
        return _parse_answer(event, service, answer)

    return call_service


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers under lower-case names, or raise which is invalid; never its value."""
    for name, value in headers.items():
        if name.lower() in OURS:
            remedy = "Remove it: it follows from the URL and the content"
            raise ActionError(f"the header {name} among `headers` cannot be set", remedy)
        if not HEADER.fullmatch(name) or not VALUE.fullmatch(value):
            problem = f"the header {name!r} among `headers` has characters that no header can have"
            raise ActionError(problem, "Use visible ASCII; look for a stray line break")
    return {name.lower(): str(value) for name, value in headers.items()}


def _find_secrets(headers: Mapping[str, str]) -> set[str]:
    """Find the words that variables put into headers with credentials."""
    found: set[str] = set()
    for name, value in headers.items():
        written = str(getattr(value, "written", value))
        if _CREDENTIAL.search(f"{name} {written}"):
            found |= {word for word in _WORD.findall(value) if word not in written}
    return found


async def _send_event(service: _Service, event: Event[Any], outside: Outside) -> OutboundAnswer:
    content = encode_request(render_event(event))
    message_id = _message_id(service, event)
    named = {} if message_id is None else {"webhook-id": message_id}
    async with _open_client(outside, service.where) as client:
        return await client.send(
            service.method,
            service.url,
            headers={**service.headers, **named},
            content=content,
            sign_with=service.secret or outside.signing_secret(service.signer),
            message_id=message_id,
            timeout=service.seconds,
        )


@asynccontextmanager
async def _open_client(outside: Outside, where: Destination) -> AsyncIterator[Outbound]:
    """Yield the shared client, or one for this request alone, which is closed after it."""
    if outside.outbound is not None:
        yield outside.outbound
        return
    own = Outbound(
        outside.allow, max_response_bytes=LIMIT, tls=None if where.is_plain else _tls_context()
    )
    try:
        yield own
    finally:
        await own.aclose()


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Return what certificates are checked with; it takes long to make."""
    import httpcore2

    return httpcore2.default_ssl_context()


def _message_id(service: _Service, event: Event[Any]) -> str | None:
    """Return the id of a message: the same each time it is sent, another for other hooks."""
    delivery = event.metadata.get("delivery_id")
    if delivery is None:
        return None
    of = json.dumps([delivery, service.method, service.url, plain(event.config)], sort_keys=True)
    return f"msg_{hashlib.sha256(of.encode()).hexdigest()[:32]}"


def _parse_answer(event: Event[Any], service: _Service, answer: OutboundAnswer) -> Outcome | None:
    where, observing = service.where, event.verdict is not None
    if not 200 <= answer.status < 300:
        _raise_for_status(where, answer.status)
    if answer.cut or len(answer.content) > LIMIT:
        raise InvalidOutcomeError(f"{where} answered more than {LIMIT} bytes: answer with less")
    if observing and not answer.content.strip():
        return None
    text = answer.content.decode(errors="replace")
    if any(word in text for word in service.hidden):
        raise InvalidOutcomeError(
            f"{where} repeated a secret that it was sent: it must not be in an answer"
        )
    data = read_json(str(where), answer.content)
    return parse_answer(event.point, data, event.value, observing=observing)


def _raise_for_status(where: Destination, status: int) -> NoReturn:
    if status >= 500 or status == 429:
        raise UnreachableError(f"{where} answered {status}")
    if 300 <= status < 400:
        problem = f"{where} answered {status}, a redirect, and those are not followed"
        raise ActionError(problem, "Put the address that it leads to into `url`", public=problem)
    problem = f"{where} answered {status}"
    raise ActionError(problem, "Look there for the reason", public=problem)
