"""Notes on requests are found again at their answers, and never at those of another."""

from checkrail.builtin.open_calls import OpenCalls
from checkrail.testing import event


def at(point="before_llm_call", **ids):
    return event(point, **ids)


def test_a_note_is_found_at_the_answer_once():
    calls = OpenCalls()
    calls.note_request(at(request_id="1"), "a")
    calls.note_request(at(request_id="2"), "b")
    assert calls.pop_notes(at("after_llm_call", request_id="2")) == ["b"]
    assert calls.pop_notes(at("after_llm_call", request_id="2")) == []
    assert calls.pop_notes(at("after_llm_call", request_id="1")) == ["a"]
    assert len(calls) == 0


def test_without_ids_nothing_can_be_found():
    calls = OpenCalls()
    calls.note_request(at(), "a")
    assert calls.pop_notes(at("after_llm_call")) == []


def test_the_iterations_of_a_run_are_told_apart():
    calls = OpenCalls()
    calls.note_request(at(run_id="r", iteration=1), "a")
    calls.note_request(at(run_id="r", iteration=2), "b")
    assert calls.pop_notes(at("after_llm_call", run_id="r", iteration=1)) == ["a"]


def test_calls_under_the_same_ids_at_the_same_time_are_not_told_apart_until_all_are_answered():
    calls, ids = OpenCalls(), {"run_id": "r"}
    calls.note_request(at(**ids), "a")
    calls.note_request(at(**ids), "b")
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["a", "b"]
    calls.note_request(at(**ids), "c")
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["a", "b", "c"]
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["a", "b", "c"]
    assert len(calls) == 0
    calls.note_request(at(**ids), "d")
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["d"]


def test_the_same_note_twice_is_one_note_for_two_answers():
    calls, ids = OpenCalls(), {"run_id": "r"}
    calls.note_request(at(**ids), "a")
    calls.note_request(at(**ids), "a")
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["a"]
    assert calls.pop_notes(at("after_llm_call", **ids)) == ["a"]
    assert calls.pop_notes(at("after_llm_call", **ids)) == []


def test_those_that_were_asked_the_longest_ago_are_forgotten():
    calls = OpenCalls(most=2)
    for number in ("1", "2", "3"):
        calls.note_request(at(request_id=number), number)
    assert len(calls) == 2
    assert calls.pop_notes(at("after_llm_call", request_id="1")) == []
    assert calls.pop_notes(at("after_llm_call", request_id="3")) == ["3"]


def test_nobody_can_take_part_in_the_calls_of_another_by_their_ids():
    calls = OpenCalls()
    calls.note_request(at(request_id="1", user="ann"), "ann's")
    calls.note_request(at(request_id="1", user="eve"), "eve's")
    calls.note_request(
        at(request_id="1", user="eve", metadata={"api_key": "k"}), "eve's with a key"
    )
    assert calls.pop_notes(at("after_llm_call", request_id="1", user="ann")) == ["ann's"]
    assert calls.pop_notes(at("after_llm_call", request_id="1", user="eve")) == ["eve's"]
