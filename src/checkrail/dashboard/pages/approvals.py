"""What hooks ask people: the inbox, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from checkrail.dashboard import forms, shown
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.live import follow_page
from checkrail.dashboard.page import Page

TABS = {"open": "Open", "answered": "Answered", "expired": "Expired"}
_ANSWERED = ("approved", "denied")


async def show_inbox(page: Page) -> Response:
    """Show the questions that wait, or those that were answered."""
    tab = page.query.get("status", "open")
    tab = tab if tab in TABS else "open"
    live = "/ui/live/approvals" if tab == "open" else None
    asks = await _find_asks(page, tab)
    return await page.render("pages/approvals.html", tab=tab, tabs=TABS, asks=asks, live_url=live)


async def follow_inbox(page: Page) -> Response:
    """Stream the open questions, as they come and go."""
    known: list[str] = []

    async def render() -> str:
        asks = await _find_asks(page, "open")
        ids = [each["id"] for each in asks]
        if ids == known:
            return ""
        known[:] = ids
        return page.render_text("fragments/live_approvals.html", asks=asks)

    return follow_page(page, "/events", render, types=("approval_", "run_"))


async def show_approval(page: Page) -> Response:
    """Show one question."""
    approval = await page.api.get(f"/approvals/{_id(page)}")
    return await page.render("pages/approval.html", ask=describe_approval(approval))


async def answer(page: Page) -> Response:
    """Answer a question: the value that was seen is named by its digest."""
    form = await page.request.form()
    told = {name: str(form.get(name) or "") for name in ("action", "reason", "digest", "value")}
    body: dict[str, Any] = {"reason": told["reason"], "digest": told["digest"] or None}
    word = "deny" if told["action"] == "deny" else "approve"
    try:
        if told["action"] == "edit":
            body["value"] = forms.parse_json(told["value"], "The value")
        await page.api.post(f"/approvals/{_id(page)}/{word}", body)
    except ApiError as refusal:
        if refusal.status not in (400, 409, 422):
            raise
        approval = await page.api.get(f"/approvals/{_id(page)}")
        return await page.render(
            "pages/approval.html",
            code=refusal.status,
            ask=describe_approval(approval),
            refusal=refusal,
            typed=told,
        )
    back = str(form.get("next") or "")
    place = back if back.startswith("/ui/runs/") else "/ui/approvals"
    return page.go(place, "denied" if word == "deny" else "approved")


def _id(page: Page) -> str:
    return quote(page.request.path_params["approval_id"], safe="")


async def _find_asks(page: Page, tab: str) -> list[dict[str, Any]]:
    found: list[Any] = []
    for status in _ANSWERED if tab == "answered" else (tab,):
        found += await page.api.get("/approvals", {"status": status, "limit": 50})
    found.sort(key=lambda each: each.get("answered_at") or each["created_at"], reverse=True)
    return [describe_approval(each) for each in found]


def describe_approval(approval: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the card of a question shows."""
    value = approval.get("value")
    return {
        "id": str(approval.get("approval_id")),
        "question": approval.get("question"),
        "status": shown.approval_status(approval),
        "is_open": approval.get("status") == "open",
        "value": value,
        "text": shown.text_of(value),
        "created": shown.parse_time(approval.get("created_at")),
        "expires": shown.parse_time(approval.get("expires_at")),
        "answered": shown.parse_time(approval.get("answered_at")),
        "raw": approval,
    }
