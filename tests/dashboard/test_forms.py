"""Hooks and parameters as forms: what is read is what was there."""

import pytest
from starlette.datastructures import QueryParams

from checkrail.dashboard import hook_form, schema_form
from checkrail.dashboard.api import ApiError
from checkrail.dashboard.filters import Filters

HOOKS = {
    "on_run_start": [
        {"name": "limit", "when": "parameters.amount > 5", "block": "Too much", "status": 402},
        {
            "type": "agent",
            "name": "judge",
            "agent_name": "judge",
            "on_error": "block",
            "timeout": 30,
        },
        {"name": "odd", "set": {"parameters.x": 1}, "config": {"deep": [1, {"a": None}]}},
    ],
    "before_tool_call": [
        {
            "type": "approval",
            "name": "eyes",
            "tools": ["a", "b"],
            "question": "May I?",
            "mode": "shadow",
        },
        {"$ref": "pii", "on_error": {"timeout": "block"}},
        {"builtin": "redact", "patterns": ["x"]},
    ],
}


def sent(cards):
    """Return the form that a browser sends for cards."""
    told = {}
    for number, card in enumerate(cards):
        prefix = f"h{number}."
        told |= {f"{prefix}{key}": text for key, text in card.texts.items()}
        told |= {f"{prefix}point": card.point, f"{prefix}type": card.type}
        told |= {f"{prefix}rule": card.rule, f"{prefix}rest": card.rest}
    return told


def test_hooks_survive_the_form():
    cards = hook_form.read_hooks({"hooks": HOOKS})
    assert [card.type for card in cards] == [
        "rule",
        "agent",
        "other",
        "approval",
        "$ref",
        "builtin",
    ]
    assert hook_form.write_hooks(hook_form.read_form(sent(cards))) == HOOKS


def test_one_hook_without_a_list_is_a_hook():
    cards = hook_form.read_hooks({"hooks": {"on_run_start": {"block": "No"}}})
    assert hook_form.write_hooks(cards) == {"on_run_start": [{"block": "No"}]}


def test_steps_keep_each_point_to_itself():
    cards = hook_form.read_hooks({"hooks": HOOKS})
    moved = hook_form.apply_step(cards, "up:1")
    assert [card.get("name") for card in moved[:3]] == ["judge", "limit", "odd"]
    assert hook_form.apply_step(cards, "up:0") == cards
    assert hook_form.apply_step(cards, "down:2") == cards
    assert len(hook_form.apply_step(cards, "remove:3")) == 5
    assert hook_form.apply_step(cards, "remove:99") == cards
    assert hook_form.apply_step(cards, "add:nowhere") == cards
    assert hook_form.apply_step(cards, "add:on_result")[-1].point == "on_result"


def test_json_that_cannot_be_read_is_said():
    with pytest.raises(ApiError, match="no JSON"):
        hook_form.write_hooks([hook_form.HookCard("on_run_start", rest="{")])


def test_rules_are_offered_only_where_something_can_be_refused():
    assert "rule" in hook_form.offered_types("on_run_start")
    assert "rule" not in hook_form.offered_types("after_run")


SCHEMA = {
    "properties": {
        "amount": {"type": "integer"},
        "note": {"type": "string"},
        "urgent": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}},
        "more": {"type": "object"},
    },
    "required": ["amount"],
}


def test_parameters_are_read_by_their_schema():
    form = {"p.amount": "5", "p.urgent": "true", "p.tags": "a\n b \n", "p.who.name": "Ann"}
    form["p.more"] = '{"x": [1]}'
    assert schema_form.read_values(SCHEMA, form) == {
        "amount": 5,
        "urgent": True,
        "tags": ["a", "b"],
        "who": {"name": "Ann"},
        "more": {"x": [1]},
    }


def test_what_is_no_number_is_left_to_the_server():
    assert schema_form.read_values(SCHEMA, {"p.amount": "five"})["amount"] == "five"


def test_without_a_schema_it_is_json():
    assert schema_form.read_values(None, {"json": '{"a": 1}'}) == {"a": 1}


def test_filters_read_what_they_write():
    query = QueryParams(
        "status=blocked&hooks=blocked&hooks=nonsense&agent=a&from=2026-01-02T03:04&q="
    )
    filters = Filters.from_query(query)
    assert filters.to_params() == {
        "phase": ["blocked", "refused"],
        "hooks": ["blocked"],
        "agent_name": "a",
        "from": "2026-01-02T03:04:00+00:00",
    }
    assert filters.is_live
    assert not Filters.from_query(QueryParams("q=x")).is_live
    assert not Filters.from_query(QueryParams("status=nonsense")).is_active
