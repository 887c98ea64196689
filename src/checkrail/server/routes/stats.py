"""Figures of runs and of hooks over the last hour, day or week."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from checkrail.runs.rollups import percentile, sum_figures
from checkrail.server.deferred import Router
from checkrail.server.lookups import owner_without_metadata
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import rollups
from checkrail.store.rollups import HOOK, HOUR, MINUTE, RUN, Rollup

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Window = Annotated[Literal["1h", "24h", "7d"], Query()]
Text = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")]

_WINDOWS = {"1h": (MINUTE, 60, MINUTE), "24h": (HOUR, 24, HOUR), "7d": (HOUR, 56, 3 * HOUR)}
"""The roll-ups that are read, how many bars there are, and how long each is, in seconds."""


class RunFigures(BaseModel, defer_build=True):
    """Runs that ended in a time: by status, with what hooks did, tokens, cost and durations."""

    at: str | None
    runs: int
    by_status: dict[str, int]
    blocked: int
    would_block: int
    tokens: int
    cost_usd: float
    p50_ms: float | None
    p99_ms: float | None


class RunStats(BaseModel, defer_build=True):
    """Figures of runs: in all, and by time."""

    window: str
    bucket_seconds: int
    total: RunFigures
    buckets: list[RunFigures]


class HookStats(BaseModel, defer_build=True):
    """What the calls of a hook at a point came to."""

    point: str
    level: str
    hook: str
    calls: int
    passed: int
    changed: int
    blocked: int
    would_block: int
    decided: int
    failed: int
    failures: dict[str, int]
    ms: float
    p50_ms: float | None
    p99_ms: float | None


RUN_STATS: Answers = {200: {"model": RunStats}, **PROBLEMS}
HOOK_STATS: Answers = {200: {"model": list[HookStats]}, **PROBLEMS}


@router.get("/stats/runs", responses=RUN_STATS)
async def run_stats(
    request: Request, served: Served, window: Window = "24h", agent_name: Text = None
) -> Response:
    """Return figures of the runs that ended in a window, in all and by time."""
    rows, since = await _load(request, served, RUN, window, agent_name)
    _, number, length = _WINDOWS[window]
    by_time: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_time.setdefault(int((row.moment - since) // length), []).append(row.figures)
    buckets = [
        _render_runs(render_time(since + at * length), by_time.get(at, [])) for at in range(number)
    ]
    total = _render_runs(None, [row.figures for row in rows])
    told = {"window": window, "bucket_seconds": length, "total": total, "buckets": buckets}
    return JsonResponse(told)


@router.get("/hooks/stats", responses=HOOK_STATS)
async def hook_stats(
    request: Request,
    served: Served,
    window: Window = "24h",
    agent_name: Text = None,
    hook: Text = None,
) -> Response:
    """Return what the calls of hooks came to in a window, for each hook at each point."""
    rows, _ = await _load(request, served, HOOK, window, agent_name)
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row.figures)
    found = [_render_hook(name, figures) for name, figures in sorted(by_name.items())]
    return JsonResponse([each for each in found if hook in (None, each["hook"])])


async def _load(
    request: Request, served: Services, kind: str, window: str, agent_name: str | None
) -> tuple[list[Rollup], float]:
    """Return the roll-ups of what a caller may see, and when the window begins."""
    asker = await served.principal(request, "events", "read", {"metadata": {}})
    await served.runs.parts.rollups.flush()
    seconds, number, length = _WINDOWS[window]
    now = served.database.time()
    since = math.floor(now / length) * length - (number - 1) * length
    owner = owner_without_metadata(asker)
    rows = await served.database.read(
        lambda reads: rollups.load(reads, kind, seconds, since, owner=owner, agent_name=agent_name)
    )
    return rows, since


def _render_runs(at: str | None, many: list[Mapping[str, Any]]) -> dict[str, Any]:
    figures = sum_figures(many)
    prefix = "status_"
    buckets = figures.get("buckets", [])
    return {
        "at": at,
        "runs": figures.get("runs", 0),
        "by_status": {
            name.removeprefix(prefix): number
            for name, number in figures.items()
            if name.startswith(prefix)
        },
        "blocked": figures.get("blocked", 0),
        "would_block": figures.get("would_block", 0),
        "tokens": figures.get("tokens", 0),
        "cost_usd": round(figures.get("cost", 0.0), 9),
        "p50_ms": percentile(buckets, 0.5),
        "p99_ms": percentile(buckets, 0.99),
    }


def _render_hook(name: str, many: list[Mapping[str, Any]]) -> dict[str, Any]:
    figures = sum_figures(many)
    point, _, key = name.partition(" ")
    level, _, hook = key.partition("/")
    words = ("calls", "passed", "changed", "blocked", "would_block", "decided", "failed")
    prefix = "failed_"
    return {
        "point": point,
        "level": level,
        "hook": hook,
        **{word: figures.get(word, 0) for word in words},
        "failures": {
            word.removeprefix(prefix): number
            for word, number in figures.items()
            if word.startswith(prefix)
        },
        "ms": round(figures.get("ms", 0.0), 3),
        "p50_ms": percentile(figures.get("buckets", []), 0.5),
        "p99_ms": percentile(figures.get("buckets", []), 0.99),
    }
