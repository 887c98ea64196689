"""A run waits for a person, who answers in the inbox or on the page of the run."""

import re

from playwright.sync_api import expect


def waiting(site):
    """Begin a run that asks, and return it with its question."""
    run_id = site.begin("signed", {"amount": 500})
    found = []
    for _ in range(500):
        found = site.http.get("/approvals", params={"run_id": run_id}).json()
        if found:
            break
    return run_id, found[0]["approval_id"]


def ended(site, run_id):
    return site.http.get(f"/runs/{run_id}/events", headers={"last-event-id": "0"}).text


def test_it_is_approved_in_the_inbox(page, site):
    run_id, ask = waiting(site)
    page.goto("/ui/approvals")
    card = page.locator(f"#ask-{ask}")
    expect(card).to_contain_text("May this be refunded?")
    expect(card).to_contain_text('"amount": 500')
    expect(card).to_contain_text("ends in")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Approved. The run goes on.")
    ended(site, run_id)
    assert site.http.get(f"/runs/{run_id}").json()["status"] == "success"


def test_it_is_denied_on_the_page_of_the_run_which_then_says_who_denied(page, site):
    run_id, _ = waiting(site)
    page.goto(f"/ui/runs/{run_id}")
    page.get_by_label("Reason").fill("Not this customer")
    page.get_by_role("button", name="Deny").click()
    expect(page).to_have_url(re.compile(run_id))
    expect(page.locator("#banners")).to_contain_text("anonymous denied “May this be refunded?”")
    expect(page.locator("#banners")).to_contain_text("Not this customer")


def test_it_is_edited_and_what_is_no_json_is_said_beside_it(page, site):
    run_id, ask = waiting(site)
    page.goto(f"/ui/approvals/{ask}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("The value that is approved").fill("{")
    page.get_by_role("button", name="Approve this").click()
    expect(page.get_by_role("alert")).to_contain_text("is no JSON")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("The value that is approved").fill('{"amount": 5}')
    page.get_by_role("button", name="Approve this").click()
    expect(page.get_by_role("status")).to_contain_text("Approved")
    ended(site, run_id)
    assert site.http.get(f"/runs/{run_id}").json()["output"]["refunded"] == 5


def test_the_second_of_two_people_is_told_that_it_was_answered(new_context, site):
    _, ask = waiting(site)
    first, second = (new_context().new_page() for _ in range(2))
    for each in (first, second):
        each.goto(f"/ui/approvals/{ask}")
    first.get_by_role("button", name="Deny").click()
    expect(first.get_by_role("status")).to_have_text("Denied.")
    second.get_by_role("button", name="Approve", exact=True).click()
    expect(second.get_by_role("alert")).to_be_visible()
    expect(second.get_by_role("main")).to_contain_text("Denied")
    expect(second.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


def test_a_question_comes_while_somebody_looks(page, site):
    page.goto("/ui/approvals")
    expect(page.locator("[data-live].on")).to_be_visible()
    _, ask = waiting(site)
    expect(page.locator(f"#ask-{ask}")).to_be_visible()
    site.http.post(f"/approvals/{ask}/deny", json={})
    expect(page.locator(f"#ask-{ask}")).to_have_count(0)
