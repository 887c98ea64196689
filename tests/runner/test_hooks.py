"""Hooks hold in runs on a runner as they do on the server: it is asked at every point."""

from tests.processes import until

FILE = "hooked.yaml"


def said_on(place, run):
    thread = place.asking.client.get(f"/threads/{run['thread_id']}").json()
    return thread["values"]["messages"]


def test_a_hook_of_an_agent_blocks_a_tool(place, runner):
    ended = place.asking.wait("guarded", {"prompt": "open the safe"})
    assert ended["status"] == "success", ended
    said = said_on(place, ended)
    assert "the safe is private" in str(said[2]["content"])
    assert "is empty" not in str(said)
    told = place.asking.records(ended["run_id"])
    assert [each["point"] for each in told] == ["before_tool_call"] * 2
    assert told[-1]["decision"] == "block"


def test_hooks_of_an_agent_that_is_a_tool_hold_in_it(place, runner):
    ended = place.asking.wait("boss", {"prompt": "open the safe"})
    assert ended["status"] == "success", ended
    told = place.asking.records(ended["run_id"])
    blocked = [each for each in told if each.get("decision") == "block"]
    assert [each["reason"] for each in blocked] == ["the safe is private"]


def test_a_rule_for_a_model_holds_under_all_its_names(place, runner):
    ended = place.asking.wait("routed", {"prompt": "look"})
    assert ended["status"] == "success", ended
    told = place.asking.records(ended["run_id"])
    blocked = [each["reason"] for each in told if each.get("decision") == "block"]
    assert blocked == ["not with scripted"]


def test_what_hooks_change_and_redact_is_changed_there(place, runner):
    ended = place.asking.wait("changed", {"prompt": "look"})
    assert ended["status"] == "success", ended
    said = said_on(place, ended)
    assert str(said[2]["content"]).startswith("cellar is empty")
    assert "number 42" not in str(said)
    assert "number 42" not in ended["output"]


def test_a_run_that_a_hook_ends_names_the_hook(place, runner):
    ended = place.asking.wait("refused", {"prompt": "hello"})
    assert (ended["status"], ended["phase"]) == ("error", "blocked")
    assert (ended["blocked_by"], ended["block_reason"]) == ("strict", "not today")


def test_start_and_result_hooks_run_on_the_server(place, runner):
    ended = place.asking.wait("ruled", {"a": 1})
    assert ended["status"] == "success", ended
    server = place.server.pid
    assert ended["output"]["given"] == {"a": 1, "begun_by": server}
    assert (ended["output"]["pid"], ended["output"]["ruled_by"]) == (runner.pid, server)
    assert ended["attempt"] == 1


def test_a_person_is_asked_about_what_a_runner_does(place, runner):
    run_id = place.asking.run("asks", {"prompt": "look"})
    found = []

    def asked():
        found[:] = place.asking.client.get("/approvals", params={"run_id": run_id}).json()
        return found

    until(asked, "the question")
    path = f"/approvals/{found[0]['approval_id']}/approve"
    place.asking.answered(place.asking.client.post(path, json={}))
    ended = place.asking.ended(run_id)
    assert ended["status"] == "success", ended
    assert f"says {runner.pid}" in str(said_on(place, ended)[2]["content"])
    told = place.asking.client.get(f"/runs/{run_id}/events").text
    assert told.count("event: approval") == 2


def test_a_run_that_a_hook_waits_for_is_taken_above_the_capacity(own_place):
    runner = own_place.runner("--tag", "elsewhere", "--capacity", "1")
    ended = own_place.asking.wait("watched", {"prompt": "look"})
    assert ended["status"] == "success", ended
    assert f"judged by {runner.pid}" in str(said_on(own_place, ended)[2]["content"])


def test_an_agent_that_was_made_over_http_is_sent_along(place, runner):
    model = {"provider": "scripted", "replies": ["From afar."]}
    made = {"name": "newcomer", "model": model, "demands": ["elsewhere"]}
    made["hooks"] = {"after_llm_call": {"type": "rule", "set": {"content": "Changed on the way."}}}
    place.asking.answered(place.asking.client.post("/agents", json=made))
    ended = place.asking.wait("newcomer", {"prompt": "hello"})
    assert ended["status"] == "success", ended
    assert ended["output"] == "Changed on the way."
    assert ended["attempt"] == 1
