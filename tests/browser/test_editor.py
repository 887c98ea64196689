"""Agents are edited: shadow, versions, restoring, and two people at once."""

import re

import pytest
from playwright.sync_api import expect

MODEL = {"provider": "scripted", "replies": ["Hello"] * 5}


@pytest.fixture
def clerk(site, request):
    name = f"clerk-{request.node.name[5:25].replace('_', '-')}"
    hook = {"name": "limit", "when": "size(parameters.prompt) > 3", "block": "Too long"}
    body = {"name": name, "model": MODEL, "hooks": {"on_run_start": [hook]}}
    assert site.http.post("/agents", json=body).status_code == 201
    return name


def test_a_hook_is_tried_in_shadow_and_counted(page, site, clerk):
    page.goto(f"/ui/agents/{clerk}/hooks")
    page.get_by_label("Mode").select_option("shadow")
    page.get_by_role("button", name="Save as v2").last.click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    run = site.run(clerk, {"prompt": "much too long"})
    assert run["status"] == "success"
    page.goto("/ui/runs?hooks=would_block")
    row = page.locator(f"#run-{run['run_id']}")
    expect(row).to_contain_text("1 would block")
    row.get_by_text("much too long").click()
    expect(page.locator("#banners")).to_contain_text("limit would have blocked this: “Too long”")


def test_an_old_version_is_compared_and_restored(page, site, clerk):
    page.goto(f"/ui/agents/{clerk}/prompt")
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_role("button", name="Save as v2").click()
    page.get_by_role("link", name="Versions").click()
    expect(page.locator(".diff .add")).to_have_text('+ "Be brief."')
    page.get_by_role("button", name="Restore v1").click()
    expect(page.get_by_role("main")).to_contain_text("v3")
    assert "system_prompt" not in site.http.get(f"/agents/{clerk}").json()["blueprint"]


def test_whoever_saves_second_sees_what_the_first_saved(new_context, site, clerk):
    first, second = (new_context().new_page() for _ in range(2))
    for each, text in ((first, "One."), (second, "Two.")):
        each.goto(f"/ui/agents/{clerk}/prompt")
        each.get_by_label("System prompt").fill(text)
    first.get_by_role("button", name="Save as v2").click()
    expect(first.get_by_role("status")).to_have_text("Saved.")
    second.get_by_role("button", name="Save as v2").click()
    alert = second.get_by_role("alert")
    expect(alert).to_contain_text("Somebody saved version 2 meanwhile")
    expect(alert).to_contain_text('"One."')
    expect(second.get_by_label("System prompt")).to_have_value("Two.")
    second.get_by_role("button", name="Apply mine to v2").click()
    expect(second.get_by_role("status")).to_have_text("Saved.")
    assert site.http.get(f"/agents/{clerk}").json()["blueprint"]["system_prompt"] == "Two."


def test_hooks_are_put_in_order_and_removed(page, site, clerk):
    page.goto(f"/ui/agents/{clerk}/hooks")
    page.get_by_role("button", name="Add a hook").click()
    page.get_by_label("Name").last.fill("second")
    page.get_by_role("button", name="Move up").last.click()
    expect(page.get_by_label("Name").first).to_have_value("second")
    page.get_by_role("button", name="Remove").last.click()
    expect(page.get_by_label("Name")).to_have_count(1)
    page.get_by_label("Type").select_option("approval")
    page.get_by_label("Question", exact=True).fill("May I?")
    page.get_by_role("button", name=re.compile("Save as v2")).last.click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    hooks = site.http.get(f"/agents/{clerk}").json()["blueprint"]["hooks"]
    assert hooks == {"on_run_start": [{"type": "approval", "name": "second", "question": "May I?"}]}


def test_what_the_server_refuses_is_said_and_nothing_typed_is_lost(page, site, clerk):
    page.goto(f"/ui/agents/{clerk}/hooks")
    page.get_by_label("When").fill("parameters.amount >")
    page.get_by_role("button", name="Save as v2").last.click()
    expect(page.get_by_role("alert").first).to_contain_text("when")
    expect(page.get_by_label("When")).to_have_value("parameters.amount >")
    assert site.http.get(f"/agents/{clerk}").json()["version"] == 1


def test_an_agent_of_a_file_is_read_only(page, site):
    page.goto("/ui/agents/desk/hooks")
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"Declared in .*checkrail\.yaml"))
    expect(page.get_by_role("button", name="Add a hook")).to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text("transfer_limit")
