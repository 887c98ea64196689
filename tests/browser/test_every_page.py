"""Each page, as people have it: light and dark, wide and narrow, with odd texts in it."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

PROBE = "<img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}"
PAGES = (
    "/ui/",
    "/ui/runs",
    "/ui/runs?hooks=blocked",
    "/ui/runs/{blocked}",
    "/ui/runs/{chain}",
    "/ui/runs/{chain}?tab=conversation",
    "/ui/runs/{blocked}?tab=input",
    "/ui/runs/{chain}?tab=output",
    "/ui/runs/{chain}?tab=events",
    "/ui/runs/{chain}?tab=attempts",
    "/ui/runs/{chain}?tab=deliveries",
    "/ui/approvals",
    "/ui/approvals?status=answered",
    "/ui/sessions",
    "/ui/chat",
    "/ui/agents",
    "/ui/agents/new",
    "/ui/agents/probe/general",
    "/ui/agents/probe/prompt",
    "/ui/agents/probe/schemas",
    "/ui/agents/probe/tools",
    "/ui/agents/probe/hooks",
    "/ui/agents/probe/versions",
    "/ui/agents/refund/run",
    "/ui/agents/desk/hooks",
    "/ui/hooks",
    "/ui/gateway",
    "/ui/runners",
    "/ui/help/keys",
    "/ui/nowhere",
)


@pytest.fixture(scope="module")
def ids(site):
    """Runs, an agent and a question in which every text is a probe."""
    blocked = site.run("refund", {"amount": 5000, "note": PROBE, PROBE: PROBE})
    chain = site.say("desk", f"Transfer 20.4 please {PROBE}")
    site.run("failing", {"order": PROBE}, metadata={PROBE: PROBE})
    hook = {"name": PROBE[:40], "when": "true", "block": PROBE}
    body = {
        "name": "probe",
        "model": {"provider": "scripted", "replies": [PROBE]},
        "description": PROBE,
        "system_prompt": PROBE,
        "hooks": {"on_run_start": [hook]},
    }
    assert site.http.post("/agents", json=body).status_code == 201
    site.run("probe", {"prompt": PROBE})
    asking = {"name": "asking", "type": "approval", "question": PROBE}
    other = {**body, "name": "probe-asks", "hooks": {"on_run_start": [asking]}}
    assert site.http.post("/agents", json=other).status_code == 201
    site.begin("probe-asks", {"prompt": PROBE})
    return {"blocked": blocked["run_id"], "chain": chain["run_id"]}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_overflows_runs_what_it_shows_or_shuts_anybody_out(new_context, ids, theme, width):
    page = new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
    axe = Axe()
    serious = []
    for path in PAGES:
        page.goto(path.format(**ids))
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{path} is {over} px too wide"
        found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious += [
            (path, each["id"], each["nodes"][0]["target"], each["nodes"][0]["failureSummary"])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
    assert not serious, "\n".join(map(str, serious))


def test_probes_are_shown_as_text(page, ids):
    page.goto(f"/ui/runs/{ids['blocked']}?tab=input")
    expect(page.get_by_role("main")).to_contain_text("onerror=alert(1)")
    assert page.locator("img").count() == 0


def test_steps_are_full_pages_on_a_phone(new_context, ids):
    page = new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(f"/ui/runs/{ids['chain']}")
    page.get_by_role("row", name="euros").click()
    expect(page.locator("#panel")).to_contain_text("args.currency")
    expect(page.locator("#timeline")).to_be_hidden()
    page.get_by_role("link", name="Next step").click()
    expect(page.locator("#panel h2")).to_have_text("rounding")
