import pytest

from .answers import fill_values, find_value, normalise_value, sort_lists
from .differences import Difference, Listed, find_differences, render_list

UUID = "0190a1b2-0000-7000-8000-000000000001"


def answer(body=None, status=200, **more):
    return {"status": status, "headers": {}, "body": body, **more}


def places(ours, theirs):
    return [(one.path, one.ours, one.theirs) for one in find_differences("q", [ours], [theirs])]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("0.body.a", 1, 2)]),
        ({"a": 1}, {}, [("0.body.a", 1, "<missing>")]),
        ({}, {"a": None}, [("0.body.a", "<missing>", None)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("0.body.a.1", 2, 3)]),
        ({"a": [1]}, {"a": [1, 3]}, [("0.body.a", [1], [1, 3])]),
        ({"a": 1}, {"a": True}, [("0.body.a", 1, True)]),
    ],
)
def test_names_the_place_that_differs(ours, theirs, expected):
    assert places(answer(ours), answer(theirs)) == expected


def test_an_answer_of_another_status_is_one_difference():
    found = places(answer({"a": 1}), answer({"detail": "no"}, status=404))
    assert found == [("0.status", "200 {'a': 1}", "404 {'detail': 'no'}")]


def test_events_that_only_one_has_do_not_hide_the_others():
    ours = answer(events=[["values", {"a": 1}], ["values", {"a": 2}], ["end", None]])
    theirs = answer(events=[["values", {"a": 1}], ["values", {"a": 3}]])
    assert places(ours, theirs) == [
        ("0.events.names", ["values", "values", "end"], ["values", "values"]),
        ("0.events.values.a", 2, 3),
    ]


def test_a_question_with_other_steps_has_to_be_recorded_again():
    with pytest.raises(AssertionError, match="record the answers again"):
        find_differences("q", [answer()], [])


def test_the_list_goes_by_question_and_place():
    listed = Listed("It differs.", "So be it.", (("runs: *", "*.phase"),))
    assert listed.covers(Difference("runs: made", "0.body.phase", 1, 2))
    assert not listed.covers(Difference("threads: made", "0.body.phase", 1, 2))
    assert not listed.covers(Difference("runs: made", "0.body.status", 1, 2))
    assert render_list([listed]) == "- It differs. So be it."


def test_a_field_that_is_ours_alone_may_not_replace_one_of_theirs():
    listed = Listed("There is more.", "", (("*", "*.error"),), added=True)
    assert listed.covers(Difference("q", "0.body.error", "text", "<missing>"))
    assert not listed.covers(Difference("q", "0.body.error", "text", {"message": "text"}))


def test_what_is_chance_is_not_compared():
    value = {
        "id": UUID,
        "ns": f"child:{UUID}",
        "at": "2026-01-02T03:04:05.678901+00:00",
        "until": "2026-01-02T03:04:05Z",
        "seq": 7,
        "langgraph_request_id": UUID,
        "step": 1,
    }
    assert normalise_value(value, {UUID: "<run>"}) == {
        "id": "<run>",
        "ns": "child:<run>",
        "at": "<time>",
        "until": "<time Z>",
        "seq": "<seq>",
        "step": 1,
    }


def test_later_steps_use_what_earlier_answers_had():
    kept = {"run": UUID, "number": 3}
    assert fill_values({"a": "{number}", "b": ["x/{run}"]}, kept) == {"a": 3, "b": [f"x/{UUID}"]}
    assert find_value(answer([{"id": 5}]), "body.0.id") == 5
    assert find_value(answer(None), "body.0.id") == "no body.0.id"


def test_lists_without_an_order_are_sorted():
    assert sort_lists({"items": [2, 1]}) == {"items": [1, 2]}
