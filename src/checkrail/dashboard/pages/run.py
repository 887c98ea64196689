"""One run: why it came out so, its steps, and what can be done about it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from starlette.exceptions import HTTPException
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
_VALUES = 50
_EVENTS = 500
_MARKS = 5000
_SILENCE = 0.05
MARKS = ("_started", "_finished")
"""How the events end that say when a step of the agent began and ended."""

_LIVE = 0.5
TABS = ("timeline", "conversation", "input", "output", "events", "attempts", "deliveries")
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
        return cls(show if show in SHOW else "", query.get("find", "").strip().lower(), fold)

    def keeps(self, step: steps.Step) -> bool:
        """Return whether a step is shown."""
        if self.find and self.find not in f"{step.label} {step.note}".lower():
            return False
        kind = step.status.kind if step.status else ""
        return {
            "decisions": step.is_decision or step.kind == "person",
            "changed": kind == "changed",
            "failed": kind == "failed",
            "models": step.kind == "model",
            "tools": step.kind == "tool",
        }.get(self.show, True)


async def show_run(page: Page) -> Response:
    """Show a run, with a step of it where the address names one."""
    told = await _read_run(page)
    tab = page.query.get("tab", "timeline")
    tab = tab if tab in TABS else "timeline"
    selected = page.request.path_params.get("step", "")
    if selected:
        told = await _add_values(page, told, selected)
    whole = _describe_run(page, told) | _timeline(page, told, selected)
    if selected and page.is_fragment:
        return await page.render("fragments/step_panel.html", **whole)
    more = await _read_tab(page, told, tab)
    return await page.render("pages/run.html", tab=tab, **whole, **more)


async def show_chunk(page: Page) -> Response:
    """Show some more rows of a timeline."""
    told = await _read_run(page)
    whole = _describe_run(page, told) | _timeline(page, told, "", everything=True)
    number = page.request.path_params["number"]
    chunks = whole["chunks"]
    rows = chunks[number]["rows"] if 0 <= number < len(chunks) else []
    return await page.render("fragments/step_rows.html", rows=rows, **whole)


async def follow_run(page: Page) -> Response:
    """Stream what changes on the page of a run, until it has ended."""

    async def render() -> str:
        page.now = time.time()
        told = await _read_run(page)
        whole = _describe_run(page, told) | _timeline(page, told, page.query.get("step", ""))
        return page.render_text("fragments/live_run.html", **whole)

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
    """Return a run with all that hooks did, as one file."""
    told = await _read_run(page)
    body = {"run": told.run, "records": [*told.records], "approvals": [*told.approvals]}
    name = f"run-{_run_id(page)}.json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    content = orjson.dumps(body, option=orjson.OPT_INDENT_2)
    return Response(content, media_type="application/json", headers=headers)


def _run_id(page: Page) -> str:
    return quote(page.request.path_params["run_id"], safe="")


async def _read_run(page: Page) -> steps.Told:
    run_id = _run_id(page)
    run = await page.api.get(f"/runs/{run_id}")
    records = await _read_records(page, run_id)
    marks = await _read_events(page, run_id, MARKS, ended=bool(run["ended_at"]))
    asked = any(each.get("decision") == "ask" for each in records) or run["phase"] == "waiting"
    approvals: list[Any] = []
    if asked:
        approvals = await page.api.get("/approvals", {"run_id": run_id, "limit": 100})
    return steps.Told(run, records, approvals[::-1], marks)


async def _add_values(page: Page, told: steps.Told, selected: str) -> steps.Told:
    """Return the same with the values that the hooks of the selected step changed."""
    found = _find_step(steps.build_steps(told, page.now), told, selected)
    if found is None:
        return told
    names = [call.id for call in (*_chain(found, told), *found.calls)]
    wanted = {
        str(each["record_id"])
        for each in told.records
        if (each.get("call_id") or each["record_id"]) in names
        and each.get("event_type") != "hook_start"
        and shown.is_changed(each)
    }
    whole = {
        name: await page.api.get(f"/runs/{_run_id(page)}/hooks/{name}")
        for name in [*wanted][:_VALUES]
    }
    records = [whole.get(str(each["record_id"]), each) for each in told.records]
    return replace(told, records=records)


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


def _describe_run(page: Page, told: steps.Told) -> dict[str, Any]:
    """Return what the head of the page shows."""
    run, now = told.run, page.now
    ended = run.get("ended_at")
    base = f"/ui/runs/{run['run_id']}"
    open_asks = [each for each in told.approvals if each.get("status") == "open"]
    return {
        "run": run,
        "status": shown.run_status(run),
        "banners": build_banners(run, told.records, told.approvals),
        "shares": steps.share_time(told, now),
        "tokens": shown.total_tokens(run),
        "base": base,
        "ended": ended is not None,
        "created": shown.parse_time(run.get("created_at")),
        "asks": [describe_approval(each) for each in open_asks],
        "live_url": None if ended else _live_url(page, base),
        "list_query": page.query.get("list", ""),
        "changes": _parameter_changes(told),
        "curl": _curl(page, run),
        "dead": sum(each.get("status") == "dead" for each in run.get("deliveries") or ()),
    }


def _live_url(page: Page, base: str) -> str:
    kept = {name: page.query[name] for name in ("show", "find", "fold") if name in page.query}
    step = page.request.path_params.get("step")
    given = kept | ({"step": step} if step else {})
    query = f"?{urlencode(given)}" if given else ""
    return f"{base.replace('/ui/', '/ui/live/', 1)}{query}"


def _parameter_changes(told: steps.Told) -> dict[str, Any]:
    """Return how the parameters were changed before the agent saw them, and by whom."""
    run = told.run
    found = diff.compare(run.get("original_parameters"), run.get("parameters"))
    points = ("before_run", "on_run_start")
    by = [
        str(each.get("hook"))
        for each in told.records
        if each.get("point") in points
        and each.get("event_type") == "hook_complete"
        and shown.is_changed(each)
        and not each.get("shadow")
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
    page: Page, told: steps.Told, selected: str, *, everything: bool = False
) -> dict[str, Any]:
    """Return the rows of the timeline in chunks, of which some are empty until they are seen."""
    view = View.from_query(page.query)
    found = steps.build_steps(told, page.now, fold=view.fold)
    axis = steps.build_axis(found, told.run, page.now)
    kept = [step for step in found if view.keeps(step)]
    at = next((n for n, step in enumerate(kept) if step.id == selected), -1)
    rows = [(step, *axis.bar(step, page.now)) for step in kept]
    chunks = []
    for number, start in enumerate(range(0, len(rows), CHUNK)):
        is_shown = everything or number < 2 or start <= at < start + CHUNK
        chunks.append({"number": number, "rows": rows[start : start + CHUNK] if is_shown else None})
    step = _find_step(found, told, selected)
    return {
        "view": view,
        "shows": SHOW,
        "chunks": chunks,
        "row_count": len(rows),
        "step_count": len(found),
        "cuts": [(axis.place(start), end - start) for start, end in axis.cuts],
        "selected": selected,
        "step": step,
        "panel": None if step is None else _describe_step(page, step, told),
        "neighbours": (
            kept[at - 1].id if at > 0 else None,
            kept[at + 1].id if 0 <= at < len(kept) - 1 else None,
        ),
    }


def _find_step(found: Sequence[steps.Step], told: steps.Told, selected: str) -> steps.Step | None:
    if not selected:
        return None
    for step in found:
        if step.id == selected:
            return step
    unfolded = steps.build_steps(told, time.time(), fold=False)
    hidden = next((each for each in unfolded if each.id == selected), None)
    if hidden is None:
        raise HTTPException(404)
    return hidden


def _describe_step(page: Page, step: steps.Step, told: steps.Told) -> dict[str, Any]:
    """Return what the panel of a step shows."""
    mode = page.query.get("diff", "changes")
    chain = _chain(step, told)
    changed = [call for call in step.calls if "after" in call.record]
    before = changed[0].record.get("before") if changed else None
    after = changed[-1].record.get("after") if changed else None
    found = diff.compare(before, after, whole=mode == "side") if changed else None
    record = step.calls[0].record if len(step.calls) == 1 else None
    return {
        "mode": mode,
        "chain": chain,
        "diff": found,
        "before": before,
        "after": after,
        "record": record,
        "redacted": any(call.record.get("redacted") for call in step.calls),
        "has_digest": record is not None and ("before_digest" in record or "digest" in record),
        "approval": describe_approval(step.about) if step.kind == "person" else None,
    }


def _chain(step: steps.Step, told: steps.Told) -> list[steps.Call]:
    """Return the calls of the same dispatch that changed the value, in order."""
    if step.kind == "point":
        calls: Sequence[steps.Call] = step.calls
    elif step.kind == "hook":
        every = steps.build_steps(told, time.time(), fold=False)
        points = (each.calls for each in every if each.kind == "point")
        mine = [calls for calls in points if any(call.id == step.id for call in calls)]
        calls = mine[0] if mine else step.calls
    else:
        return []
    return [call for call in calls if shown.is_changed(call.record)]


async def _read_tab(page: Page, told: steps.Told, tab: str) -> dict[str, Any]:
    run = told.run
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


async def _read_events(
    page: Page, run_id: str, names: tuple[str, ...] = (), *, ended: bool
) -> list[dict[str, Any]]:
    """Return the events so far whose names end so; those of a run that goes on end in silence."""
    found: list[dict[str, Any]] = []
    stream = page.api.follow(f"/runs/{run_id}/events", last_event="0")
    try:
        while len(found) < (_MARKS if names else _EVENTS):
            async with asyncio.timeout(5.0 if ended else _SILENCE):
                _, name, data = await anext(stream)
            if name and (not names or name.endswith(names)):
                found.append(orjson.loads(data))
            if name == "end":
                break
    except (TimeoutError, StopAsyncIteration):
        pass
    finally:
        await stream.aclose()
    return found
