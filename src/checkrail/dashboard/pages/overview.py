"""What happened lately, and what needs somebody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from checkrail.dashboard import charts, shown
from checkrail.dashboard.page import Page
from checkrail.dashboard.pages.runs import describe_run

WINDOWS = ("1h", "24h", "7d")
_FAILED = ("error", "timeout")


async def show_overview(page: Page) -> Response:
    """Show the runs of a window in figures, and what needs attention."""
    window = page.query.get("window", "24h")
    window = window if window in WINDOWS else "24h"
    stats = await page.api.get("/stats/runs", {"window": window})
    hooks = await page.api.get("/hooks/stats", {"window": window})
    since = stats["buckets"][0]["at"]
    newest = await page.api.get("/runs", {"limit": 8, "fields": "list"})
    failed = {"limit": 5, "fields": "list", "from": since, "phase": _FAILED}
    failures = await page.api.get("/runs", failed)
    asks = await page.api.get("/approvals", {"status": "open", "limit": 100})
    told = {
        "window": window,
        "windows": WINDOWS,
        "since": since[:16],
        "asks": asks,
        "oldest": min(
            (shown.parse_time(each["created_at"]) or page.now for each in asks), default=None
        ),
        "newest": [describe_run(each, page.now) for each in newest],
        "failures": [describe_run(each, page.now) | {"error": each["error"]} for each in failures],
        "total": stats["total"],
        "failed": _count_failed(stats["total"]),
        "bars": _draw(stats["buckets"]),
        "by_hook": _rank(hooks, "blocked"),
        "slowest": _rank(hooks, "p99_ms"),
    }
    return await page.render("pages/overview.html", **told)


def _count_failed(figures: Mapping[str, Any]) -> int:
    """Return the runs that failed, without those that a hook blocked."""
    ended = sum(int(figures["by_status"].get(name, 0)) for name in _FAILED)
    return max(0, ended - int(figures["blocked"]))


def _draw(buckets: Sequence[Mapping[str, Any]]) -> dict[str, list[charts.Bar]]:
    rows = [{**each, "failed": _count_failed(each)} for each in buckets]
    names = ("runs", "blocked", "would_block", "failed", "cost_usd", "p50_ms")
    return {name: charts.bars([row[name] or 0 for row in rows]) for name in names}


def _rank(hooks: Sequence[Mapping[str, Any]], by: str) -> list[tuple[str, float]]:
    """Return the five hooks that have most of something."""
    found: Counter[str] = Counter()
    for each in hooks:
        name, number = str(each["hook"]), each[by] or 0
        found[name] = max(found[name], number) if by == "p99_ms" else found[name] + number
    return [(name, number) for name, number in found.most_common(5) if number]
