"""The figures of the overview and of the gateway are those of the API."""

import re


def figures(html):
    tile = r'<div class="label">([^<·]+?)(?: ·[^<]*)?</div><div class="value">([^<]*)</div>'
    return dict(re.findall(tile, html))


def test_the_overview_counts_runs_that_are_not_on_the_page(keyed, visit):
    for number in range(12):
        keyed.run("admin", "refund", {"amount": 5000 if number % 2 else 5})
    keyed.run("admin", "failing", {"order": "A"})
    stats = keyed.call("admin", "GET", "/stats/runs?window=1h").json()["total"]
    hooks = keyed.call("admin", "GET", "/hooks/stats?window=1h").json()
    page = visit("admin").get("/ui/?window=1h").text
    told = figures(page)
    assert told["Runs ended"] == str(stats["runs"])
    assert told["Blocked"] == str(stats["blocked"])
    assert stats["blocked"] >= 6
    assert told["Failed"] == str(stats["by_status"]["error"] - stats["blocked"])
    [limit] = [each["blocked"] for each in hooks if each["hook"] == "refund_limit"]
    assert f"<dt>refund_limit</dt><dd>{limit}</dd>" in page
    assert "does not know A" in page


def test_every_window_and_an_empty_gateway_are_shown(visit):
    browser = visit("viewer")
    for window in ("1h", "24h", "7d", "nonsense"):
        assert browser.get("/ui/", params={"window": window}).status_code == 200
    assert "OPENAI_BASE_URL" in browser.get("/ui/gateway").text
    assert browser.get("/ui/gateway?by=key&key=nobody").status_code == 200
