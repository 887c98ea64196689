"""A server with its dashboard in front; the pages are loaded when somebody first asks for one."""

from __future__ import annotations

from functools import cached_property

from starlette.types import ASGIApp, Receive, Scope, Send

from checkrail.server.services import Services

PATH = "/ui"


def add_dashboard(api: ASGIApp, services: Services) -> ASGIApp:
    """Put the dashboard in front of an API."""
    return api if "dashboard" in services.config.http.disabled else WithDashboard(api, services)


class WithDashboard:
    """Answers what is below `/ui`, and leaves the rest to the API."""

    def __init__(self, api: ASGIApp, services: Services) -> None:
        self._api = api
        self._services = services
        self._has_root = not services.config.http.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        path = scope.get("path", "")
        ours = path == PATH or path.startswith(f"{PATH}/") or (path == "/" and self._has_root)
        if ours and scope["type"] == "http":
            await self._pages(scope, receive, send)
        else:
            await self._api(scope, receive, send)

    @cached_property
    def _pages(self) -> ASGIApp:
        from checkrail.dashboard.app import build_pages

        return build_pages(self._api, self._services)
