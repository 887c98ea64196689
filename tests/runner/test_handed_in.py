"""What a runner hands in of a run that it leaves: of the right shape, for that run, and no more."""

import pytest

from checkrail.agent.snapshot import LoopSnapshot
from checkrail.runs.remote.snapshots import SnapshotError, sign_snapshot, verify_snapshot

from .speaker import Speaker

FILE = "hooked.yaml"
CALL = {"id": "c1", "name": "look", "args": {"place": "attic"}}
MEMO = {**LoopSnapshot(messages=[{"role": "user", "content": "hi"}]).to_json(), "stage": "tools"}
GRAPH = {"calls": [], "seen": [], "injected": {}, "retries": {}}


@pytest.fixture
def speaker(place):
    made = Speaker(place, agents=["asks", "where", "paying"], kinds=["autonomous", "procedural"])
    yield made
    made.leave()


def ask(speaker, run):
    """Reach a point whose hook asks somebody."""
    answer = speaker.say(run, "points", point="before_tool_call", value=CALL, leaves=True)
    assert answer.json()["action"] == "ask", answer.text
    return answer.json()["approval"]["approval_id"]


def test_a_run_is_left_once_and_what_was_handed_in_comes_back(place, speaker):
    run_id = place.asking.run("asks", {"prompt": "hi"})
    run = speaker.claim()
    approval = ask(speaker, run)
    for _ in range(2):
        assert speaker.say(run, "left", memo=MEMO).status_code == 204
    for what, said in {
        "left": {"memo": {**MEMO, "stage": "final"}},
        "completed": {"output": 1},
        "failed": {"error": "x"},
        "stopped": {},
    }.items():
        assert speaker.say(run, what, **said).status_code == 409, what
    place.asking.answered(place.asking.client.post(f"/approvals/{approval}/approve", json={}))
    [claim] = speaker.poll().json()["runs"]
    assert (claim["run"]["run_id"], claim["run"]["attempt"]) == (run_id, 2)
    assert claim["left"]["memo"] == MEMO
    verify_snapshot(run_id, claim["left"])
    assert speaker.say(run, "left", memo=MEMO).status_code == 204  # the answer was lost
    assert place.asking.get(run_id)["phase"] == "running"
    speaker.say(claim["run"], "completed", output=1)


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"messages": "hi"}, "memo.messages"),
        ({"messages": ["hi"]}, "memo.messages.0"),
        ({"stage": "anything"}, "memo.stage"),
        ({"answer": [1]}, "memo.answer"),
        ({"answer": {"content": "x", "tool_calls": [{"os": "system"}]}}, "unexpected keyword"),
        ({"handled": [{"call": {"args": "x"}}]}, "memo.handled.0"),
        ({"retries": {"a": "b"}}, "memo.retries.a"),
        (GRAPH, None),
    ],
)
def test_a_memo_of_another_shape_is_refused(place, speaker, changed, where):
    run_id = place.asking.run("asks", {"prompt": "hi"})
    run = speaker.claim()
    ask(speaker, run)
    memo = {**MEMO, **changed} if where else changed
    answer = speaker.say(run, "left", memo=memo)
    assert answer.status_code == 422
    assert (where or "this is no memo of kind autonomous") in answer.json()["message"]
    assert place.asking.get(run_id)["phase"] == "running"
    speaker.say(run, "completed", output=1)


def test_a_run_that_nobody_was_asked_about_cannot_be_left(place, speaker):
    place.asking.run("asks", {"prompt": "hi"})
    run = speaker.claim()
    answer = speaker.say(run, "left", memo=MEMO)
    assert (answer.status_code, "nobody was asked" in answer.json()["message"]) == (422, True)
    answer = speaker.say(run, "left", memo=MEMO, held=[["approval", [], {}]])
    assert "cannot tell 'approval' events" in answer.json()["message"]
    speaker.say(run, "completed", output=1)
    place.asking.run("where")
    run = speaker.claim()
    answer = speaker.say(run, "left", memo=MEMO)
    assert "a procedural run cannot be left" in answer.json()["message"]
    speaker.say(run, "completed", output=1)


def test_a_runner_gives_a_run_no_more_time_than_it_had(place, speaker):
    for said in (None, 1e9, -5):
        place.asking.run("asks", {"prompt": "hi"})
        run = speaker.claim()
        approval = ask(speaker, run)
        assert speaker.say(run, "left", memo=MEMO, seconds_left=said).status_code == 204
        place.asking.answered(place.asking.client.post(f"/approvals/{approval}/approve", json={}))
        [claim] = speaker.poll().json()["runs"]
        assert claim["left"]["seconds_left"] == (0 if said == -5 else 600)
        speaker.say(claim["run"], "completed", output=1)


def test_a_memo_is_bound_to_its_run_and_attempt():
    kept = sign_snapshot("a", 1, {"memo": MEMO, "usage": {}})
    verify_snapshot("a", kept)
    verify_snapshot("a", {"memo": MEMO})  # left by a server
    changed = [
        ("b", kept),
        ("a", {**kept, "memo": {**MEMO, "stage": "final"}}),
        ("a", {**kept, "handed_in": {**kept["handed_in"], "attempt": 2}}),
    ]
    for run_id, each in changed:
        with pytest.raises(SnapshotError, match="Start it anew"):
            verify_snapshot(run_id, each)


def test_a_run_tells_no_more_bytes_than_it_may(place, speaker):
    place.asking.run("where")
    run = speaker.claim()
    told = ["x" * 1_000_000, "y" * 1_000_000, "z" * 1_000_000]
    answers = [
        speaker.say(run, "events", events=[[number, "custom", [], data]])
        for number, data in enumerate(told, 1)
    ]
    assert [answer.status_code for answer in answers] == [204, 204, 422]
    assert "more than 3000000 bytes" in answers[-1].json()["message"]
    assert speaker.say(run, "failed", error="too much").status_code == 204


@pytest.mark.parametrize("depth", [200, 900])
def test_what_is_nested_too_deep_is_refused(place, speaker, depth):
    place.asking.run("asks", {"prompt": "hi"})
    run = speaker.claim()
    deep = 1
    for _ in range(depth):
        deep = [deep]
    for what, said in {
        "events": {"events": [[1, "custom", [], deep]]},
        "points": {"point": "before_tool_call", "value": {**CALL, "args": {"place": deep}}},
        "left": {"memo": {**MEMO, "later": deep}},
        "completed": {"output": deep},
        "failed": {"error": "x", "usage": {"m": {"n": deep}}},
    }.items():
        answer = speaker.say(run, what, **said)
        assert (answer.status_code, "nested deeper" in answer.text) == (422, True), what
    speaker.say(run, "completed", output=1)


def test_only_hooks_of_agents_that_are_at_work_in_a_run_are_called(place, speaker):
    place.asking.run("asks", {"prompt": "hi"})
    run = speaker.claim()
    reached = {"point": "before_tool_call", "value": CALL, "leaves": True}
    answer = speaker.say(run, "points", levels=["asks", "watched"], **reached)
    assert answer.status_code == 422
    assert "the agent 'watched' is not at work" in answer.json()["message"]
    assert speaker.say(run, "points", levels=["asks", "unknown"], **reached).status_code == 200
    speaker.say(run, "completed", output=1)
