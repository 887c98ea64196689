"""Pages, by what they show."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from checkrail.dashboard.page import Page
from checkrail.dashboard.pages import login, palette, runs

ROUTES: tuple[tuple[str, str, Callable[[Page], Awaitable[Response]]], ...] = (
    ("POST", "/ui/logout", login.log_out),
    ("POST", "/ui/theme", login.set_theme),
    ("GET", "/ui/palette", palette.find_pages),
    ("GET", "/ui/help/keys", palette.show_keys),
    ("GET", "/ui/go/{told}", palette.go_to),
    ("GET", "/ui/", runs.show_runs),
    ("GET", "/ui/runs", runs.show_runs),
    ("GET", "/ui/live/runs", runs.follow_runs),
)
"""Method, path, and what answers."""
