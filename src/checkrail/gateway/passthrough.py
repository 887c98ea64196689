"""Passing on what no hook looks at: everything under `/v1` but the calls of models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from checkrail.gateway.headers import Headers, find_header, has_query_key
from checkrail.gateway.incoming_request import IncomingRequest
from checkrail.gateway.upstreams import Route, UpstreamError, UpstreamResponse, Upstreams

MODELS = "/v1/models"
GEMINI_MODELS = "/v1beta/models"
_READING = ("GET", "HEAD")

_OF_GEMINI = re.compile(r"/(?:upload/|download/)?v1(?:alpha|beta)\w*/.*|/v1/\w+/[^/]+:\w+")
"""The paths of Google's API that no other API has."""

_GOOGLE = frozenset({b"x-goog-api-key", b"x-goog-api-client"})

_LISTS = {"gemini": ("models", "name", "models/")}
_LIST = ("data", "id", "")
"""Where a list of models has these, where each has its name, and what stands before that."""


@dataclass(frozen=True, slots=True)
class PassedResponse:
    """An upstream's response: a whole body, or a stream."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes | AsyncIterator[bytes]


def is_of_gemini(path: str) -> bool:
    """Return whether a path is one of Google's API alone."""
    return _OF_GEMINI.fullmatch(path) is not None


def detect_format(path: str, headers: Headers, query: bytes = b"") -> str:
    """Return the format that a caller speaks, by its headers, its key, or the path."""
    by_key = path.startswith(MODELS) and has_query_key(query)
    if by_key or is_of_gemini(path) or any(name in _GOOGLE for name, _ in headers):
        return "gemini"
    named = any(name in (b"anthropic-version", b"anthropic-beta") for name, _ in headers)
    if named or path.startswith("/v1/messages"):
        return "messages"
    return "responses" if path.startswith("/v1/responses") else "chat"


async def pass_on(upstreams: Upstreams, incoming: IncomingRequest) -> PassedResponse:
    """Send a request to the upstream that takes it, and return its response as it comes in."""
    headers = incoming.headers
    api = detect_format(incoming.path, headers, incoming.query)
    if incoming.path in (MODELS, GEMINI_MODELS) and incoming.method in _READING:
        routes = upstreams.model_list_routes(api)
        if len(routes) > 1 or not routes[0].takes_all:
            return await _merge_model_lists(routes, incoming)
    body: bytes | AsyncIterator[bytes] | None = None
    model = None
    if incoming.has_body and "json" in (find_header(headers, b"content-type") or "").lower():
        body = await incoming.read_body()
        model = _find_model(body)
    elif incoming.has_body:
        body = incoming.iter_body()
    route = upstreams.find_passthrough_route(api, model)
    sent = await route.send(
        incoming.raw_path, body, headers, incoming.query, method=incoming.method
    )
    return PassedResponse(sent.status, sent.headers, sent.chunks())


def _find_model(body: bytes) -> str | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    model = found.get("model") if isinstance(found, dict) else None
    return model if isinstance(model, str) else None


async def _merge_model_lists(routes: Sequence[Route], incoming: IncomingRequest) -> PassedResponse:
    """Return the model lists of several upstreams as one; of each, the models it is routed for."""
    asked = [(route, _fetch_models(route, incoming)) for route in routes]
    answers = await asyncio.gather(*(answer for _, answer in asked))
    items, key, prefix = _LISTS.get(routes[0].format, _LIST)
    models: dict[str, Any] = {}
    first: dict[str, Any] | None = None
    for (route, _), answer in zip(asked, answers, strict=True):
        listed = _parse_model_list(answer, items)
        if listed is None:
            continue
        first = first or listed
        for model in listed[items]:
            name = model.get(key) if isinstance(model, dict) else None
            own = name.removeprefix(prefix) if isinstance(name, str) else None
            public = route.public_name(own) if own is not None else None
            if public is not None:
                shown = model if public == own else {**model, key: prefix + public}
                models.setdefault(public, shown)
    if first is None:
        return _first_failure(answers)
    merged = {**first, items: [*models.values()]}
    if "has_more" in first:
        names: list[str | None] = [*models] or [None]
        merged |= {"has_more": False, "first_id": names[0], "last_id": names[-1]}
    return PassedResponse(200, [(b"content-type", b"application/json")], orjson.dumps(merged))


_Answer = tuple[UpstreamResponse, bytes] | UpstreamError


async def _fetch_models(route: Route, incoming: IncomingRequest) -> _Answer:
    try:
        sent = await route.send(incoming.path, None, incoming.headers, incoming.query, method="GET")
        return sent, await sent.read()
    except UpstreamError as error:
        return error


def _parse_model_list(answer: _Answer, items: str) -> dict[str, Any] | None:
    if isinstance(answer, UpstreamError) or answer[0].status != 200:
        return None
    try:
        found = orjson.loads(answer[1])
    except orjson.JSONDecodeError:
        return None
    fits = isinstance(found, dict) and isinstance(found.get(items), list)
    return found if fits else None


def _first_failure(answers: Sequence[_Answer]) -> PassedResponse:
    """Return the first response without a list, or raise the first `UpstreamError`."""
    for answer in answers:
        if not isinstance(answer, UpstreamError):
            sent, body = answer
            return PassedResponse(sent.status, sent.headers, body)
    raise next(answer for answer in answers if isinstance(answer, UpstreamError))
