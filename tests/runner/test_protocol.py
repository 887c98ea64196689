"""The protocol, spoken word by word: who may say what of which run."""

import threading
import uuid

import httpx
import pytest

from .speaker import Speaker


@pytest.fixture
def speaker(place):
    made = Speaker(place)
    yield made
    made.leave()


def test_a_claim_has_all_that_execution_needs(place, speaker):
    run_id = place.asking.run("where", {"a": 1}, metadata={"of": "mine"})
    [claim] = speaker.poll().json()["runs"]
    run = claim["run"]
    assert (run["run_id"], run["attempt"], run["input"]) == (run_id, 1, {"a": 1})
    assert (claim["kind"], claim["points"], claim["history"]) == ("procedural", {}, [])
    assert run["user"]["identity"] == "anonymous"
    assert "webhook" not in run["kwargs"]
    assert place.asking.get(run_id)["status"] == "running"
    assert speaker.say(run, "completed", output="done").status_code == 204
    assert place.asking.ended(run_id)["output"] == "done"


def test_a_poll_that_waits_is_answered_when_a_run_comes(place, speaker):
    found = []
    waiting = threading.Thread(target=lambda: found.append(speaker.poll().json()))
    waiting.start()
    run_id = place.asking.run("where")
    waiting.join(20)
    [claim] = found[0]["runs"]
    assert claim["run"]["run_id"] == run_id
    speaker.say(claim["run"], "completed", output=1)


def test_a_poll_says_which_run_is_to_be_stopped_once(place, speaker):
    run_id = place.asking.run("where")
    run = speaker.claim()
    place.asking.cancel(run_id)
    answer = speaker.poll(0, holding=run_id).json()
    assert answer["stops"] == [{"run_id": run_id, "attempt": 1, "cancel": "interrupt"}]
    beat = speaker.say(run, "heartbeat").json()
    assert beat["cancel"] == "interrupt"
    assert beat["runs"] == {run_id: {"attempt": 1, "cancel": "interrupt"}}
    assert speaker.say(run, "stopped", usage={"m": {"total_tokens": 3}}).status_code == 204
    ended = place.asking.ended(run_id)
    assert (ended["phase"], ended["usage"]) == ("cancelled", {"m": {"total_tokens": 3}})


@pytest.mark.parametrize("reported", [26, None], ids=["with a report", "without"])
def test_usage_is_kept_as_it_comes_in_and_given_to_the_next_attempt(place, reported):
    first, second = (Speaker(place, agents=["restarts"]) for _ in range(2))
    run_id = place.asking.run("restarts", {})
    run = first.claim()
    assert run["usage"] is None
    told = [1, "custom", [], {"step": 1}]
    for total, events in ((5, [told]), (13, [told]), (13, [])):  # some of it is said again
        usage = {"m": {"total_tokens": total}}
        assert first.say(run, "events", events=events, usage=usage).status_code == 204
    assert place.asking.get(run_id)["usage"] == {"m": {"total_tokens": 13}}
    assert first.say(run, "events", events=[], usage={"m": 13}).status_code == 422
    first.client.post(
        "/runner/deregister", params={"holding": run_id}, headers=first.headers
    ).raise_for_status()
    again = second.claim()
    assert (again["attempt"], again["usage"]) == (2, {"m": {"total_tokens": 13}})
    late = first.say(run, "events", events=[], usage={"m": {"total_tokens": 99}})
    assert late.status_code == 410
    usage = {} if reported is None else {"usage": {"m": {"total_tokens": reported}}}
    assert second.say(again, "completed", output=1, **usage).status_code == 204
    assert place.asking.ended(run_id)["usage"] == {"m": {"total_tokens": reported or 13}}
    second.leave()


