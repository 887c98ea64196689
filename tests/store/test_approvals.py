"""Questions and answers as rows: each is answered once, and used once."""

from dataclasses import replace

import pytest

from checkrail.store import approvals
from checkrail.store.approvals import Approval

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
        approvals.add(tx, Approval(**{**row, "created_at": at, **more}))

    return asked


def names(rows):
    return [row.approval_id for row in rows]


def test_the_first_answer_counts(tx, asked):
    asked("a")
    assert approvals.store_answer(tx, "a", 2.0, status="approved", answered_by="eve")
    assert not approvals.store_answer(tx, "a", 3.0, status="denied", answered_by="bob")
    row = approvals.get(tx, "a")
    assert (row.status, row.answered_by, row.answered_at) == ("approved", "eve", 2.0)


def test_an_answer_is_used_once_and_a_question_not_at_all(tx, asked):
    asked("a")
    asked("b")
    approvals.store_answer(tx, "a", 2.0, status="approved")
    assert approvals.use_answers(tx, ["a", "b"], 3.0) == 1
    assert approvals.use_answers(tx, ["a", "b"], 4.0) == 0
    assert approvals.use_answers(tx, [], 4.0) == 0
    assert approvals.get(tx, "a").used_at == 3.0


def test_what_was_asked_of_the_same_value_is_found_until_it_is_used(tx, asked):
    asked("a")
    asked("b", 2.0, digest="other")
    wanted = approvals.get(tx, "a")
    assert approvals.find_same(tx, wanted).approval_id == "a"
    assert approvals.find_same(tx, wanted, but={"a"}) is None
    for other in ({"hook": "pay/four_eyes"}, {"point": "on_result"}, {"run_id": "other"}):
        assert approvals.find_same(tx, replace(wanted, **other)) is None
    approvals.store_answer(tx, "a", 2.0, status="denied")
    assert approvals.find_same(tx, wanted).status == "denied"
    approvals.use_answers(tx, ["a"], 3.0)
    assert approvals.find_same(tx, wanted) is None


def test_time_that_is_over_is_noticed_and_no_answer_comes_after_it(tx, asked):
    asked("a", expires_at=10.0)
    asked("b", expires_at=5.0)
    asked("c")
    assert approvals.next_due(tx) == 5.0
    assert names(approvals.find_due(tx, 10.0)) == ["b", "a"]
    assert not approvals.mark_expired(tx, "a", 9.0)
    assert not approvals.store_answer(tx, "b", 5.0, status="approved")
    assert approvals.mark_expired(tx, "b", 5.0)
    assert not approvals.mark_expired(tx, "b", 6.0)
    assert approvals.next_due(tx) == 10.0
    assert not approvals.mark_expired(tx, "c", 99.0)


def test_what_is_not_asked_any_more_is_void(tx, asked):
    asked("old", digest="old")
    asked("used", digest="older")
    asked("new", 2.0)
    asked("other", 3.0, hook="/two_eyes", digest="old")
    for name in ("old", "used"):
        approvals.store_answer(tx, name, 2.0, status="approved")
    approvals.use_answers(tx, ["used"], 3.0)
    approvals.void_others(tx, approvals.get(tx, "new"))
    found = {row.approval_id: row.status for row in approvals.of_run(tx, "r")}
    assert found == {"old": "void", "used": "approved", "new": "open", "other": "open"}
    approvals.void_open(tx, ["r"])
    assert approvals.get(tx, "new").status == "void"
    assert approvals.find_same(tx, approvals.get(tx, "new")) is None


def test_they_are_searched_the_newest_first_and_go_with_their_run(tx, asked):
    for number, name in enumerate("abc"):
        asked(name, float(number // 2), run=name, owner="ada" if name != "b" else "bob")
    approvals.store_answer(tx, "c", 5.0, status="denied")
    assert names(approvals.search(tx)) == ["c", "b", "a"]
    assert names(approvals.search(tx, owner="ada")) == ["c", "a"]
    assert names(approvals.search(tx, status="open")) == ["b", "a"]
    assert names(approvals.search(tx, run_id="b")) == ["b"]
    assert names(approvals.search(tx, before=approvals.get(tx, "b"))) == ["a"]
    assert names(approvals.search(tx, limit=1)) == ["c"]
    approvals.remove_of_runs(tx, ["a", "b"])
    assert names(approvals.search(tx)) == ["c"]


def of_gateway(asked, name, **more):
    asked(name, run=None, thread_id=None, agent_name=None, request_id=f"req-{name}", **more)


def test_a_question_of_the_gateway_can_be_answered_while_it_is_held(tx, asked):
    of_gateway(asked, "a", held_until=10.0)
    of_gateway(asked, "b", held_until=10.0)
    approvals.hold_until(tx, "b", 20.0)
    assert not approvals.store_answer(tx, "a", 10.0, status="approved")
    assert approvals.store_answer(tx, "b", 10.0, status="approved")
    assert approvals.void_unheld(tx, 30.0) == 1
    assert [approvals.get(tx, name).status for name in "ab"] == ["void", "approved"]


def test_only_open_questions_that_somebody_holds_are_withdrawn(tx, asked):
    asked("of_run")
    of_gateway(asked, "a", held_until=10.0)
    assert approvals.void_unheld(tx, 9.0) == 0
    assert approvals.withdraw(tx, "a")
    assert not approvals.withdraw(tx, "a")
    approvals.hold_until(tx, "a", 99.0)
    assert approvals.get(tx, "a").held_until == 10.0
    assert approvals.void_unheld(tx, 1e9) == 0
    assert approvals.get(tx, "of_run").status == "open"


def test_no_filter_finds_questions_of_the_gateway_but_ones_own(tx, asked):
    of_gateway(asked, "a", owner="ada")
    of_gateway(asked, "b", owner="bob")
    asked("of_run")
    found = approvals.search(tx, filters={"team": {"$eq": "red"}}, own="ada")
    assert names(found) == ["a"]
    assert names(approvals.search(tx, filters={"team": {"$eq": "red"}})) == []
    assert names(approvals.search(tx, owner="bob")) == ["b"]


def test_old_questions_of_the_gateway_are_forgotten_once_they_are_over(tx, asked):
    of_gateway(asked, "a", status="approved")
    of_gateway(asked, "b")
    of_gateway(asked, "c", at=9.0, status="void")
    asked("of_run", status="approved")
    approvals.forget_of_gateway(tx, 5.0)
    assert names(approvals.search(tx)) == ["c", "of_run", "b"]
