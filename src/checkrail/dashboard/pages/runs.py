"""The list of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from checkrail.dashboard import shown
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.filters import HOOKS, WORDS, Filters
from checkrail.dashboard.live import follow_page
from checkrail.dashboard.page import Page

SHOWN = 50
FEW = 10
"""As many new runs may come into a list that somebody looks at; more are announced."""

_TYPES = ("run_", "approval_", "hook_blocked")


async def show_runs(page: Page) -> Response:
    """Show the runs that fit the filters."""
    filters = Filters.from_query(page.request.query_params)
    runs, more, searched_to = await _find_runs(page, filters)
    if (
        filters.get("q")
        and not filters.before
        and len(runs) == 1
        and _is_id(filters.get("q"), runs)
    ):
        return page.go(f"/ui/runs/{runs[0]['run_id']}")
    agents = await page.api.get("/agents", {"limit": 1000})
    counts = await _count_runs(page, filters)
    newest = runs[0]["run_id"] if runs else ""
    told = {
        "runs": [describe_run(run, page.now) for run in runs],
        "filters": filters,
        "statuses": WORDS,
        "hooks": HOOKS,
        "agents": agents,
        "counts": counts,
        "older": runs[-1]["run_id"] if runs and more else None,
        "searched_to": searched_to,
        "live_url": _live_url(page, newest) if filters.is_live else None,
        "list_query": page.request.url.query,
    }
    return await page.render("pages/runs.html", **told)


async def follow_runs(page: Page) -> Response:
    """Stream the first page of the list, as it changes."""
    filters = Filters.from_query(page.request.query_params)
    known: set[str] = set()
    newest = page.query.get("newest", "")

    async def render() -> str:
        runs, _, _ = await _find_runs(page, filters)
        ids = [run["run_id"] for run in runs]
        if not known:
            begin = ids.index(newest) if newest in ids else 0
            known.update(ids[begin:] if newest else ids)
        fresh = [run_id for run_id in ids if run_id not in known]
        if len(fresh) <= FEW:
            known.clear()
            known.update(ids)
            return page.render_text("fragments/live_runs.html", runs=_described(runs), new=0)
        kept = [run for run in runs if run["run_id"] in known]
        return page.render_text("fragments/live_runs.html", runs=_described(kept), new=len(fresh))

    return follow_page(page, "/events", render, types=_TYPES)


def _described(runs: list[Any]) -> list[dict[str, Any]]:
    return [describe_run(run, time.time()) for run in runs]


def _live_url(page: Page, newest: str) -> str:
    pairs = [pair for pair in page.request.query_params.multi_items() if pair[0] != "done"]
    return f"/ui/live/runs?{urlencode([*pairs, ('newest', newest)])}"


async def _find_runs(page: Page, filters: Filters) -> tuple[list[Any], bool, float | None]:
    params = filters.to_params() | {"limit": SHOWN, "before": filters.before, "fields": "list"}
    answer = await page.api.send("GET", "/runs", params)
    runs = answer.json()
    more = 'rel="next"' in answer.headers.get("link", "") or len(runs) == SHOWN
    return runs, more, shown.parse_time(answer.headers.get("x-searched-to"))


async def _count_runs(page: Page, filters: Filters) -> Mapping[str, Any]:
    """Return how many runs there are of each status, where the API counts them."""
    if not page.api.has("GET", "/runs/count"):
        return {}
    params = filters.to_params() | {"by": "phase"}
    params.pop("phase", None)
    try:
        told: Mapping[str, Any] = await page.api.get("/runs/count", params)
    except ApiError:
        return {}
    return told


def _is_id(told: str, runs: list[Any]) -> bool:
    return len(told) >= 8 and str(runs[0]["run_id"]).startswith(told.lower())


def describe_run(run: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return what a row of the list shows of a run."""
    started = shown.parse_time(run.get("started_at"))
    ended = shown.parse_time(run.get("ended_at"))
    took = run.get("duration_ms")
    seconds = None if started is None else (ended or now) - started
    if took is not None:
        seconds = took / 1000
    return {
        "run_id": run["run_id"],
        "status": shown.run_status(run),
        "agent_name": run.get("agent_name") or "",
        "summary": _summary(run),
        "user": run.get("user_id") or "",
        "hooks": run.get("hooks"),
        "seconds": seconds,
        "running_since": started if ended is None else None,
        "tokens": shown.total_tokens(run),
        "cost": run.get("cost_usd"),
        "created_at": shown.parse_time(run.get("created_at")),
        "reason": run.get("block_reason") or "",
        "blocked_by": run.get("blocked_by") or "",
    }


def _summary(run: Mapping[str, Any]) -> str:
    told = run.get("summary")
    if told is None:
        told = run.get("original_parameters", run.get("parameters"))
    return shown.summary(told)
