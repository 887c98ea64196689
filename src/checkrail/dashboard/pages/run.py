"""One run: why it came out so, its steps, and what can be done about it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from starlette.responses import Response

from checkrail.dashboard import diff, forms, shown, steps
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.banner import build_banners
from checkrail.dashboard.live import follow_page
from checkrail.dashboard.page import Page
from checkrail.dashboard.pages.approvals import describe_approval

CHUNK = 100
"""Rows that are loaded together."""

_PAGES = 20
_EVENTS = 500
_SILENCE = 0.05
_STEPS = 10_000

_LIVE = 0.5
TABS = ("timeline", "conversation", "input", "output", "events", "attempts", "deliveries")
SHARES = ("agent", "hooks", "queue", "people")
SHOW = {
    "": "All",
    "decisions": "Decisions",
    "changed": "Changed",
    "failed": "Failed",
    "models": "Models",
    "tools": "Tools",
}


@dataclass(frozen=True, slots=True)
class View:
    """What of a run's timeline is shown: by the page's address."""

    show: str
    find: str
    fold: bool | None

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> View:
        """Read it from an address."""
        fold = {"yes": True, "no": False}.get(query.get("fold", ""))
        show = query.get("show", "")
        return cls(show if show in SHOW else "", _find_text(query), fold)

    def params(self) -> dict[str, Any]:
        """Return what the API is asked for to see this."""
        fold = None if self.fold is None else str(self.fold).lower()
        return {"show": self.show or "all", "q": self.find, "fold": fold}


def _find_text(query: Mapping[str, str]) -> str:
    return query.get("find", "").replace("\0", "").strip()[:200]


@dataclass(frozen=True, slots=True)
class Story:
    """A run with its steps: those that a view shows, those without its filter, and who decided."""

    run: Mapping[str, Any]
    told: Mapping[str, Any]
    view: View
    kept: Sequence[steps.Step]
    whole: Sequence[steps.Step]
    approvals: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def decisions(self) -> list[steps.Step]:
        """The calls of hooks that did something."""
        return [step for step in self.whole if step.is_decision]


async def show_run(page: Page) -> Response:
    """Show a run, with a step of it where the address names one."""
    story = await _read_run(page)
    tab = page.query.get("tab", "timeline")
    tab = tab if tab in TABS else "timeline"
    selected = page.request.path_params.get("step", "")
    told = _describe_run(page, story) | _timeline(page, story, selected)
    if selected:
        told |= await _read_step(page, story, selected)
    if selected and page.is_fragment:
        return await page.render("fragments/step_panel.html", **told)
    more = await _read_tab(page, story.run, tab)
    return await page.render("pages/run.html", tab=tab, **told, **more)


async def show_chunk(page: Page) -> Response:
    """Show some more rows of a timeline."""
    story = await _read_run(page)
    number = page.request.path_params["number"]
    told = _describe_run(page, story) | _timeline(page, story, "", only=number)
    chunks = told["chunks"]
    rows = chunks[number]["rows"] if 0 <= number < len(chunks) else []
    return await page.render("fragments/step_rows.html", rows=rows, **told)


async def follow_run(page: Page) -> Response:
    """Stream what changes on the page of a run, until it has ended."""

    async def render() -> str:
        page.now = time.time()
        story = await _read_run(page)
        told = _describe_run(page, story) | _timeline(page, story, page.query.get("step", ""))
        return page.render_text("fragments/live_run.html", **told)

    path = f"/runs/{_run_id(page)}/events"
    return follow_page(page, path, render, every=_LIVE)


async def rerun(page: Page) -> Response:
    """Request the same run again, perhaps with other parameters."""
    form = await page.request.form()
    run = await page.api.get(f"/runs/{_run_id(page)}")
    try:
        parameters = orjson.loads(str(form.get("parameters") or "{}"))
    except ValueError as error:
        raise ApiError(422, {"error": "invalid", "message": f"This is no JSON: {error}"}) from None
    body = {
        "agent_name": run["agent_name"],
        "parameters": parameters,
        "metadata": {"rerun_of": run["run_id"]},
    }
    made = await page.api.post("/runs", body)
    return page.go(f"/ui/runs/{made['run_id']}", "requested")


async def cancel(page: Page) -> Response:
    """Cancel a run."""
    run_id = _run_id(page)
    answer = await page.api.send("POST", f"/runs/{run_id}/cancel", body={})
    if answer.status not in (202, 409):
        answer.json()
    return page.go(f"/ui/runs/{run_id}", "cancelled" if answer.status == 202 else None)


async def download(page: Page) -> Response:
    """Return a run with its steps and all that hooks did, as one file."""
    story = await _read_run(page)
    body = {
        "run": story.run,
        "steps": await _read_steps(page, {"fold": "false"}),
        "records": await _read_records(page, _run_id(page)),
        "approvals": [*story.approvals],
    }
    name = f"run-{_run_id(page)}.json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    content = orjson.dumps(body, option=orjson.OPT_INDENT_2)
    return Response(content, media_type="application/json", headers=headers)


def _run_id(page: Page) -> str:
    return quote(page.request.path_params["run_id"], safe="")


async def _read_run(page: Page) -> Story:
    run_id = _run_id(page)
    run = await page.api.get(f"/runs/{run_id}")
    view = View.from_query(page.query)
    told = await _read_steps(page, view.params())
    kept = whole = steps.read_rows(told["steps"])
    if view.show or view.find:
        every = await _read_steps(page, View("", "", view.fold).params())
        whole = steps.read_rows(every["steps"])
    approvals: list[Any] = []
    if any(step.kind == "person" for step in whole):
        approvals = await page.api.get("/approvals", {"run_id": run_id, "limit": 100})
    return Story(run, told, view, kept, whole, approvals[::-1])


async def _read_steps(page: Page, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the API tells of a run's steps, with all of them."""
    path = f"/runs/{_run_id(page)}/steps"
    told: dict[str, Any] = await page.api.get(path, {**params, "limit": _STEPS})
    for after in range(_STEPS, told["total"], _STEPS):
        more = await page.api.get(path, {**params, "limit": _STEPS, "after": after})
        told["steps"] += more["steps"]
    return told


