"""A hook is configured, a run is blocked by it, and somebody finds out why."""

import re

from playwright.sync_api import expect


def test_from_the_hooks_tab_to_the_reason(page, site):
    page.goto("/ui/agents/new")
    page.get_by_label("Name").fill("teller")
    page.get_by_label("Model").fill('{"provider": "scripted", "replies": ["Hello", "Hello"]}')
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("/ui/agents/teller/hooks"))
    page.get_by_role("button", name="Add a hook").click()
    page.get_by_label("Name").fill("no_loans")
    page.get_by_label("When").fill('parameters.prompt.contains("loan")')
    page.get_by_label("Reason or question").fill("Loans are for the branch")
    page.get_by_role("button", name="Save as v2").last.click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.locator("#plan")).to_contain_text("no_loans")

    page.get_by_role("link", name="Run", exact=True).first.click()
    page.get_by_label("Parameters").fill('{"prompt": "I want a loan"}')
    page.get_by_role("button", name="Run teller").click()
    reason = page.locator("#reason")
    expect(reason).to_contain_text("Blocked before the agent ran by no_loans")
    expect(reason).to_contain_text("Loans are for the branch")

    page.goto("/ui/runs?agent=teller")
    page.get_by_role("button", name="hook blocked").click()
    expect(page).to_have_url(re.compile("hooks=blocked"))
    row = page.locator("[data-row]")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("1 blocked")
    row.get_by_text("I want a loan").click()
    expect(reason).to_contain_text("Loans are for the branch")
    page.keyboard.press("b")
    panel = page.locator("#panel")
    expect(panel).to_contain_text("Loans are for the branch")
    expect(panel).to_contain_text("on_run_start")
    assert "/steps/" in page.url


def test_original_and_transformed_parameters_stand_beside_each_other(page, site):
    run = site.run("refund", {"amount": 20, "note": "  thanks  "})
    page.goto(f"/ui/runs/{run['run_id']}")
    page.get_by_role("link", name="Input").click()
    main = page.get_by_role("main")
    expect(main).to_contain_text("by normalise")
    expect(main.locator(".diff .del")).to_contain_text('"  thanks  "')
    expect(main.locator(".diff .add")).to_have_text('+ "thanks"')


def test_a_chain_shows_who_changed_what(page, site):
    run = site.say("desk", "Transfer 20.4 please")
    page.goto(f"/ui/runs/{run['run_id']}")
    page.get_by_role("row", name="rounding").click()
    panel = page.locator("#panel")
    expect(panel.locator(".chain")).to_contain_text("rounding")
    assert panel.locator(".chain").inner_text().split()[::2] == [
        *("original", "euros", "rounding", "final")
    ]
    expect(panel.locator(".diff")).to_contain_text("args.amount")
    expect(panel.locator(".diff")).not_to_contain_text("currency")
    link = page.url
    panel.get_by_role("link", name="Side by side").click()
    expect(panel.locator(".diff")).to_contain_text("args.currency")
    page.goto(link)
    expect(panel.locator(".diff .add")).to_have_text("+ 20")


def test_a_blocked_tool_is_told_though_the_run_succeeded(page, site):
    run = site.say("desk", "Transfer 500 please")
    page.goto(f"/ui/runs/{run['run_id']}")
    expect(page.locator("#banners")).to_contain_text(
        "1 tool call was blocked and the agent went on"
    )
    page.get_by_role("link", name="Conversation").click()
    expect(page.get_by_role("main")).to_contain_text("Transfers over 100 need a person")


def test_filters_outlive_a_reload_and_going_back(page, site):
    run = site.run("refund", {"amount": 5000, "note": "far too much"})
    page.goto("/ui/runs")
    page.get_by_label("Agent").select_option("refund")
    expect(page).to_have_url(re.compile("agent=refund"))
    page.get_by_role("link", name="Blocked", exact=False).first.click()
    expect(page).to_have_url(re.compile("status=blocked"))
    page.reload()
    expect(page.get_by_label("Agent")).to_have_value("refund")
    page.locator(f"#run-{run['run_id']}").get_by_text("far too much").click()
    expect(page.locator("#reason")).to_contain_text("finance desk")
    page.go_back()
    expect(page).to_have_url(re.compile("agent=refund.*status=blocked"))
    page.get_by_label("Search text or id").fill("far too")
    page.keyboard.press("Enter")
    expect(page.locator(f"#run-{run['run_id']}")).to_be_visible()
    page.get_by_label("Search text or id").fill("nobody wrote this")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("No run fits these filters")
