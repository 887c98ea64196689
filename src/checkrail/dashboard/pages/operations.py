"""What runs the place: calls of models through the gateway, and who executes runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from checkrail.dashboard import shown
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page

SHOWN = 100
LISTED = 8
"""Keys, users or models that are listed, those with most calls."""


async def show_gateway(page: Page) -> Response:
    """Show calls of models, the newest first, and sums of all that fit."""
    names = ("key", "user", "model", "decision", "before")
    told = {name: page.query.get(name, "").strip() for name in names}
    by = page.query.get("by", "model")
    by = by if by in ("key", "user", "model") else "model"
    wanted = {name: told[name] for name in ("key", "user", "model")}
    try:
        calls = await page.api.get("/gateway/calls", told | {"limit": SHOWN})
        sums = await page.api.get("/gateway/calls/stats", wanted | {"by": by})
        is_on = True
    except ApiError as error:
        if error.status != 404:
            raise
        calls, sums, is_on = [], [], False
    costs = [each["cost"] for each in sums if each["cost"] is not None]
    totals = {name: sum(each[name] for each in sums) for name in ("calls", "tokens", "blocked")}
    most = max((each["calls"] for each in sums), default=1)
    return await page.render(
        "pages/gateway.html",
        calls=[_describe_call(call) for call in calls],
        totals=totals | {"cost": sum(costs) if costs else None},
        typed=told,
        by=by,
        shares=[each | {"share": round(100 * each["calls"] / most, 1)} for each in sums[:LISTED]],
        older=calls[-1]["call_id"] if len(calls) == SHOWN else None,
        is_on=is_on,
    )


def _describe_call(call: Mapping[str, Any]) -> dict[str, Any]:
    usage = call.get("usage") or {}
    tokens = usage.get("total_tokens")
    if tokens is None and usage:
        tokens = (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
    decision = call.get("decision") or "continue"
    word, kind, icon = shown.DECISIONS.get(decision, ("passed", "passed", "check"))
    return {
        **call,
        "time": shown.parse_time(call.get("created_at")),
        "user": call.get("user_id") or "",
        "model": call.get("answered_model") or call.get("model") or "",
        "tokens": tokens,
        "cost": call.get("cost"),
        "decision": decision,
        "chip": shown.Status(word, kind, icon),
    }


async def show_runners(page: Page) -> Response:
    """Show who executes runs, and what waits for them."""
    runners = await page.api.get("/runners")
    queue = await page.api.get("/queue") if page.api.has("GET", "/queue") else None
    if isinstance(queue, Mapping):
        queue = queue.get("queue") or queue.get("items") or []
    return await page.render("pages/runners.html", runners=runners, queue=queue)
