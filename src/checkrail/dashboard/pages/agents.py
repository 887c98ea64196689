"""Agents: the list, the editor, their versions, and runs started from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from checkrail.dashboard import diff, forms, hook_form, schema_form
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page

TABS = {
    "general": "General",
    "prompt": "Prompt",
    "schemas": "Schemas",
    "tools": "Tools",
    "runner": "Runner",
    "hooks": "Hooks",
    "versions": "Versions",
    "run": "Run",
}
_NEW = {"model": "", "system_prompt": ""}


async def show_agents(page: Page) -> Response:
    """Show all agents."""
    agents = await page.api.get("/agents")
    wanted = page.query.get("q", "").strip().lower()
    listed = [each for each in agents if wanted in str(each["name"]).lower()]
    return await page.render("pages/agents.html", agents=listed, every=len(agents), q=wanted)


async def show_agent(page: Page) -> Response:
    """Show a part of an agent."""
    tab = page.request.path_params["tab"]
    if tab not in TABS:
        raise HTTPException(404)
    agent = await page.api.get(_path(page))
    told = await _describe(page, agent) | await _read_tab(page, agent, tab)
    return await page.render("pages/agent.html", tab=tab, **told)


async def show_new(page: Page) -> Response:
    """Show the form for a new agent."""
    return await page.render("pages/agent_new.html", typed={})


async def create(page: Page) -> Response:
    """Create an agent."""
    form = await page.request.form()
    typed = {name: str(form.get(name) or "").strip() for name in ("name", "model", "system_prompt")}
    try:
        model = typed["model"]
        body = typed | {
            "model": forms.parse_json(model, "The model") if model[:1] == "{" else model
        }
        await page.api.post("/agents", {key: value for key, value in body.items() if value})
    except ApiError as refusal:
        if refusal.status not in (409, 422):
            raise
        told = {"typed": typed, "refusal": refusal}
        return await page.render("pages/agent_new.html", code=refusal.status, **told)
    return page.go(f"/ui/agents/{quote(typed['name'], safe='')}/hooks", "saved")


async def save(page: Page) -> Response:
    """Save a part of an agent as its next version."""
    tab = page.request.path_params["tab"]
    form = await page.request.form()
    agent = await page.api.get(_path(page))
    told = await _describe(page, agent) | await _read_tab(page, agent, tab)
    cards = hook_form.read_form(form) if tab == "hooks" else []
    step = str(form.get("step") or "")
    if tab == "hooks" and step and step != "save":
        told |= await _describe_draft(page, agent, hook_form.apply_step(cards, step))
        return await page.render("pages/agent.html", tab=tab, is_draft=True, **told)
    try:
        change = _read_change(tab, form, cards)
        if form.get("version") not in (None, str(agent["version"])):
            theirs = diff.compare(
                change, {key: (agent["blueprint"] or {}).get(key) for key in change}
            )
            told |= {"conflict": theirs, "cards": cards or None} | _redraw(tab, form, cards)
            return await page.render("pages/agent.html", code=412, tab=tab, **told)
        headers = {"if-match": f'"{agent["version"]}"'}
        answer = await page.api.send("PATCH", _path(page), body=change, headers=headers)
        answer.json()
    except ApiError as refusal:
        if refusal.status not in (400, 409, 412, 422):
            raise
        told |= {"refusal": refusal} | _redraw(tab, form, cards)
        return await page.render("pages/agent.html", code=refusal.status, tab=tab, **told)
    return page.go(f"{_url(agent['name'])}/{tab}", "saved")


async def check(page: Page) -> Response:
    """Say what is wrong with a draft, and show the plan that it makes."""
    form = await page.request.form()
    agent = await page.api.get(_path(page))
    draft = await _describe_draft(page, agent, hook_form.read_form(form))
    return await page.render("fragments/draft_check.html", agent=agent, **draft)


async def restore(page: Page) -> Response:
    """Make an old version the next one."""
    number = page.request.path_params["number"]
    versions = await page.api.get(f"{_path(page)}/versions", {"limit": 1000})
    found = next((each for each in versions if each["version"] == number), None)
    if found is None:
        raise HTTPException(404)
    body = {key: value for key, value in found["blueprint"].items() if key != "note"}
    await page.api.post(_path(page), body, "PUT")
    return page.go(f"{_url(page.request.path_params['name'])}/versions", "saved")


async def switch(page: Page) -> Response:
    """Let an agent be run, or no more."""
    verb = page.request.path_params["verb"]
    if verb not in ("enable", "disable"):
        raise HTTPException(404)
    await page.api.post(f"{_path(page)}/{verb}")
    return page.go(f"{_url(page.request.path_params['name'])}/general", "switched")


async def delete(page: Page) -> Response:
    """Delete an agent."""
    (await page.api.send("DELETE", _path(page))).json()
    return page.go("/ui/agents", "deleted")


async def start_run(page: Page) -> Response:
    """Request a run with what the form holds."""
    form = await page.request.form()
    agent = await page.api.get(_path(page))
    try:
        parameters = schema_form.read_values(agent.get("parameters_schema"), form)
        made = await page.api.post("/runs", {"agent_name": agent["name"], "parameters": parameters})
    except ApiError as refusal:
        if refusal.status in (401, 403, 404):
            raise
        told = await _describe(page, agent)
        fields = schema_form.build_fields(agent.get("parameters_schema"), form)
        return await page.render(
            "pages/agent.html",
            code=refusal.status,
            tab="run",
            refusal=refusal,
            fields=fields,
            **told,
        )
    return page.go(f"/ui/runs/{made['run_id']}", "requested")


def _path(page: Page) -> str:
    return f"/agents/{quote(page.request.path_params['name'], safe='')}"


def _url(name: str) -> str:
    return f"/ui/agents/{quote(name, safe='')}"


async def _describe(page: Page, agent: Mapping[str, Any]) -> dict[str, Any]:
    is_theirs = page.visitor.caller.is_admin or agent.get("owner") == page.visitor.caller.owner
    is_made = agent["source"] == "api"
    may = page.api.allows("PATCH", "/agents/{name}")
    return {
        "agent": agent,
        "base": _url(agent["name"]),
        "tabs": TABS,
        "can_edit": may and is_theirs and is_made,
        "can_switch": may and (is_theirs if is_made else page.visitor.caller.is_admin),
        "can_run": page.api.allows("POST", "/runs"),
        "blueprint": agent.get("blueprint") or {},
    }


async def _read_tab(page: Page, agent: Mapping[str, Any], tab: str) -> dict[str, Any]:
    if tab == "hooks":
        cards = hook_form.read_hooks(agent.get("blueprint") or {})
        return await _describe_draft(page, agent, cards, is_saved=True)
    if tab == "versions":
        return await _read_versions(page)
    if tab == "run":
        return {"fields": schema_form.build_fields(agent.get("parameters_schema"), None)}
    if tab == "tools":
        others = await page.api.get("/agents")
        return {"agents": [each["name"] for each in others if each["name"] != agent["name"]]}
    return {}


async def _describe_draft(
    page: Page,
    agent: Mapping[str, Any],
    cards: list[hook_form.HookCard],
    *,
    is_saved: bool = False,
) -> dict[str, Any]:
    agents = await page.api.get("/agents")
    problems, plan = await _check_draft(page, agent, cards, is_saved=is_saved)
    return {
        "cards": cards,
        "points": [*hook_form.grouped(cards)],
        "types": hook_form.TYPES,
        "types_at": hook_form.offered_types,
        "rules": hook_form.RULES,
        "modes": hook_form.MODES,
        "agents": [each["name"] for each in agents if each["name"] != agent["name"]],
        "problems": problems,
        "plan": plan,
    }


async def _check_draft(
    page: Page, agent: Mapping[str, Any], cards: list[hook_form.HookCard], *, is_saved: bool
) -> tuple[list[Any], list[Any]]:
    """Return what is wrong with a draft, and its plan, as far as the API says so."""
    plan: list[Any] = []
    try:
        if agent["source"] == "api" and page.api.has("POST", "/agents/check"):
            hooks = hook_form.write_hooks(cards)
            body = {"name": agent["name"], **(agent.get("blueprint") or {}), "hooks": hooks}
            told = await page.api.post("/agents/check", body)
            return [*told.get("problems", ())], read_plan(told.get("plan"))
        if page.api.has("GET", "/plan"):
            plan = read_plan(await page.api.get("/plan", {"agent_name": agent["name"]}))
        if not is_saved:
            hook_form.write_hooks(cards)
    except ApiError as error:
        return [{"message": error.message, "path": []}], plan
    return [], plan or _own_plan(agent)


def read_plan(told: Any) -> list[dict[str, Any]]:
    """Return a plan as a list of points with their hooks, in the order in which they run."""
    if isinstance(told, Mapping):
        told = told.get("plan", told)
    if not isinstance(told, Mapping):
        return []
    return [{"point": point, "hooks": hooks} for point, hooks in told.items() if hooks]


def _own_plan(agent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the agent's own hooks by their points: all that an agent says of its plan."""
    found: dict[str, list[Any]] = {}
    for hook in agent.get("hooks") or ():
        for point in hook.get("points") or ():
            found.setdefault(point, []).append(hook)
    return [{"point": point, "hooks": hooks} for point, hooks in found.items()]


