"""Nobody sees a button that the server would refuse, and pages refuse what buttons would send."""

import re

import pytest


@pytest.fixture(scope="module")
def waiting(keyed):
    run = keyed.run("admin", "signed", {"amount": 500}, "async_poll")
    for _ in range(500):
        if found := keyed.call("admin", "GET", f"/approvals?run_id={run['run_id']}").json():
            return run["run_id"], found[0]["approval_id"]
    raise AssertionError("nobody was asked")


@pytest.fixture(scope="module")
def agent(keyed):
    body = {
        "name": "clerk",
        "model": {"provider": "scripted", "replies": ["Hello"]},
        "hooks": {"on_run_start": [{"name": "limit", "when": "false", "block": "No"}]},
    }
    assert keyed.call("admin", "POST", "/agents", json=body).status_code == 201
    return "clerk"


def buttons(html):
    main = html.partition("<main")[2]
    words = re.findall(r"<(?:button|a class=\"button)[^>]*>(.*?)</(?:button|a)>", main, re.DOTALL)
    return {re.sub(r"<[^>]*>", "", word).strip() for word in words}


def forms(html):
    return {
        path
        for path in re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', html)
        if path not in ("/ui/theme", "/ui/logout")
    }


PAGES = (
    "/ui/",
    "/ui/runs",
    "/ui/runs/{run}",
    "/ui/approvals",
    "/ui/approvals/{ask}",
    "/ui/agents",
    "/ui/agents/clerk/general",
    "/ui/agents/clerk/prompt",
    "/ui/agents/clerk/hooks",
    "/ui/agents/clerk/versions",
    "/ui/agents/desk/hooks",
    "/ui/hooks",
    "/ui/sessions",
    "/ui/gateway",
)


def test_a_viewer_is_shown_no_form(visit, keyed, agent, waiting):
    browser = visit("viewer")
    for path in PAGES:
        page = browser.get(path.format(run=waiting[0], ask=waiting[1]))
        assert page.status_code in (200, 404), path
        assert forms(page.text) == set(), path
        assert not buttons(page.text) & {"Start a run", "Run", "New agent", "Rerun", "Approve"}, (
            path
        )


@pytest.mark.parametrize("path", ["/ui/chat", "/ui/runners"])
def test_pages_that_a_viewer_cannot_use_are_not_offered(visit, path):
    browser = visit("viewer")
    rail = browser.get("/ui/runs").text.partition("<main")[0]
    assert f'href="{path}"' not in rail
    answer = browser.get(path)
    assert answer.status_code == 403
    assert "viewer" in answer.text


def test_what_a_viewer_sends_all_the_same_is_refused(visit, keyed, agent, waiting):
    run, ask = waiting
    run = keyed.run("admin", "refund", {"amount": 3})["run_id"]
    browser = visit("viewer")
    sent = {
        f"/ui/approvals/{ask}": {"action": "approve"},
        f"/ui/runs/{run}/rerun": {"parameters": "{}"},
        "/ui/agents/new": {"name": "mine", "model": "m"},
        "/ui/agents/clerk/hooks": {"version": "1", "step": "save"},
        "/ui/agents/clerk/delete": {},
        "/ui/agents/clerk/switch/disable": {},
        "/ui/agents/desk/run": {"json": "{}"},
    }
    for path, data in sent.items():
        assert browser.submit(path, **data).status_code in (403, 404), path
    assert keyed.call("admin", "GET", "/agents/clerk").json()["version"] == 1
    assert keyed.call("admin", "GET", f"/approvals/{ask}").json()["status"] == "open"


def test_a_member_edits_their_own_agents_and_no_others(visit, keyed, agent):
    body = {"name": "hers", "model": {"provider": "scripted", "replies": ["Hello"]}}
    assert keyed.call("member", "POST", "/agents", json=body).status_code == 201
    browser = visit("member")
    assert "/ui/agents/hers/prompt" in forms(browser.get("/ui/agents/hers/prompt").text)
    assert forms(browser.get("/ui/agents/clerk/prompt").text) == set()
    answer = browser.submit("/ui/agents/clerk/prompt", version="1", model="m")
    assert answer.status_code == 403


def test_runs_of_others_are_not_there(visit, keyed):
    run = keyed.run("admin", "refund", {"amount": 4})["run_id"]
    for path in (f"/ui/runs/{run}", f"/ui/runs/{run}/run.json", f"/ui/go/{run}"):
        assert visit("member").get(path).status_code == 404
        assert visit("admin").get(path).status_code in (200, 303)
