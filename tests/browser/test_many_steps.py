"""A run of two thousand steps opens, and scrolls to its last."""

import pytest
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def long_run(site):
    run = site.say("patient", "Look up everything")
    told = site.http.get(f"/runs/{run['run_id']}/steps?fold=false&limit=1").json()
    assert told["total"] >= 2000
    return run["run_id"]


def test_it_is_folded_unless_somebody_wants_all(page, site, long_run):
    page.goto(f"/ui/runs/{long_run}")
    expect(page.get_by_role("row", name="2 hooks passed").first).to_be_visible()
    page.get_by_role("link", name="Unfold hooks that passed").click()
    expect(page.get_by_role("row", name="second").first).to_be_visible()


def test_it_opens_with_some_rows_and_has_the_others_when_they_are_seen(page, site, long_run):
    page.goto(f"/ui/runs/{long_run}?fold=no")
    last = page.locator(".step", has_text="model scripted #401")
    assert last.count() == 0
    assert page.locator(".step").count() < 400
    page.locator(".chunk").last.scroll_into_view_if_needed()
    expect(last).to_have_count(1)
    assert page.locator(".step").count() < 1500
    page.goto(f"/ui/runs/{long_run}?fold=no&find=scripted&show=models")
    expect(page.get_by_role("row", name="model scripted #1", exact=False).first).to_be_visible()
