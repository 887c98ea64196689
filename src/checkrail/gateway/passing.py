"""Passing on what no hook looks at: everything under `/v1` but the calls of models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from checkrail.gateway.headers import Headers, value_of
from checkrail.gateway.incoming import Incoming
from checkrail.gateway.upstreams import Route, Sent, UpstreamError, Upstreams

MODELS = "/v1/models"
_READING = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Passed:
    """What came back: a body at once, or as it comes in."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes | AsyncIterator[bytes]


def spoken(path: str, headers: Headers) -> str:
    """Say which format a caller speaks, by what it sends: a header of Anthropic's, or the path."""
    named = any(name in (b"anthropic-version", b"anthropic-beta") for name, _ in headers)
    if named or path.startswith("/v1/messages"):
        return "messages"
    return "responses" if path.startswith("/v1/responses") else "chat"


async def pass_on(upstreams: Upstreams, incoming: Incoming) -> Passed:
    """Send a request to whoever takes it, and give what comes back as it comes in."""
    headers = incoming.headers
    api = spoken(incoming.path, headers)
    if incoming.path == MODELS and incoming.method in _READING:
        routes = upstreams.listing(api)
        if len(routes) > 1 or any(route.renames for route in routes):
            return await _listed(routes, incoming)
    body: bytes | AsyncIterator[bytes] | None = None
    model = None
    if incoming.has_body and "json" in (value_of(headers, b"content-type") or "").lower():
        body = await incoming.body()
        model = _model(body)
    elif incoming.has_body:
        body = incoming.pieces()
    route = upstreams.passing(api, model)
    sent = await route.send(
        incoming.raw_path, body, headers, incoming.query, method=incoming.method
    )
    return Passed(sent.status, sent.headers, sent.chunks())


def _model(body: bytes) -> str | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    model = found.get("model") if isinstance(found, dict) else None
    return model if isinstance(model, str) else None


async def _listed(routes: Iterable[Route], incoming: Incoming) -> Passed:
    """Put the lists of several upstreams together: of each, the models that it is asked for."""
    asked = [(route, _answer(route, incoming)) for route in routes]
    answers = await asyncio.gather(*(answer for _, answer in asked))
    models: dict[str, Any] = {}
    first: dict[str, Any] | None = None
    for (route, _), answer in zip(asked, answers, strict=True):
        listed = _list(answer)
        if listed is None:
            continue
        first = first or listed
        for model in listed["data"]:
            name = model.get("id") if isinstance(model, dict) else None
            public = route.public_name(name) if isinstance(name, str) else None
            if public is not None:
                models.setdefault(public, model if public == name else {**model, "id": public})
    if first is None:
        return _failed(answers)
    merged = {**first, "data": [*models.values()]}
    if "has_more" in first:
        names: list[str | None] = [*models] or [None]
        merged |= {"has_more": False, "first_id": names[0], "last_id": names[-1]}
    return Passed(200, [(b"content-type", b"application/json")], orjson.dumps(merged))


_Answer = tuple[Sent, bytes] | UpstreamError


async def _answer(route: Route, incoming: Incoming) -> _Answer:
    try:
        sent = await route.send(MODELS, None, incoming.headers, incoming.query, method="GET")
        return sent, await sent.read()
    except UpstreamError as error:
        return error


def _list(answer: _Answer) -> dict[str, Any] | None:
    if isinstance(answer, UpstreamError) or answer[0].status != 200:
        return None
    try:
        found = orjson.loads(answer[1])
    except orjson.JSONDecodeError:
        return None
    fits = isinstance(found, dict) and isinstance(found.get("data"), list)
    return found if fits else None


def _failed(answers: Sequence[_Answer]) -> Passed:
    """Return what the first upstream said that had no list, if any said anything."""
    for answer in answers:
        if not isinstance(answer, UpstreamError):
            sent, body = answer
            return Passed(sent.status, sent.headers, body)
    raise next(answer for answer in answers if isinstance(answer, UpstreamError))
