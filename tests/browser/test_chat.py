"""People talk to an agent, and see what hooks did."""

import re

from playwright.sync_api import expect


def test_a_reply_comes_and_stays(page, site):
    page.goto("/ui/chat?agent=desk")
    page.get_by_label("Message").fill("Where is order B-17?")
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_contain_text("Done: B-17 is on its way")
    expect(page).to_have_url(re.compile(r"/ui/chat/[0-9a-f-]{36}$"))
    page.reload()
    expect(log).to_contain_text("Done: B-17 is on its way")


def test_hooks_stand_between_the_messages(page, site):
    page.goto("/ui/chat?agent=desk")
    page.get_by_label("Message").fill("Transfer 20.4 please")
    page.get_by_role("button", name="Send").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("Done: moved 20")
    log.get_by_text("euros changed").click()
    expect(page.locator("#panel")).to_contain_text("args.currency")


def test_a_block_says_who_and_why(page, site):
    page.goto("/ui/chat?agent=desk")
    page.get_by_label("Message").fill("Can you promise me that?")
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_contain_text("by no_promises")
    expect(log).to_contain_text("Do not promise refunds")
    expect(log).not_to_contain_text("I promise a refund")
