"""Pages, by what they show."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from checkrail.dashboard.page import Page
from checkrail.dashboard.pages import approvals, login, palette, run, runs

ROUTES: tuple[tuple[str, str, Callable[[Page], Awaitable[Response]]], ...] = (
    ("POST", "/ui/logout", login.log_out),
    ("POST", "/ui/theme", login.set_theme),
    ("GET", "/ui/palette", palette.find_pages),
    ("GET", "/ui/help/keys", palette.show_keys),
    ("GET", "/ui/go/{told}", palette.go_to),
    ("GET", "/ui/", runs.show_runs),
    ("GET", "/ui/runs", runs.show_runs),
    ("GET", "/ui/live/runs", runs.follow_runs),
    ("GET", "/ui/runs/{run_id}", run.show_run),
    ("GET", "/ui/runs/{run_id}/steps/{step}", run.show_run),
    ("GET", "/ui/runs/{run_id}/chunks/{number:int}", run.show_chunk),
    ("GET", "/ui/live/runs/{run_id}", run.follow_run),
    ("GET", "/ui/runs/{run_id}/run.json", run.download),
    ("POST", "/ui/runs/{run_id}/rerun", run.rerun),
    ("POST", "/ui/runs/{run_id}/cancel", run.cancel),
    ("GET", "/ui/approvals", approvals.show_inbox),
    ("GET", "/ui/live/approvals", approvals.follow_inbox),
    ("GET", "/ui/approvals/{approval_id}", approvals.show_approval),
    ("POST", "/ui/approvals/{approval_id}", approvals.answer),
)
"""Method, path, and what answers."""
