"""Passing on what no hook looks at, under `/v1` but the calls of models; and refusing it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from checkrail.config.gateway import GatewayConfig
from checkrail.engine.matchers import LONGEST_NAME, compile_pattern
from checkrail.gateway.errors import InvalidRequestError
from checkrail.gateway.headers import Headers, find_header, has_query_key
from checkrail.gateway.incoming_request import IncomingRequest
from checkrail.gateway.upstreams import Route, UpstreamError, UpstreamResponse, Upstreams
from checkrail.llm.formats import ASIDE, FORMATS, VERBS

MODELS = "/v1/models"
GEMINI_MODELS = "/v1beta/models"
_READING = ("GET", "HEAD")

_OF_GEMINI = re.compile(r"/(?:upload/|download/)?v1(?:alpha|beta)\w*/.*|/v1/\w+/[^/]+:\w+")
"""The paths of Google's API that no other API has."""

_GOOGLE = frozenset({b"x-goog-api-key", b"x-goog-api-client"})

_LISTS = {"gemini": ("models", "name", "models/")}
_LIST = ("data", "id", "")
"""Where a list of models has these, where each has its name, and what stands before that."""

CALLED_AT = (
    f"Models are called at {', '.join(FORMATS)}, with /v1 or without it, "
    "and at /v1beta/models/MODEL:generateContent"
)

_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
_METHODS = (*_BODILESS, "POST")
_CALLS = (*(path.removeprefix("/v1") for path in (*FORMATS, *ASIDE)), *VERBS, "/interactions")
_BEHIND_CALL = re.compile(rf"(?:{'|'.join(map(re.escape, _CALLS))})(?![\w-])")
"""A path where models are called, with anything or nothing behind it."""

_OF_THREADS = re.compile(r"/v1/threads/[^/]+/messages(/[^/]+)?")
"""Paths that look so and call no model."""

_ID = r"[\w.-]+"
_STORED = {
    "GET": rf"/v1/(responses/{_ID}(/input_items)?|chat/completions(/{_ID}(/messages)?)?)",
    "DELETE": rf"/v1/(responses|chat/completions)/{_ID}",
    "POST": rf"/v1/responses/{_ID}/cancel",
}
"""What there is behind those paths: answers that the provider keeps. None of it has a body."""

_OTHER_APIS = re.compile(r".*(:\w+|/invocations)")
"""How paths end where other APIs call a model."""


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


class PassPolicy:
    """Decides what is passed on unseen.

    What the configuration names is, and all else if it says so. If it says nothing, callers of
    this machine, who are `local`, may have all, and others, with whom an upstream's key is shared,
    nothing.
    """

    def __init__(self, config: GatewayConfig, *, local: bool) -> None:
        said = config.pass_through
        self._all = local if said is None else said is True
        named = said if isinstance(said, tuple) else ()
        self._named = [(each.method, compile_pattern(each.path.casefold())) for each in named]

    def check(self, incoming: IncomingRequest, path: str, *, has_hooks: bool) -> None:
        """Raise `InvalidRequestError` for a request that is not passed on; `path` is canonical."""
        plain = incoming.path.casefold().rstrip("/") == path
        if plain and self._is_named(incoming.method, path):
            return
        if not self._all:
            raise InvalidRequestError(403, _closed_message(incoming.method, path))
        if has_hooks:
            _check_form(incoming, path, plain=plain)

    def _is_named(self, method: str, path: str) -> bool:
        if len(path) > LONGEST_NAME:
            return False
        methods = (method, "GET") if method == "HEAD" else (method,)
        return any(
            (wanted is None or wanted in methods) and test(path) for wanted, test in self._named
        )


def is_behind_prefix(method: str, path: str) -> bool:
    """Return whether a path ends as those do where models are called, which it is not."""
    return method == "POST" and path.endswith(_CALLS) and not _OF_THREADS.fullmatch(path)


def _check_form(incoming: IncomingRequest, path: str, *, plain: bool) -> None:
    """Refuse what might be the call of a model to some upstream, past the hooks."""
    method = incoming.method
    if method not in _METHODS:
        told = f"{method[:40]} is not passed on here, for hooks look at POST alone"
        raise InvalidRequestError(405, f"{told}. {_remedy(method, path)}")
    if method in _BODILESS and incoming.has_body:
        raise InvalidRequestError(400, f"A request with {method} has no body here")
    if not plain or _may_call_model(incoming, path):
        told = f"There is nothing at this path with {method}. {CALLED_AT}"
        raise InvalidRequestError(404, f"{told}. {_remedy(method, path)}")


def _may_call_model(incoming: IncomingRequest, path: str) -> bool:
    method = "GET" if incoming.method == "HEAD" else incoming.method
    if not _BEHIND_CALL.search(path) or _OF_THREADS.fullmatch(path):
        return method == "POST" and _OTHER_APIS.fullmatch(path) is not None
    is_stored = method in _STORED and re.fullmatch(_STORED[method], path)
    return not is_stored or incoming.has_body


def _closed_message(method: str, path: str) -> str:
    told = "This gateway passes on calls of models and the list of models, and nothing else"
    return f"{told}. {_remedy(method, path)}"


def _remedy(method: str, path: str) -> str:
    written = json.dumps(f"{method[:40]} {path[:200]}", ensure_ascii=False)
    return f"To pass it on, unseen by hooks, write under gateway: pass_through: [{written}]"
