"""Make pictures of every page of the dashboard: light and dark, wide and narrow.

`make screenshots` has them in .checkrail/screenshots; what the README shows is `readme-*.png`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CHECKRAIL_SCREENSHOTS", ".checkrail/screenshots"))
README = {"runs": "runs", "run-blocked": "blocked-run", "agent-hooks": "hooks-tab"}
CLIP = {"x": 0, "y": 0, "width": 1280, "height": 720}
PROJECT = Path(__file__).parent / "project" / "checkrail.yaml"

# Pictures show no folder of the machine on which they were taken.
SHORTEN = """folder => {
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) all.currentNode.data = all.currentNode.data.replaceAll(folder, "");
}"""
PAGES = {
    "overview": "/ui/",
    "runs": "/ui/runs",
    "runs-empty": "/ui/runs?q=nobody-wrote-this",
    "run-blocked": "/ui/runs/{blocked}/steps/{step}",
    "run-chain": "/ui/runs/{chain}/steps/{rounding}?diff=side",
    "run-input": "/ui/runs/{changed}?tab=input",
    "run-conversation": "/ui/runs/{chain}?tab=conversation",
    "run-events": "/ui/runs/{chain}?tab=events",
    "run-deliveries": "/ui/runs/{chain}?tab=deliveries",
    "run-waiting": "/ui/runs/{waiting}",
    "run-failed": "/ui/runs/{failed}",
    "approvals": "/ui/approvals",
    "sessions": "/ui/sessions",
    "chat": "/ui/chat",
    "agents": "/ui/agents",
    "agent-new": "/ui/agents/new",
    "agent-general": "/ui/agents/teller/general",
    "agent-hooks": "/ui/agents/teller/hooks",
    "agent-versions": "/ui/agents/teller/versions",
    "agent-run": "/ui/agents/refund/run",
    "agent-of-a-file": "/ui/agents/desk/hooks",
    "hooks": "/ui/hooks",
    "gateway": "/ui/gateway",
    "runners": "/ui/runners",
    "keys": "/ui/help/keys",
    "not-found": "/ui/nowhere",
}

pytestmark = pytest.mark.screenshots


@pytest.fixture(scope="module")
def ids(site):
    """Runs that came out in every way, and an agent with hooks of its own."""
    hooks = {
        "on_run_start": [
            {"name": "no_loans", "when": 'parameters.prompt.contains("loan")'}
            | {"block": "Loans are for the branch"},
            {"name": "four_eyes", "type": "approval", "question": "May the teller answer this?"}
            | {"when": "size(parameters.prompt) > 500"},
        ]
    }
    model = {"provider": "scripted", "replies": ["Hello"] * 9}
    body = {"name": "teller", "model": model, "description": "Answers at the counter."}
    assert site.http.post("/agents", json={**body, "hooks": hooks}).status_code == 201
    edited = {**body, "system_prompt": "Be brief.", "hooks": hooks}
    site.http.put("/agents/teller", json=edited)
    for order in ("A-17", "B-4", "C-92"):
        site.say("desk", f"Where is order {order}?")
    site.run("teller", {"prompt": "When do you open?"})
    site.run("teller", {"prompt": "I want a loan"})
    site.run("shadowed", {"amount": 300, "note": "a parcel that never came"})
    site.say("desk", "Can you promise me that?")
    failed = site.run("failing", {"order": "Z-1"})
    changed = site.run("refund", {"amount": 20, "note": "  thanks  "})
    waiting = site.begin("signed", {"amount": 500})
    chain = site.say("desk", "Transfer 20.4 please")
    site.say("desk", "Transfer 500 please")
    blocked = site.run("refund", {"amount": 5000, "note": "Broken on arrival"})
    steps = {
        step["name"]: step["id"]
        for run in (blocked, chain)
        for step in site.http.get(f"/runs/{run['run_id']}/steps").json()["steps"]
    }
    for _ in range(500):
        if site.http.get("/approvals", params={"run_id": waiting}).json():
            break
    runs = {"blocked": blocked, "chain": chain, "changed": changed, "failed": failed}
    return {
        **{name: run["run_id"] for name, run in runs.items()},
        "waiting": waiting,
        "step": steps["refund_limit"],
        "rounding": steps["rounding"],
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_is_taken(new_context, ids, theme, width):
    FOLDER.mkdir(parents=True, exist_ok=True)
    page = new_context(viewport={"width": width, "height": 800}, color_scheme=theme).new_page()
    for name, path in PAGES.items():
        page.goto(path.format(**ids))
        page.locator("html[data-ready]").wait_for(state="attached")
        page.evaluate(SHORTEN, f"{PROJECT.parent}/")
        page.screenshot(path=FOLDER / f"{name}-{theme}-{width}.png", full_page=True)
        if (name, theme, width) in {(each, "light", 1280) for each in README}:
            page.screenshot(path=FOLDER / f"readme-{README[name]}.png", clip=CLIP)
