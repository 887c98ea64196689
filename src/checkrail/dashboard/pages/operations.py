"""What runs the place: calls of models through the gateway, and who executes runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from checkrail.dashboard import shown
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page

SHOWN = 100


async def show_gateway(page: Page) -> Response:
    """Show calls of models, and sums of those that are shown."""
    names = ("key", "user", "model", "decision", "before")
    told = {name: page.query.get(name, "").strip() for name in names}
    try:
        calls = await page.api.get("/gateway/calls", told | {"limit": SHOWN})
        is_on = True
    except ApiError as error:
        if error.status != 404:
            raise
        calls, is_on = [], False
    rows = [_describe_call(call) for call in calls]
    by = page.query.get("by", "model")
    by = by if by in ("key", "user", "model") else "model"
    totals = {
        "calls": len(rows),
        "tokens": sum(row["tokens"] or 0 for row in rows),
        "cost": sum(row["cost"] or 0.0 for row in rows),
        "blocked": sum(row["decision"] in ("block", "fail") for row in rows),
    }
    older = calls[-1]["call_id"] if len(calls) == SHOWN else None
    shares = _share(rows, by)
    return await page.render(
        "pages/gateway.html",
        calls=rows,
        totals=totals,
        typed=told,
        by=by,
        shares=shares,
        older=older,
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


def _share(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = str(row.get(by) or "–")
        sums = found.setdefault(name, {"name": name, "calls": 0, "tokens": 0, "cost": 0.0})
        sums["calls"] += 1
        sums["tokens"] += row["tokens"] or 0
        sums["cost"] += row["cost"] or 0.0
    listed = sorted(found.values(), key=lambda each: -each["calls"])[:8]
    most = max((each["calls"] for each in listed), default=1)
    return [each | {"share": round(100 * each["calls"] / most, 1)} for each in listed]


async def show_runners(page: Page) -> Response:
    """Show who executes runs, and what waits for them."""
    runners = await page.api.get("/runners")
    queue = await page.api.get("/queue") if page.api.has("GET", "/queue") else None
    if isinstance(queue, Mapping):
        queue = queue.get("queue") or queue.get("items") or []
    return await page.render("pages/runners.html", runners=runners, queue=queue)
