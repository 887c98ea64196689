"""The steps of a run as rows of its page."""

import re

from checkrail.dashboard import steps

NOW = 200.0


def told(name, kind, began=100.0, took=1.0, *, result="passed", **more):
    """Return a step as the API tells it."""
    depth, parent = more.pop("depth", 0), more.pop("parent", None)
    ended = None if took is None else began + took
    same = {"id": name, "kind": kind, "name": name, "parent": parent, "depth": depth}
    return {**same, "began": began, "ended": ended, "result": result, "details": more}


def test_the_only_hook_of_a_point_stands_for_it_with_the_person_it_asked():
    rows = steps.read_rows(
        [
            told("tool", "tool", result="done"),
            told("p-1", "point", depth=1, parent="tool", hooks=1),
            told("one", "hook", depth=2, parent="p-1"),
            told("May I?", "person", depth=3, parent="one", result="approved"),
            told("p-2", "point", depth=1, parent="tool", hooks=2),
            told("two", "hook", depth=2, parent="p-2"),
        ]
    )
    assert [(row.level, row.label, row.note) for row in rows] == [
        (1, "tool tool", ""),
        (2, "one", "p-1"),
        (3, "person: May I?", ""),
        (2, "p-2", "2 hooks"),
        (3, "two", ""),
    ]


def test_a_step_says_what_came_of_it():
    found = {
        told_step["id"]: steps.read_step(told_step).status
        for told_step in (
            told("slow", "hook", took=None, result="running"),
            told("gate", "hook", result="blocked", decision="block"),
            told("shadow", "hook", result="would_block", decision="block", shadow=True),
            told("broken", "hook", result="failed", failure="timeout"),
            told("cut", "model", result="cut off"),
            told("ask", "person", result="waiting"),
            told("owed", "delivery", result="dead"),
        )
    }
    assert {name: status.word for name, status in found.items()} == {
        "slow": "running",
        "gate": "blocked",
        "shadow": "would block",
        "broken": "failed (timeout)",
        "cut": "cut off",
        "ask": "Open",
        "owed": "given up",
    }


def test_a_long_wait_is_cut_so_that_the_rest_can_be_seen():
    found = steps.read_rows(
        [
            told("a", "hook", 101.0, 0.1),
            told("May I?", "person", 102.0, 7200.0, result="approved"),
            told("b", "hook", 7302.0, 4.0),
        ]
    )
    axis = steps.build_axis(found, 100.0, 7310.0, NOW)
    assert axis.cuts == ((102.0, 7302.0),)
    assert axis.bar(found[0], NOW)[0] > 5


def test_bars_stand_within_the_page():
    found = steps.read_rows(told(f"h{n}", "hook", 100.0 + n / 5, 0.1) for n in range(50))
    axis = steps.build_axis(found, 100.0, 111.0, NOW)
    for step in found:
        x, width = axis.bar(step, NOW)
        assert 0 <= x < 100
        assert 0 < width <= 100.5


def test_the_page_of_a_run_shows_the_steps_that_the_api_has(keyed, visit):
    said = {"messages": [{"role": "user", "content": "Transfer 20.4 please"}]}
    run = keyed.run("admin", "desk", said)
    path = f"/runs/{run['run_id']}"
    every = keyed.call("admin", "GET", f"{path}/steps").json()["steps"]
    page = visit("admin").get(f"/ui{path}").text
    rows = re.findall(r'id="s-([^"]+)"', page)
    assert {"model", "tool", "hook", "finish"} <= {step["kind"] for step in every}
    missing = {step["id"] for step in every} - {*rows}
    assert {step["kind"] for step in every if step["id"] in missing} <= {"point"}
    assert rows == [step["id"] for step in every if step["id"] not in missing]


def test_a_tool_shows_what_it_was_given_and_a_filter_what_it_is_within(keyed, visit):
    said = {"messages": [{"role": "user", "content": "Transfer 20.4 please"}]}
    path = f"/ui/runs/{keyed.run('admin', 'desk', said)['run_id']}"
    browser = visit("admin")
    tool = re.search(r'href="([^"]+/steps/t-[^"]+)"', browser.get(path).text)[1]
    panel = browser.get(tool, headers={"hx-request": "true"}).text
    assert "EUR" in panel
    assert "moved 20.0 EUR" in panel
    changed = re.findall(r'role="row".*?</a>', browser.get(f"{path}?show=changed").text, re.DOTALL)
    labels = [re.findall(r"<span>([^<]+)</span>", row)[0] for row in changed]
    assert labels[-4:] == ["tool transfer", "before_tool_call", "euros", "rounding"]
    assert browser.get(path, params={"find": "x\0" * 300}).status_code == 200
