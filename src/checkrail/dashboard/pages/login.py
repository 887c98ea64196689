"""Logging in with an API key, logging out, and the theme."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from checkrail.dashboard.auth import (
    Door,
    comes_from_here,
    cookie_name,
    is_plain_loopback,
    set_cookie,
)
from checkrail.dashboard.page import THEME, THEMES, Page, base_context, templates
from checkrail.server.auth import AuthError

_LONGEST = 4096


def build_login_routes(door: Door) -> list[Route]:
    """Return the routes that need no login."""

    async def show_login(request: Request) -> Response:
        if not door.takes_keys:
            return RedirectResponse("/ui/", 303)
        return _login_page(request, "")

    async def log_in(request: Request) -> Response:
        if not door.takes_keys:
            raise HTTPException(404)
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > _LONGEST:
            raise HTTPException(413, "The form is too large")
        if not comes_from_here(request):
            return _login_page(request, "This form came from another site.", 403)
        form = await request.form(max_files=0, max_fields=10)
        try:
            token = await door.log_in(str(form.get("key") or ""))
        except AuthError as refusal:
            return _login_page(request, refusal.message, refusal.status)
        response = RedirectResponse(safe_next(str(form.get("next") or "")), 303)
        set_cookie(request, response, token)
        return response

    return [
        Route("/ui/login", show_login),
        Route("/ui/login", log_in, methods=["POST"]),
    ]


async def log_out(page: Page) -> Response:
    """End the login."""
    await page.door.log_out(page.visitor.token)
    response = RedirectResponse("/ui/login", 303)
    response.delete_cookie(cookie_name(page.request))
    return response


async def set_theme(page: Page) -> Response:
    """Keep the theme that somebody chose, and go back."""
    form = await page.request.form()
    chosen = str(form.get("theme") or "")
    response = RedirectResponse(safe_next(str(form.get("next") or "")), 303)
    if chosen in THEMES:
        secure = not is_plain_loopback(page.request)
        response.set_cookie(THEME, chosen, 31_536_000, path="/ui", secure=secure, samesite="lax")
    else:
        response.delete_cookie(THEME, path="/ui")
    return response


def safe_next(wanted: str) -> str:
    """Return the page to go on with: one of ours, and no other site's."""
    is_ours = wanted.startswith("/ui/") and "\\" not in wanted and "\n" not in wanted
    return wanted if is_ours and not wanted.startswith("/ui/login") else "/ui/"


def _login_page(request: Request, problem: str, status: int = 200) -> Response:
    told = {"problem": problem, "next": safe_next(request.query_params.get("next", ""))}
    body = templates().get_template("pages/login.html").render(base_context(request) | told)
    return HTMLResponse(body, status)
