"""The pages behind `/ui`: their routes, who may see them, and what happens when one fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import FormData, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkrail.dashboard.api import Api, ApiError
from checkrail.dashboard.auth import SAFE, Door, Visitor, check_form, set_cookie
from checkrail.dashboard.page import FORM_BYTES, Page, base_context, nonce_of, templates
from checkrail.dashboard.pages import ROUTES
from checkrail.dashboard.pages.login import build_login_routes
from checkrail.dashboard.statics import get_static
from checkrail.server.auth import AuthError, Unauthenticated
from checkrail.server.services import Services
from checkrail.store.health import find_trouble

log = logging.getLogger("checkrail.dashboard")

Handler = Callable[[Page], Awaitable[Response]]

CSP = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx"
)


def build_pages(api: ASGIApp, services: Services) -> ASGIApp:
    """Build the app that answers below `/ui`."""
    site = Site(api, services)
    routes = [
        Route("/", go_home),
        Route("/ui", go_home),
        Route("/ui/static/{name:path}", get_static),
        *build_login_routes(site.door),
        *(
            Route(path, site.endpoint(handler), methods=[method])
            for method, path, handler in ROUTES
        ),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: site.show_http_error})
    return WithHeaders(app)


async def go_home(_request: Request) -> Response:
    """Redirect to the first page."""
    return RedirectResponse("/ui/", 303)


class Site:
    """What all pages have in common."""

    def __init__(self, api: ASGIApp, services: Services) -> None:
        self._api = api
        self.door = Door(services)

    def endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return a route's endpoint, which lets a visitor in and shows what went wrong."""

        async def answer(request: Request) -> Response:
            try:
                visitor = await self.door.admit(request)
                page = Page(request, self.door, visitor, Api(self._api, request, visitor.caller))
                if request.method not in SAFE:
                    check_form(request, visitor, await read_token(request))
                response = await handler(page)
                if visitor.is_new:
                    set_cookie(request, response, visitor.token)
            except Exception as error:  # noqa: BLE001 - each becomes a page
                return await self._show_error(request, error)
            return response

        return answer

    async def show_http_error(self, request: Request, error: Exception) -> Response:
        """Show that a page does not exist, to whoever may know."""
        return await self._show_error(request, error)

    async def _show_error(self, request: Request, error: Exception) -> Response:
        if isinstance(error, Unauthenticated) and self.door.takes_keys:
            return ask_to_log_in(request)
        told = describe_error(error)
        if told["status"] == 500:
            log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        try:
            visitor: Visitor | None = await self.door.admit(request)
        except Exception:  # noqa: BLE001 - this is about another error
            visitor = None
        caller = None if visitor is None else visitor.caller
        fragment = "hx-request" in request.headers
        name = "fragments/problem.html" if fragment else "error.html"
        more: dict[str, Any] = {
            "visitor": visitor,
            "who": caller,
            "csrf": visitor.csrf if visitor else "",
        }
        if visitor is not None:
            more["api"] = Api(self._api, request, visitor.caller)
        body = templates().get_template(name).render(base_context(request) | more | told)
        return HTMLResponse(body, told["status"])


def ask_to_log_in(request: Request) -> Response:
    """Send a browser to the login, and back afterwards."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method not in SAFE:
        wanted = "/ui/"
    place = f"/ui/login?next={quote(wanted)}"
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)


_NOT_FOUND = "There is no such page, or it is not yours."


def describe_error(error: Exception) -> dict[str, Any]:
    """Return what an error page says."""
    status, name, message = 500, "internal", ""
    problems: Sequence[Any] = ()
    if isinstance(error, ApiError):
        status, name, message, problems = error.status, error.error, error.message, error.problems
    elif isinstance(error, AuthError):
        status, name, message = error.status, error.error, error.message
    elif isinstance(error, HTTPException):
        status, name = error.status_code, "http_error"
        message = _NOT_FOUND if status == 404 else str(error.detail)
    elif (trouble := find_trouble(error)) is not None:
        status, name, message = 503, "database_unavailable", f"{trouble.words}. Try again later"
    else:
        message = f"The page could not be made ({type(error).__name__}): the server's log says why"
    return {"status": status, "error": name, "message": message, "problems": problems}


async def read_token(request: Request) -> str:
    """Return the token that a form or a script sends; the form is kept for the page."""
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > FORM_BYTES:
        raise HTTPException(413, f"The form is larger than {FORM_BYTES} bytes")
    form: FormData = await request.form(max_files=0, max_fields=2000, max_part_size=FORM_BYTES)
    sent = request.headers.get("x-csrf-token") or form.get("csrf")
    return sent if isinstance(sent, str) else ""


class WithHeaders:
    """Gives every answer the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        nonce = nonce_of(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", CSP.format(nonce=nonce))
                headers.setdefault("x-content-type-options", "nosniff")
                headers.setdefault("referrer-policy", "same-origin")
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)
