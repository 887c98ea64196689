"""Sessions: who talked on which channel, with their threads and runs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from checkrail.dashboard import shown
from checkrail.dashboard.page import Page
from checkrail.dashboard.pages.runs import describe_run

SHOWN = 50
_DONE = {"end": "ended", "stop": "stopped"}


async def show_sessions(page: Page) -> Response:
    """Show sessions, the newest first."""
    names = ("channel", "user", "q", "before")
    told = {name: page.query.get(name, "").strip() for name in names}
    state = page.query.get("state", "")
    params: dict[str, Any] = {
        "channel": told["channel"],
        "user_id": told["user"],
        "q": told["q"],
        "before": told["before"],
        "open": {"open": "true", "ended": "false"}.get(state),
        "limit": SHOWN,
    }
    found = await page.api.get("/sessions", params)
    older = found[-1]["session_id"] if len(found) == SHOWN else None
    listed = [_describe(each) for each in found]
    return await page.render(
        "pages/sessions.html", sessions=listed, older=older, state=state, typed=told
    )


async def show_session(page: Page) -> Response:
    """Show a session with its threads and its newest runs."""
    session = await page.api.get(_path(page))
    runs = [describe_run(each, page.now) for each in session.get("runs", ())]
    children = await page.api.get(
        "/sessions", {"parent_session_id": session["session_id"], "limit": 50}
    )
    told: dict[str, Any] = {
        "session": _describe(session),
        "runs": runs,
        "children": [_describe(each) for each in children],
    }
    return await page.render("pages/session.html", **told)


async def change_session(page: Page) -> Response:
    """End a session, or stop what it does now."""
    verb = page.request.path_params["verb"]
    if verb not in _DONE:
        raise HTTPException(404)
    await page.api.post(f"{_path(page)}/{verb}")
    return page.go(f"/ui{_path(page)}", _DONE[verb])


def _path(page: Page) -> str:
    return f"/sessions/{quote(page.request.path_params['session_id'], safe='')}"


def _describe(session: dict[str, Any]) -> dict[str, Any]:
    ended = shown.parse_time(session.get("ended_at"))
    return session | {
        "opened": shown.parse_time(session.get("created_at")),
        "last": shown.parse_time(session.get("updated_at")),
        "ended": ended,
        "status": shown.Status("Ended", "cancelled", "circle-slash")
        if ended
        else shown.Status("Open", "success", "circle-check"),
    }