async def _read_versions(page: Page) -> dict[str, Any]:
    versions = await page.api.get(f"{_path(page)}/versions", {"limit": 100})
    by_number = {each["version"]: each for each in versions}
    numbers = [each["version"] for each in versions]
    newer = _to_number(page.query.get("new"), numbers, 0)
    older = _to_number(page.query.get("old"), numbers, 1)
    found = None
    if newer is not None and older is not None:
        found = diff.compare(by_number[older]["blueprint"], by_number[newer]["blueprint"])
    return {"versions": versions, "newer": newer, "older": older, "diff": found}


def _to_number(told: str | None, numbers: list[int], otherwise: int) -> int | None:
    if told is not None and told.isdigit() and int(told) in numbers:
        return int(told)
    return numbers[otherwise] if otherwise < len(numbers) else None


def _read_change(tab: str, form: Any, cards: list[hook_form.HookCard]) -> dict[str, Any]:
    """Return the keys of a blueprint that a tab changes; null takes one out."""
    text = {key: str(value).strip() for key, value in form.items()}
    if tab == "hooks":
        return {"hooks": hook_form.write_hooks(cards) or None}
    if tab == "general":
        return {
            "description": text.get("description") or None,
            "tags": _to_list(text.get("tags", "")) or None,
            "timeout_seconds": _to_number_or_text(text.get("timeout_seconds", "")),
            "on_crash": text.get("on_crash") or None,
        }
    if tab == "prompt":
        model = text.get("model", "")
        parsed = forms.parse_json(model, "The model") if model.startswith("{") else model
        return {"model": parsed or None, "system_prompt": text.get("system_prompt") or None}
    if tab == "schemas":
        return {
            key: forms.parse_json(text[key], key) if text.get(key) else None
            for key in ("parameters_schema", "output_schema")
        }
    if tab == "tools":
        return {
            "tools": forms.parse_json(text["tools"], "The list of tools")
            if text.get("tools")
            else None
        }
    if tab == "runner":
        return {"demands": _to_list(text.get("demands", "")) or None}
    raise HTTPException(404)


def _redraw(tab: str, form: Any, cards: list[hook_form.HookCard]) -> dict[str, Any]:
    """Return what somebody typed, to be shown again."""
    told: dict[str, Any] = {"typed": {key: str(value) for key, value in form.items()}}
    if tab == "hooks":
        told |= {"cards": cards, "points": [*hook_form.grouped(cards)], "is_draft": True}
    return told


def _to_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _to_number_or_text(text: str) -> Any:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return text  # the API says what it expected


def describe_value(value: Any) -> str:
    """Return a value of a blueprint for a field."""
    if value is None:
        return ""
    return (
        value
        if isinstance(value, str)
        else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    )
