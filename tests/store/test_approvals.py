"""Questions and answers as rows: each is answered once, and used once."""

import pytest

from checkrail.store import approvals

ROW = {
    "thread_id": "t",
    "session_id": None,
    "agent_name": "pay",
    "point": "on_run_start",
    "hook": "/four_eyes",
    "question": "may it?",
    "value": {"n": 1},
    "status": "open",
    "on_timeout": "block",
}


@pytest.fixture
def asked(tx):
    def asked(name, at=1.0, run="r", digest="d", owner="ada", **more):
        row = {**ROW, "approval_id": name, "run_id": run, "digest": digest, "owner": owner}
        approvals.add(tx, {**row, "created_at": at, "expires_at": None, **more})

    return asked


def names(rows):
    return [row["approval_id"] for row in rows]


def test_the_first_answer_counts(tx, asked):
    asked("a")
    assert approvals.answer(tx, "a", 2.0, status="approved", answered_by="eve")
    assert not approvals.answer(tx, "a", 3.0, status="denied", answered_by="bob")
    row = approvals.get(tx, "a")
    assert (row["status"], row["answered_by"], row["answered_at"]) == ("approved", "eve", 2.0)


def test_an_answer_is_used_once_and_a_question_not_at_all(tx, asked):
    asked("a")
    asked("b")
    approvals.answer(tx, "a", 2.0, status="approved")
    assert approvals.use(tx, ["a", "b"], 3.0) == 1
    assert approvals.use(tx, ["a", "b"], 4.0) == 0
    assert approvals.use(tx, [], 4.0) == 0
    assert approvals.get(tx, "a")["used_at"] == 3.0


def test_what_was_asked_of_the_same_value_is_found_until_it_is_used(tx, asked):
    asked("a")
    asked("b", 2.0, digest="other")
    wanted = approvals.get(tx, "a")
    assert approvals.find(tx, wanted)["approval_id"] == "a"
    assert approvals.find(tx, wanted, but={"a"}) is None
    for other in ({"hook": "pay/four_eyes"}, {"point": "on_result"}, {"run_id": "other"}):
        assert approvals.find(tx, {**wanted, **other}) is None
    approvals.answer(tx, "a", 2.0, status="denied")
    assert approvals.find(tx, wanted)["status"] == "denied"
    approvals.use(tx, ["a"], 3.0)
    assert approvals.find(tx, wanted) is None


def test_time_that_is_over_is_noticed_and_no_answer_comes_after_it(tx, asked):
    asked("a", expires_at=10.0)
    asked("b", expires_at=5.0)
    asked("c")
    assert approvals.next_due(tx) == 5.0
    assert names(approvals.due(tx, 10.0)) == ["b", "a"]
    assert not approvals.expire(tx, "a", 9.0)
    assert not approvals.answer(tx, "b", 5.0, status="approved")
    assert approvals.expire(tx, "b", 5.0)
    assert not approvals.expire(tx, "b", 6.0)
    assert approvals.next_due(tx) == 10.0
    assert not approvals.expire(tx, "c", 99.0)


def test_what_is_not_asked_any_more_is_void(tx, asked):
    asked("old", digest="old")
    asked("used", digest="older")
    asked("new", 2.0)
    asked("other", 3.0, hook="/two_eyes", digest="old")
    for name in ("old", "used"):
        approvals.answer(tx, name, 2.0, status="approved")
    approvals.use(tx, ["used"], 3.0)
    approvals.void_others(tx, approvals.get(tx, "new"))
    found = {row["approval_id"]: row["status"] for row in approvals.of_run(tx, "r")}
    assert found == {"old": "void", "used": "approved", "new": "open", "other": "open"}
    approvals.void_open(tx, "r")
    assert approvals.get(tx, "new")["status"] == "void"
    assert approvals.find(tx, approvals.get(tx, "new")) is None


def test_they_are_searched_the_newest_first_and_go_with_their_run(tx, asked):
    for number, name in enumerate("abc"):
        asked(name, float(number // 2), run=name, owner="ada" if name != "b" else "bob")
    approvals.answer(tx, "c", 5.0, status="denied")
    assert names(approvals.search(tx)) == ["c", "b", "a"]
    assert names(approvals.search(tx, owner="ada")) == ["c", "a"]
    assert names(approvals.search(tx, status="open")) == ["b", "a"]
    assert names(approvals.search(tx, run_id="b")) == ["b"]
    assert names(approvals.search(tx, before=approvals.get(tx, "b"))) == ["a"]
    assert names(approvals.search(tx, limit=1)) == ["c"]
    approvals.forget(tx, ["a", "b"])
    assert names(approvals.search(tx)) == ["c"]
