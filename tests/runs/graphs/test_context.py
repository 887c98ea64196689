"""The context of a run, beside `configurable` and as a graph's schema wants it."""

import dataclasses
from typing import TypedDict

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from checkrail.runs.graphs.context import (
    context_names,
    drop_unknown,
    graph_context,
    mirror_settings,
)


@dataclasses.dataclass
class Plain:
    model: str = "small"
    made: str = dataclasses.field(default="", init=False)


class Model(BaseModel):
    model: str = "small"
    tone: str = Field("kind", validation_alias=AliasChoices("Tone", "mood"))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Typed(TypedDict, total=False):
    model: str


@dataclasses.dataclass
class Empty:
    pass


@pytest.mark.parametrize("schema", [Plain, Model, Open, Empty])
def test_a_class_is_made_of_nothing_where_nothing_was_said(schema):
    assert graph_context(schema, None) == graph_context(schema, {}) == {}


@pytest.mark.parametrize("schema", [None, Typed])
def test_what_is_no_class_is_left_as_it_was_said(schema):
    assert graph_context(schema, None) is graph_context(schema, {}) is None
    assert graph_context(schema, {"model": 1}) == {"model": 1}


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (Plain, {"model"}),
        (Model, {"model", "Tone", "mood", "tone"}),
        (Open, {"model", "made", "Tone", "mood", "tone", "other"}),
        (Empty, set()),
        (Typed, {"model"}),
        (None, {"model", "made", "Tone", "mood", "tone", "other"}),
    ],
)
def test_unknown_keys_are_dropped(schema, known):
    given = dict.fromkeys(("model", "made", "Tone", "mood", "tone", "other"), "x")
    assert graph_context(schema, given).keys() == known


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"model": "x", "other": "x"}, {"model": "x", "mine": 1}),
        ("text", {"model": "x", "other": "x", "mine": 1}),
        (None, {"model": "x", "other": "x", "mine": 1}),
    ],
)
def test_what_a_graph_does_not_know_of_its_context_is_not_in_its_config_either(given, left):
    configurable = {"model": "x", "other": "x", "mine": 1}
    names = context_names(None, given)
    assert drop_unknown(configurable, names, graph_context(Plain, given)) == left
    said = {"configurable": configurable}
    assert context_names(said, given) == []


@pytest.mark.parametrize(
    ("config", "context", "mirrored"),
    [
        (None, None, (None, None)),
        ({"tags": ["a"]}, None, ({"tags": ["a"]}, None)),
        ({}, {"a": 1}, ({"configurable": {"a": 1}}, {"a": 1})),
        (
            {"configurable": {"a": 1}, "tags": []},
            None,
            ({"configurable": {"a": 1}, "tags": []}, {"a": 1}),
        ),
        (
            {"configurable": {"a": 1, "b": 1}},
            {"b": 2, "c": 2},
            ({"configurable": {"a": 1, "b": 1, "c": 2}}, {"a": 1, "b": 2, "c": 2}),
        ),
    ],
)
def test_each_has_the_settings_of_the_other(config, context, mirrored):
    assert mirror_settings(config, context) == mirrored
