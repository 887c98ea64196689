"""Going places: the palette, ids without their page, and the help on keys."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page
from checkrail.server.auth.caller import Needs

PAGES: tuple[tuple[str, str, Needs], ...] = (
    ("Overview", "/ui/", "viewer"),
    ("Runs", "/ui/runs", "viewer"),
    ("Approvals", "/ui/approvals", "viewer"),
    ("Sessions", "/ui/sessions", "viewer"),
    ("Chat", "/ui/chat", "member"),
    ("Agents", "/ui/agents", "viewer"),
    ("Hooks", "/ui/hooks", "viewer"),
    ("Gateway", "/ui/gateway", "viewer"),
    ("Runners", "/ui/runners", "admin"),
    ("Keys", "/ui/help/keys", "viewer"),
)
_KINDS = (("/runs", "runs"), ("/approvals", "approvals"), ("/sessions", "sessions"))
_SHOWN = 12


async def find_pages(page: Page) -> Response:
    """Return the pages, agents and runs whose name or id holds what was typed."""
    wanted = page.query.get("q", "").strip().lower()
    found: list[dict[str, Any]] = [
        {"label": label, "url": url, "kind": "page"}
        for label, url, needs in PAGES
        if wanted in label.lower() and page.visitor.caller.has_role(needs)
    ]
    for agent in await page.api.get("/agents", {"limit": 1000}):
        name = str(agent["name"])
        if wanted and wanted in name.lower():
            found.append({"label": name, "url": agent_url(name), "kind": "agent"})
    if len(wanted) >= 8 and not (set(wanted) - set("0123456789abcdef-")):
        for run in await page.api.get("/runs", {"q": wanted, "limit": 5, "fields": "list"}):
            if str(run["run_id"]).startswith(wanted):
                url = f"/ui/runs/{run['run_id']}"
                found.append({"label": run["run_id"], "url": url, "kind": "run"})
    return JSONResponse(found[:_SHOWN])


def agent_url(name: str, tab: str = "general") -> str:
    """Return where an agent is shown."""
    return f"/ui/agents/{quote(name, safe='')}/{tab}"


async def go_to(page: Page) -> Response:
    """Redirect to whatever has an id."""
    told = page.request.path_params["told"]
    for path, name in _KINDS:
        try:
            await page.api.get(f"{path}/{quote(told, safe='')}")
        except ApiError:
            continue
        return page.go(f"/ui/{name}/{quote(told, safe='')}")
    raise HTTPException(404)


async def show_keys(page: Page) -> Response:
    """Show which keys do what."""
    return await page.render("pages/keys.html")