def test_a_run_that_was_lost_on_the_way_is_sent_again(place, speaker):
    run_id = place.asking.run("where")
    speaker.claim()
    run = speaker.claim()  # for the answer before never came
    assert (run["run_id"], run["attempt"]) == (run_id, 1)
    other = place.asking.run("where")
    [claim] = speaker.poll(holding=run_id).json()["runs"]
    assert claim["run"]["run_id"] == other
    speaker.say(claim["run"], "completed", output=1)
    speaker.say(run, "completed", output=1)


REPORTS = {
    "completed": {"output": "first"},
    "failed": {"error": "it broke"},
    "stopped": {},
}


@pytest.mark.parametrize("first", REPORTS)
def test_a_report_is_taken_again_as_it_was_and_no_other_after_it(place, speaker, first):
    run_id = place.asking.run("where")
    run = speaker.claim()
    others = {
        **{(what, str(said)): said for what, said in REPORTS.items() if what != first},
        ("completed", "another"): {"output": "second"},
        ("failed", "another"): {"error": "it broke again"},
        ("stopped", "another"): {"usage": {"m": {"total_tokens": 1}}},
        ("left", ""): {"memo": {}},
        ("events", ""): {"events": [[1, "custom", [], 1]]},
        ("points", ""): {"point": "before_tool_call", "value": {}},
        ("heartbeat", ""): {},
    }

    def repeated():
        assert speaker.say(run, first, **REPORTS[first]).status_code == 204
        for (what, _), said in others.items():
            answer = speaker.say(run, what, **said)
            assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost"), what

    repeated()
    ended = place.asking.ended(run_id)
    repeated()
    assert place.asking.get(run_id) == ended
    assert ended["status"] == {"completed": "success", "failed": "error"}.get(first, "interrupted")


@pytest.mark.parametrize("event", ["end", "approval", "hook_complete", "metadata", "error", "step"])
def test_events_that_are_the_servers_are_refused_wherever_a_runner_says_them(place, speaker, event):
    run_id = place.asking.run("where")
    run = speaker.claim()
    for what, said in {
        "events": {"events": [[1, "custom", [], 1], [2, event, [], {"status": "success"}]]},
        "completed": {"output": 1, "held": [["custom", [], 1], [event, [], {}]]},
    }.items():
        answer = speaker.say(run, what, **said)
        assert answer.status_code == 422
        assert f"a runner cannot tell {event!r} events" in answer.json()["message"]
    assert speaker.say(run, "events", events=[[1, "values", [], 1]]).status_code == 204
    assert speaker.say(run, "completed", output=2).status_code == 204
    assert place.asking.ended(run_id)["output"] == 2
    told = place.asking.client.get(f"/runs/{run_id}/events").text
    assert told.count(f"event: {event}\n") == (event in ("metadata", "end"))


def test_a_report_under_another_lease_is_refused(place, speaker):
    run_id = place.asking.run("where")
    run = speaker.claim()
    other = Speaker(place)
    for what in ("heartbeat", "events", "completed", "failed", "stopped", "points"):
        body = {"events": [], "error": "x", "point": "before_tool_call", "value": {}}
        answer = other.say(run, what, **body)
        assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost"), what
        answer = speaker.say({**run, "attempt": 2}, what, **body)
        assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost"), what
    other.leave()
    assert place.asking.get(run_id)["status"] == "running"
    speaker.say(run, "completed", output="mine")
    assert place.asking.ended(run_id)["output"] == "mine"


def test_a_run_that_does_not_exist_is_refused_like_one_of_others(speaker):
    answer = speaker.say({"run_id": str(uuid.uuid4()), "attempt": 1}, "completed")
    assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost")


