"""A chat with an agent: a channel like any other, with what hooks did between the messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response

from checkrail.dashboard import shown
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.live import LiveResponse
from checkrail.dashboard.page import Page

CHANNEL = "web"
_SHOWN = 50


async def show_chat(page: Page) -> Response:
    """Show what was said in a session, or begin another one."""
    page.visitor.caller.check_role("member", "Chat")
    session_id = page.request.path_params.get("session_id")
    agents = [
        each
        for each in await page.api.get("/agents")
        if each["enabled"] and each["kind"] != "procedural"
    ]
    said: list[dict[str, Any]] = []
    session = None
    if session_id:
        session = await page.api.get(f"/sessions/{quote(session_id, safe='')}")
        found = await page.api.get(
            "/messages", {"session_id": session["session_id"], "limit": _SHOWN}
        )
        said = [await _describe(page, each) for each in reversed(found)]
    agent = page.query.get("agent") or (said[-1]["agent_name"] if said else "")
    if not agent and agents:
        agent = agents[0]["name"]
    params = {"channel": CHANNEL, "open": "true", "user_id": page.visitor.caller.owner, "limit": 20}
    others = await page.api.get("/sessions", params)
    told = {"agents": agents, "agent": agent, "said": said, "session": session, "others": others}
    return await page.render("pages/chat.html", **told)


async def _describe(page: Page, message: dict[str, Any]) -> dict[str, Any]:
    return message | {"chips": await _read_chips(page, message.get("run_id"))}


async def send_message(page: Page) -> Response:
    """Say something, and stream what becomes of it."""
    form = await page.request.form()
    body = {
        "content": str(form.get("content") or ""),
        "agent_name": str(form.get("agent") or "") or None,
        "session_id": str(form.get("session") or "") or None,
        "channel": CHANNEL,
    }
    return LiveResponse(_frames(page, {key: value for key, value in body.items() if value}))


async def _frames(page: Page, body: dict[str, Any]) -> AsyncIterator[bytes]:
    run_id = None
    try:
        async for _, name, data in page.api.follow("/messages/stream", body=body):
            if not name:
                yield b": still here\n\n"
                continue
            told = orjson.loads(data)
            run_id = told.get("run_id") or run_id
            if name == "reply" and run_id:
                yield _frame("hooks", await _read_chips(page, run_id))
            yield _frame(name, told)
    except ApiError as refusal:
        told = refusal.body.get("info") or {}
        yield _frame("refused", {"message": refusal.message, "by": told.get("blocked_by"), **told})


def _frame(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


async def _read_chips(page: Page, run_id: str | None) -> list[dict[str, str]]:
    """Return what hooks did in a run, but let pass."""
    if not run_id:
        return []
    try:
        records = await page.api.get(f"/runs/{run_id}/hooks", {"limit": 200})
    except ApiError:
        return []
    found = []
    for record in records:
        status = shown.record_status(record)
        if record.get("event_type") == "hook_start" or status.kind == "passed":
            continue
        name = record.get("call_id") or record.get("record_id")
        url = f"/ui/runs/{run_id}/steps/{name}"
        reason = str(record.get("reason") or "")
        found.append(
            {
                "text": f"{record.get('hook')} {status.word}",
                "reason": reason,
                "kind": status.kind,
                "url": url,
            }
        )
    return found
