"""Runs are watched while they go on."""

from playwright.sync_api import expect


def test_a_run_comes_into_the_list_and_ends_there(page, site):
    page.goto("/ui/runs?agent=slow")
    expect(page.locator("[data-live].on")).to_be_visible()
    run_id = site.begin("slow", {"gate": "list"})
    row = page.locator(f"#run-{run_id}")
    expect(row).to_contain_text("Running")
    site.open_gate("list")
    expect(row).to_contain_text("Success")


def test_the_page_of_a_run_follows_it_to_its_end(page, site):
    run_id = site.begin("slow", {"gate": "page"})
    page.goto(f"/ui/runs/{run_id}")
    expect(page.locator("#summary")).to_contain_text("Running")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    site.open_gate("page")
    expect(page.locator("#summary")).to_contain_text("Success")
    expect(page.get_by_role("row", name="audit")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_run_is_cancelled(page, site):
    run_id = site.begin("slow", {"gate": "never"})
    page.goto(f"/ui/runs/{run_id}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#summary")).to_contain_text("Cancelled")


def test_a_run_is_repeated_with_other_parameters(page, site):
    run = site.run("refund", {"amount": 5000})
    page.goto(f"/ui/runs/{run['run_id']}")
    page.get_by_role("button", name="Rerun").click()
    page.get_by_label("Parameters").fill('{"amount": 7}')
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.locator("#summary")).to_contain_text("Success")
    assert run["run_id"] not in page.url
    page.get_by_role("link", name="Input").click()
    expect(page.get_by_role("main")).to_contain_text(run["run_id"])
