"""Everything can be done by keyboard."""

import re

from playwright.sync_api import expect


def test_a_list_is_gone_through_by_keys(page, site):
    site.run("refund", {"amount": 1})
    site.run("refund", {"amount": 2})
    page.goto("/ui/runs?agent=refund")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("[data-row]").first).to_have_class(re.compile("selected"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/runs/[0-9a-f-]{36}"))
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/ui/approvals"))
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()


def test_keys_wait_for_scripts_that_come_late(new_context, site):
    context = new_context()
    late = []
    context.route("**/js/keys.js*", lambda route: late.append(route))  # noqa: PLW0108
    page = context.new_page()
    page.goto("/ui/runs", wait_until="commit")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert page.locator("html[data-ready]").count() == 0
    for _ in range(200):
        if late:
            break
        page.wait_for_timeout(20)
    late[0].continue_()
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/ui/approvals"))


def test_a_row_stays_selected_while_others_come(page, site):
    site.run("refund", {"amount": 3})
    page.goto("/ui/runs?agent=refund")
    expect(page.locator("[data-live].on")).to_be_visible()
    page.keyboard.press("j")
    chosen = page.locator("[data-row].selected").get_attribute("id")
    run = site.run("refund", {"amount": 4})
    expect(page.locator(f"#run-{run['run_id']}")).to_be_visible()
    expect(page.locator("[data-row].selected")).to_have_id(chosen)


def test_steps_are_gone_through_by_arrows(page, site):
    run = site.say("desk", "Transfer 20.4 please")
    page.goto(f"/ui/runs/{run['run_id']}")
    rows = page.get_by_role("row")
    expect(rows.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(rows.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("n")
    expect(page.locator("#panel h2")).to_have_text("euros")
    page.keyboard.press("n")
    expect(page.locator("#panel h2")).to_have_text("rounding")
    page.keyboard.press("p")
    expect(page.locator("#panel h2")).to_have_text("euros")


def test_the_palette_finds_an_agent(page, site):
    page.goto("/ui/runs")
    page.keyboard.press("Control+k")
    page.get_by_role("searchbox", name="Go to").fill("refu")
    expect(page.get_by_role("dialog").get_by_role("link", name="refund")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/agents/refund/"))


def test_keys_can_be_switched_off(page, site):
    page.goto("/ui/help/keys")
    page.get_by_label("Use keys of one letter").uncheck()
    page.goto("/ui/runs")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.keyboard.press("/")
    expect(page.get_by_label("Search text or id")).not_to_be_focused()
    expect(page).to_have_url(re.compile("/ui/runs$"))