def test_a_runner_that_is_not_known_has_to_register_again(place):
    headers = {"X-Runner-Id": str(uuid.uuid4())}
    answer = place.asking.client.get("/runner/runs", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (410, "gone")
    assert place.asking.client.get("/runner/runs").status_code == 422


def test_events_that_are_repeated_are_kept_once_and_gaps_are_refused(place, speaker):
    run_id = place.asking.run("where")
    run = speaker.claim()
    first = [[1, "custom", [], {"n": 1}], [2, "custom", [], {"n": 2}]]
    assert speaker.say(run, "events", events=first).status_code == 204
    again = [[2, "custom", [], {"n": 2}], [3, "custom", ["sub"], {"n": 3}]]
    assert speaker.say(run, "events", events=again).status_code == 204
    answer = speaker.say(run, "events", events=[[5, "custom", [], {"n": 5}]])
    assert answer.status_code == 422
    assert "the next one is 4, not 5" in answer.json()["message"]
    speaker.say(run, "completed", output=1)
    place.asking.ended(run_id)
    told = place.asking.client.get(f"/runs/{run_id}/events").text
    assert [told.count(f'{{"n":{number}}}') for number in (1, 2, 3, 5)] == [1, 1, 1, 0]


def test_a_run_goes_only_to_a_runner_with_its_tags(place, speaker):
    run_id = place.asking.run("gpu")
    other = place.asking.run("where")
    run = speaker.claim()
    assert run["run_id"] == other
    speaker.say(run, "completed", output=1)
    able = Speaker(place, tags=["gpu", "more"])
    run = able.claim()
    assert run["run_id"] == run_id
    able.say(run, "completed", output=1)
    able.leave()


def test_a_run_goes_only_to_a_runner_that_knows_its_agent_and_kind(place, speaker):
    run_id = place.asking.run("where")
    for told in ({"agents": ["waits"]}, {"kinds": ["autonomous"]}):
        other = Speaker(place, **told)
        threading.Timer(0.5, other.leave).start()
        assert other.poll(5, holding=str(uuid.uuid4())).status_code in (204, 410)
    run = speaker.claim()
    assert run["run_id"] == run_id
    speaker.say(run, "completed", output=1)


def test_it_gets_no_more_than_it_has_room_for(place, speaker):
    asked = {place.asking.run("where") for _ in range(3)}
    found = [each["run"] for each in speaker.poll(2).json()["runs"]]
    assert len(found) == 2
    held = [run["run_id"] for run in found]
    found += [each["run"] for each in speaker.poll(2, holding=held).json()["runs"]]
    assert {run["run_id"] for run in found} == asked
    for run in found:
        speaker.say(run, "completed", output=1)


def test_what_a_runner_holds_goes_back_when_it_leaves(place):
    began = Speaker(place)
    run_id = place.asking.run("restarts")
    place.asking.run("where")
    runner = Speaker(place, agents=["restarts", "where"])
    began.leave()
    claimed = [each["run"] for each in runner.poll(2).json()["runs"]]
    assert len(claimed) == 2
    # Of the second one it says nothing: it never had it.
    runner.client.post("/runner/deregister", params={"holding": run_id}, headers=runner.headers)
    after = Speaker(place, agents=["restarts", "where"])
    again = {run["run_id"]: run for run in (each["run"] for each in after.poll(2).json()["runs"])}
    assert again[run_id]["attempt"] == 2
    assert [run["attempt"] for name, run in again.items() if name != run_id] == [1]
    for run in again.values():
        after.say(run, "completed", output=1)
    after.leave()


def test_a_runner_that_dies_while_it_waits_gets_no_run(place):
    gone = Speaker(place)
    with pytest.raises(httpx.ReadTimeout):
        gone.client.get("/runner/runs", headers=gone.headers, timeout=0.3)
    run_id = place.asking.run("where")
    alive = Speaker(place)
    run = alive.claim()
    assert (run["run_id"], run["attempt"]) == (run_id, 1)
    alive.say(run, "completed", output=1)
    alive.leave()
    gone.leave()


def test_a_report_after_the_lease_ran_out_is_refused(place):
    silent = Speaker(place)
    run_id = place.asking.run("where")
    run = silent.claim()
    ended = place.asking.ended(run_id)
    assert (ended["status"], ended["error_type"]) == ("error", "WorkerLost")
    assert silent.say(run, "completed", output=1).status_code == 410