async def _read_records(page: Page, run_id: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    after = 0
    for _ in range(_PAGES):
        params = {"after": after, "limit": 1000, "fields": "summary"}
        some = await page.api.get(f"/runs/{run_id}/hooks", params)
        found += some
        if len(some) < 1000:
            break
        after = some[-1]["seq"]
    return found


def _describe_run(page: Page, story: Story) -> dict[str, Any]:
    """Return what the head of the page shows."""
    run = story.run
    ended = run.get("ended_at")
    base = f"/ui/runs/{run['run_id']}"
    open_asks = [each for each in story.approvals if each.get("status") == "open"]
    totals = story.told["totals"]
    return {
        "run": run,
        "status": shown.run_status(run),
        "banners": build_banners(run, story.decisions, story.approvals),
        "shares": {name: totals[f"{name}_ms"] / 1000 for name in SHARES},
        "tokens": shown.total_tokens(run),
        "base": base,
        "ended": ended is not None,
        "created": shown.parse_time(run.get("created_at")),
        "asks": [describe_approval(each) for each in open_asks],
        "live_url": None if ended else _live_url(page, base),
        "list_query": page.query.get("list", ""),
        "changes": _parameter_changes(story),
        "curl": _curl(page, run),
        "dead": sum(each.get("status") == "dead" for each in run.get("deliveries") or ()),
    }


def _live_url(page: Page, base: str) -> str:
    kept = {name: page.query[name] for name in ("show", "find", "fold") if name in page.query}
    step = page.request.path_params.get("step")
    given = kept | ({"step": step} if step else {})
    query = f"?{urlencode(given)}" if given else ""
    return f"{base.replace('/ui/', '/ui/live/', 1)}{query}"


def _parameter_changes(story: Story) -> dict[str, Any]:
    """Return how the parameters were changed before the agent saw them, and by whom."""
    run = story.run
    found = diff.compare(run.get("original_parameters"), run.get("parameters"))
    by = [
        step.name
        for step in story.decisions
        if step.details.get("point") in ("before_run", "on_run_start")
        and step.result == "changed"
        and not step.details.get("shadow")
    ]
    return {"diff": found, "hooks": [*dict.fromkeys(by)]}


def _curl(page: Page, run: Mapping[str, Any]) -> str:
    body = {"agent_name": run.get("agent_name"), "parameters": run.get("original_parameters")}
    url = page.request.base_url.replace(path="/runs")
    words = [f"curl -X POST {shlex.quote(str(url))}", "-H 'content-type: application/json'"]
    if page.door.takes_keys:
        words.append('-H "x-api-key: $CHECKRAIL_API_KEY"')
    words.append(f"-d {shlex.quote(shown.text_of(body, None))}")
    return " \\\n  ".join(words)


def _timeline(
    page: Page, story: Story, selected: str, *, only: int | None = None
) -> dict[str, Any]:
    """Return the rows of the timeline in chunks, of which some are empty until they are seen."""
    told, kept = story.told, story.kept
    axis = steps.build_axis(story.whole, told["began"], told["ended"], page.now)
    at = next((n for n, step in enumerate(kept) if step.id == selected), -1)
    chunks: list[dict[str, Any]] = []
    for number, start in enumerate(range(0, len(kept), CHUNK)):
        is_shown = number < 2 or start <= at < start + CHUNK if only is None else number == only
        some = kept[start : start + CHUNK]
        rows = [(step, *axis.bar(step, page.now)) for step in some] if is_shown else None
        chunks.append({"number": number, "rows": rows, "size": len(some)})
    return {
        "view": story.view,
        "shows": SHOW,
        "chunks": chunks,
        "row_count": len(kept),
        "step_count": told["all"],
        "folded": told["folded"],
        "cuts": [(axis.place(start), end - start) for start, end in axis.cuts],
        "selected": selected,
        "neighbours": (
            kept[at - 1].id if at > 0 else None,
            kept[at + 1].id if 0 <= at < len(kept) - 1 else None,
        ),
    }


async def _read_step(page: Page, story: Story, selected: str) -> dict[str, Any]:
    """Return what the panel of a step shows."""
    path = f"/runs/{_run_id(page)}/steps"
    told = await page.api.get(f"{path}/{selected}")
    step = steps.read_step(told["step"])
    records = around = told["records"]
    if step.kind == "hook" and any(map(shown.is_changed, records)):
        around = (await page.api.get(f"{path}/{step.parent}"))["records"]
    changed = [each for each in records if "after" in each]
    before = changed[0].get("before") if changed else None
    after = changed[-1].get("after") if changed else None
    mode = page.query.get("diff", "changes")
    record = None
    if step.kind == "hook":
        record = {"hook": step.name, **step.details, **(records[0] if records else {})}
    ask = next((each for each in story.approvals if each.get("approval_id") == step.id), None)
    panel = {
        "mode": mode,
        "calls": [_describe_call(each) for each in records] if step.kind == "point" else [],
        "chain": [each for each in around if shown.is_changed(each)],
        "diff": diff.compare(before, after, whole=mode == "side") if changed else None,
        "before": before,
        "after": after,
        "record": record,
        "redacted": any(each.get("redacted") for each in records),
        "approval": None if ask is None else describe_approval(ask),
        "about": {**step.details, **(told["tool"] or {})},
    }
    return {"step": step, "panel": panel}


def _describe_call(record: Mapping[str, Any]) -> dict[str, Any]:
    took = record.get("duration_ms")
    seconds = None if took is None else took / 1000
    return {**record, "status": shown.record_status(record), "seconds": seconds}


async def _read_tab(page: Page, run: Mapping[str, Any], tab: str) -> dict[str, Any]:
    if tab == "conversation":
        return {"messages": await _read_messages(page, run)}
    if tab == "events":
        return {"events": await _read_events(page, _run_id(page), ended=bool(run["ended_at"]))}
    return {}


async def _read_messages(page: Page, run: Mapping[str, Any]) -> list[Any]:
    """Return the conversation of the run's thread, as it is now."""
    with contextlib.suppress(ApiError):
        state = await page.api.get(f"/threads/{run['thread_id']}/state")
        values = state.get("values")
        if isinstance(values, Mapping) and isinstance(values.get("messages"), list):
            return [forms.describe_message(each) for each in values["messages"]]
    given = run.get("parameters")
    said = given.get("messages") if isinstance(given, Mapping) else None
    found = [forms.describe_message(each) for each in said] if isinstance(said, list) else []
    if found and isinstance(run.get("result_text"), str):
        found.append(forms.describe_message({"role": "assistant", "content": run["result_text"]}))
    return found


async def _read_events(page: Page, run_id: str, *, ended: bool) -> list[dict[str, Any]]:
    """Return the events so far; those of a run that goes on end in silence."""
    found: list[dict[str, Any]] = []
    stream = page.api.follow(f"/runs/{run_id}/events", last_event="0")
    try:
        while len(found) < _EVENTS:
            async with asyncio.timeout(5.0 if ended else _SILENCE):
                _, name, data = await anext(stream)
            if name:
                found.append(orjson.loads(data))
            if name == "end":
                break
    except (TimeoutError, StopAsyncIteration):
        pass
    finally:
        await stream.aclose()
    return found
