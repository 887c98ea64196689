"""What happened lately, and what needs somebody."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.responses import Response

from checkrail.dashboard import charts, shown
from checkrail.dashboard.page import Page
from checkrail.dashboard.pages.runs import describe_run

WINDOWS = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0}
MOST = 1000
"""Runs that are looked at; the page says if there are more."""


async def show_overview(page: Page) -> Response:
    """Show the runs of a window in figures, and what needs attention."""
    window = page.query.get("window", "24h")
    window = window if window in WINDOWS else "24h"
    began = page.now - WINDOWS[window]
    params = {"limit": MOST, "fields": "list", "from": shown.iso_time(began)}
    found = await page.api.get("/runs", params)
    runs = [each for each in found if (shown.parse_time(each["created_at"]) or 0) >= began]
    asks = await page.api.get("/approvals", {"status": "open", "limit": 100})
    told = {
        "window": window,
        "windows": [*WINDOWS],
        "is_cut": len(runs) == MOST,
        "most": MOST,
        "since": shown.iso_time(began)[:16],
        "asks": asks,
        "oldest": min(
            (shown.parse_time(each["created_at"]) or page.now for each in asks), default=None
        ),
        "newest": [describe_run(each, page.now) for each in runs[:8]],
        "has_any": bool(found),
        **_count(runs, began, page.now),
    }
    return await page.render("pages/overview.html", **told)


def _count(runs: list[Any], began: float, now: float) -> dict[str, Any]:
    blocked = [each for each in runs if each["phase"] in ("blocked", "refused")]
    failed = [each for each in runs if shown.run_status(each).kind == "failed"]
    would = [each for each in runs if (each.get("hooks") or {}).get("would_block")]
    took = [
        seconds
        for each in runs
        if each.get("ended_at") and (seconds := describe_run(each, now)["seconds"]) is not None
    ]
    costs = [each["cost_usd"] for each in runs if each.get("cost_usd") is not None]

    def chart(rows: list[Any]) -> list[charts.Bar]:
        times = (shown.parse_time(each["created_at"]) or 0.0 for each in rows)
        return charts.bars(charts.count_buckets(times, began, now))

    return {
        "total": len(runs),
        "blocked": len(blocked),
        "failed": len(failed),
        "would": len(would),
        "cost": sum(costs) if costs else None,
        "p50": charts.percentile(took, 0.5),
        "p99": charts.percentile(took, 0.99),
        "run_bars": chart(runs),
        "blocked_bars": chart(blocked),
        "failed_bars": chart(failed),
        "by_hook": Counter(
            str(each["blocked_by"]) for each in blocked if each.get("blocked_by")
        ).most_common(5),
        "by_agent": Counter(str(each["agent_name"]) for each in runs).most_common(5),
        "failures": [describe_run(each, now) | {"error": each.get("error")} for each in failed[:5]],
    }
