"""Every hook by its point and order, what it did lately, and its mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page
from checkrail.dashboard.pages.agents import read_plan
from checkrail.engine.points import HookPoint

WINDOWS = ("1h", "24h", "7d")
MODES = ("enforce", "shadow", "off")


async def show_hooks(page: Page) -> Response:
    """Show the hooks that there are, at each point."""
    window = page.query.get("window", "24h")
    window = window if window in WINDOWS else "24h"
    agent, point = page.query.get("agent", ""), page.query.get("point", "")
    agents = await page.api.get("/agents")
    plan = await _read_plan(page, agents, agent)
    stats = await _read_stats(page, window, agent)
    parts = [
        {
            "point": each["point"],
            "hooks": [_describe(hook, each["point"], stats) for hook in each["hooks"]],
        }
        for each in plan
        if not point or each["point"] == point
    ]
    told = {
        "parts": parts,
        "agents": agents,
        "agent": agent,
        "point": point,
        "points": [str(each) for each in HookPoint],
        "windows": WINDOWS,
        "window": window,
        "modes": MODES,
        "has_stats": bool(stats),
        "can_switch": page.api.has("POST", "/hooks/{name}/mode") and page.visitor.caller.is_admin,
    }
    return await page.render("pages/hooks.html", **told)


async def switch_mode(page: Page) -> Response:
    """Switch a hook to another mode, with a reason."""
    form = await page.request.form()
    told = {
        key: str(form.get(key) or "") for key in ("name", "point", "agent_name", "mode", "reason")
    }
    name = told.pop("name")
    body = {key: value for key, value in told.items() if value}
    await page.api.post(f"/hooks/{quote(name, safe='')}/mode", body)
    return page.go("/ui/hooks", "switched")


async def _read_plan(page: Page, agents: list[Any], agent: str) -> list[dict[str, Any]]:
    """Return the hooks by their points: of an agent, or of the server and all its agents."""
    found: dict[str, list[Any]] = {}
    if page.api.has("GET", "/plan"):
        told = await page.api.get("/plan", {"agent_name": agent})
        found = {part["point"]: [*part["hooks"]] for part in read_plan(told)}
    for each in agents if not agent else ():
        for hook in each["hooks"]:
            for point in hook["points"]:
                found.setdefault(point, []).append(hook | {"agent_name": each["name"]})
    order = [str(point) for point in HookPoint]
    points = sorted(found, key=lambda point: order.index(point) if point in order else len(order))
    return [{"point": point, "hooks": found[point]} for point in points]


async def _read_stats(page: Page, window: str, agent: str) -> dict[tuple[str, str, str], Any]:
    if not page.api.has("GET", "/hooks/stats"):
        return {}
    try:
        told = await page.api.get("/hooks/stats", {"window": window, "agent_name": agent})
    except ApiError:
        return {}
    return {(str(row["point"]), str(row["level"] or ""), str(row["hook"])): row for row in told}


def _describe(
    hook: dict[str, Any], point: str, stats: dict[tuple[str, str, str], Any]
) -> dict[str, Any]:
    name = str(hook.get("name") or hook.get("hook"))
    level = str(hook.get("agent_name") or hook.get("level") or "")
    return hook | {
        "name": name,
        "stats": stats.get((point, level, name), {}),
        "on_error": _describe_on_error(hook.get("on_error")),
        "seconds": hook.get("timeout_seconds") or hook.get("timeout"),
    }


def _describe_on_error(told: Any) -> str:
    """Return what becomes of failures, in one word where all kinds have the same."""
    if not isinstance(told, Mapping):
        return str(told or "default")
    if len({*told.values()}) == 1:
        return str(next(iter(told.values())))
    return ", ".join(f"{kind}: {answer}" for kind, answer in told.items())
