"""One request for a page: who asks, the API as they may use it, and how it is answered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import ChainableUndefined, Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from checkrail.dashboard import shown
from checkrail.dashboard.api import Api, ApiError
from checkrail.dashboard.auth import Door, Visitor
from checkrail.dashboard.statics import static_url
from checkrail.dashboard.steps import delivery_status

FORM_BYTES = 2 << 20
THEMES = ("light", "dark")
THEME = "checkrail-theme"

DONE = {
    "approved": "Approved. The run goes on.",
    "denied": "Denied.",
    "cancelled": "The run is being cancelled.",
    "saved": "Saved.",
    "deleted": "Deleted.",
    "switched": "Switched.",
    "ended": "The session has ended.",
    "stopped": "The session's runs are being stopped.",
    "requested": "The run was requested.",
}
"""What is said at the top of a page after something was done."""


@cache
def templates() -> Environment:
    """Return the templates; whatever they show is escaped."""
    environment = Environment(
        loader=PackageLoader("checkrail.dashboard"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "static": static_url,
        "delivery_status": delivery_status,
        "problem_path": problem_path,
        "step_url": step_url,
    }
    environment.filters |= {
        "duration": shown.duration,
        "count": shown.count,
        "money": shown.money,
        "text_of": shown.text_of,
        "summary": shown.summary,
        "short_id": shown.short_id,
        "parse_time": shown.parse_time,
        "iso": shown.iso_time,
    }
    return environment


class Page:
    """A page that somebody asks for."""

    def __init__(self, request: Request, door: Door, visitor: Visitor, api: Api) -> None:
        self.request = request
        self.door = door
        self.services = door.services
        self.visitor = visitor
        self.api = api
        self.nonce = nonce_of(request)
        self.now = time.time()

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters, each by its last value."""
        return self.request.query_params

    @property
    def is_fragment(self) -> bool:
        """Whether only a part of a page is wanted."""
        return "hx-request" in self.request.headers

    def can_answer(self) -> bool:
        """Return whether the visitor may answer questions of hooks."""
        return self.visitor.caller.role in self.services.config.approvals.roles

    async def render(self, name: str, code: int = 200, **told: Any) -> Response:
        """Return a page, or a part of one."""
        body = templates().get_template(name).render(await self._context() | told)
        return HTMLResponse(body, code)

    def render_text(self, name: str, **told: Any) -> str:
        """Return a part of a page as text."""
        return templates().get_template(name).render(self._own_context() | told)

    def go(self, path: str, done: str | None = None) -> Response:
        """Return a redirect to another page, which may say what was done."""
        if done is not None:
            path += f"{'&' if '?' in path else '?'}done={done}"
        return RedirectResponse(path, 303)

    async def _context(self) -> dict[str, Any]:
        told = self._own_context()
        if not self.is_fragment:
            told["open_approvals"] = await count_open_approvals(self.api)
            told["said"] = DONE.get(self.query.get("done", ""))
        return told

    def _own_context(self) -> dict[str, Any]:
        return base_context(self.request) | {
            "nonce": self.nonce,
            "visitor": self.visitor,
            "who": self.visitor.caller,
            "csrf": self.visitor.csrf,
            "api": self.api,
            "now": self.now,
            "can_answer": self.can_answer(),
            "answer_roles": " or ".join(self.services.config.approvals.roles),
        }


def base_context(request: Request) -> dict[str, Any]:
    """Return what every page needs, whoever asks."""
    theme = request.cookies.get(THEME)
    return {
        "path": page_path(request),
        "query": request.query_params,
        "query_string": _kept_query(request),
        "theme": theme if theme in THEMES else "",
        "nonce": nonce_of(request),
        "url_with": lambda **changed: url_with(request, **changed),
        "base_url": str(request.base_url).rstrip("/"),
        "clock": lambda seconds: shown.clock_time(seconds, time.time()),
    }


def _kept_query(request: Request) -> str:
    """Return the part of an address that steps of a run carry on."""
    kept = {name: request.query_params.get(name) for name in ("show", "find", "fold", "list")}
    return urlencode({name: value for name, value in kept.items() if value})


def nonce_of(request: Request) -> str:
    """Return the nonce of this answer's scripts."""
    found: str = request.scope.setdefault("checkrail.nonce", secrets.token_urlsafe(16))
    return found


def url_with(request: Request, **changed: Any) -> str:
    """Return the address of this page with some parameters changed; None takes one out."""
    pairs = [
        (key, value)
        for key, value in parse_qsl(request.url.query)
        if key not in changed and key != "done"
    ]
    for key, value in changed.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(each)) for each in values if each not in (None, "")]
    return page_path(request) + (f"?{urlencode(pairs)}" if pairs else "")


def page_path(request: Request) -> str:
    """Return the path of a page, also where a stream renders a part of it."""
    return request.url.path.replace("/ui/live/", "/ui/", 1)


def step_url(base: str, step: str) -> str:
    """Return the address of a step, whose id may hold a name that a model gave."""
    return f"{base}/steps/{quote(step, safe='')}"


def problem_path(problem: Any) -> str:
    """Return where a problem is, as the API says it: a path, or a list of its parts."""
    told = problem.get("path") if isinstance(problem, Mapping) else None
    return ".".join(map(str, told)) if isinstance(told, list) else str(told or "")


async def count_open_approvals(api: Api) -> int:
    """Return how many questions wait for an answer."""
    try:
        if api.has("GET", "/approvals/count"):
            return int((await api.get("/approvals/count", {"status": "open"}))["count"])
        return len(await api.get("/approvals", {"status": "open", "limit": 100}))
    except (ApiError, KeyError, TypeError):
        return 0
