"""Pages, by what they show."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from checkrail.dashboard.page import Page
from checkrail.dashboard.pages import (
    agents,
    approvals,
    chat,
    hooks,
    login,
    operations,
    overview,
    palette,
    run,
    runs,
    sessions,
)

ROUTES: tuple[tuple[str, str, Callable[[Page], Awaitable[Response]]], ...] = (
    ("POST", "/ui/logout", login.log_out),
    ("POST", "/ui/theme", login.set_theme),
    ("GET", "/ui/palette", palette.find_pages),
    ("GET", "/ui/help/keys", palette.show_keys),
    ("GET", "/ui/go/{told}", palette.go_to),
    ("GET", "/ui/", overview.show_overview),
    ("GET", "/ui/runs", runs.show_runs),
    ("GET", "/ui/live/runs", runs.follow_runs),
    ("GET", "/ui/runs/{run_id}", run.show_run),
    ("GET", "/ui/runs/{run_id}/steps/{step}", run.show_run),
    ("GET", "/ui/runs/{run_id}/chunks/{number:int}", run.show_chunk),
    ("GET", "/ui/live/runs/{run_id}", run.follow_run),
    ("GET", "/ui/runs/{run_id}/run.json", run.download),
    ("POST", "/ui/runs/{run_id}/rerun", run.rerun),
    ("POST", "/ui/runs/{run_id}/cancel", run.cancel),
    ("GET", "/ui/agents", agents.show_agents),
    ("GET", "/ui/agents/new", agents.show_new),
    ("POST", "/ui/agents/new", agents.create),
    ("POST", "/ui/agents/{name}/check", agents.check),
    ("POST", "/ui/agents/{name}/run", agents.start_run),
    ("POST", "/ui/agents/{name}/delete", agents.delete),
    ("POST", "/ui/agents/{name}/restore/{number:int}", agents.restore),
    ("POST", "/ui/agents/{name}/switch/{verb}", agents.switch),
    ("GET", "/ui/agents/{name}/{tab}", agents.show_agent),
    ("POST", "/ui/agents/{name}/{tab}", agents.save),
    ("GET", "/ui/hooks", hooks.show_hooks),
    ("POST", "/ui/hooks/mode", hooks.switch_mode),
    ("GET", "/ui/sessions", sessions.show_sessions),
    ("GET", "/ui/sessions/{session_id}", sessions.show_session),
    ("POST", "/ui/sessions/{session_id}/{verb}", sessions.change_session),
    ("GET", "/ui/chat", chat.show_chat),
    ("POST", "/ui/chat/send", chat.send_message),
    ("GET", "/ui/chat/{session_id}", chat.show_chat),
    ("GET", "/ui/gateway", operations.show_gateway),
    ("GET", "/ui/runners", operations.show_runners),
    ("GET", "/ui/approvals", approvals.show_inbox),
    ("GET", "/ui/live/approvals", approvals.follow_inbox),
    ("GET", "/ui/approvals/{approval_id}", approvals.show_approval),
    ("POST", "/ui/approvals/{approval_id}", approvals.answer),
)
"""Method, path, and what answers."""
