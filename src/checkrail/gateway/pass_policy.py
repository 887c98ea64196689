"""What is passed on although no hook sees it, and what is refused."""

from __future__ import annotations

import json
import re

from checkrail.config.gateway import GatewayConfig
from checkrail.engine.matchers import LONGEST_NAME, compile_pattern
from checkrail.gateway.errors import InvalidRequestError
from checkrail.gateway.incoming_request import IncomingRequest
from checkrail.llm.formats import ASIDE, FORMATS, VERBS

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
