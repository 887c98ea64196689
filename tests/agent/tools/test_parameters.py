"""What a model is told about a function's parameters, and what it has to give for them."""

import asyncio
import contextlib
import datetime as dt
import enum
import json
from asyncio import Lock
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from checkrail.agent.tools import ToolError, ToolRefusedError, tool
from checkrail.engine.frozen import freeze


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    house: int = Field(default=1, description="the number", ge=1)


@dataclass
class Point:
    x: int
    y: float = 0.0


POINT = Point


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Range(TypedDict):
    low: int
    high: int


def properties(fn):
    return tool(fn).parameters["properties"]


def test_a_schema_says_types_defaults_and_what_is_required():
    def book(city: str, nights: int = 1, *, price: float, late: bool = False):
        pass

    assert tool(book).parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer", "default": 1},
            "price": {"type": "number"},
            "late": {"type": "boolean", "default": False},
        },
        "required": ["city", "price"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_schema():
    assert tool(lambda: 1, name="one").parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_literals_optionals_unions_lists_and_enums_are_told():
    def pick(
        size: Literal["s", "m"],
        note: Optional[str] = None,  # noqa: UP045 - as many still write it
        ids: list[int] | int = 0,
        colour: Colour = Colour.RED,
    ):
        pass

    found = properties(pick)
    assert found["size"] == {"type": "string", "enum": ["s", "m"]}
    assert found["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert found["ids"]["anyOf"][0] == {"type": "array", "items": {"type": "integer"}}
    assert found["colour"]["default"] == "red"


def test_nested_models_and_dataclasses_are_defined_without_titles():
    def send(to: Address, at: Point):
        pass

    schema = tool(send).parameters
    assert schema["properties"]["to"] == {"$ref": "#/$defs/Address"}
    assert schema["$defs"]["Address"] == {
        "type": "object",
        "description": "Where somebody lives.",
        "properties": {
            "street": {"type": "string"},
            "house": {"type": "integer", "default": 1, "description": "the number", "minimum": 1},
        },
        "required": ["street"],
    }
    assert "title" not in json.dumps(schema)


def test_types_of_the_same_name_are_told_apart():
    class Point(BaseModel):  # there is another one
        across: int

    def lookup(one: Point, other: POINT):
        pass

    schema = tool(lookup).parameters
    one, other = (schema["properties"][name]["$ref"] for name in ("one", "other"))
    assert one != other
    assert len(schema["$defs"]) == 2


def test_a_parameter_that_is_called_title_stays():
    def write(title: str, schema: str, json: str, model_config: str, _hidden: str = ""):
        pass

    names = ["title", "schema", "json", "model_config", "_hidden"]
    assert list(properties(write)) == names


async def test_no_name_of_a_parameter_is_in_anybodys_way(context):
    @tool
    def write(title: str, copy: int, self_: str, argument_0: str, _hidden: str = "h"):
        return title, copy, self_, argument_0, _hidden

    given = {"title": "t", "copy": 1, "self_": "s", "argument_0": "a"}
    assert await write.call(given, context) == ("t", 1, "s", "a", "h")
    assert await write.call({**given, "_hidden": "x"}, context) == ("t", 1, "s", "a", "x")


def test_unannotated_parameters_may_be_anything():
    def show(thing, other: Any, more=3):
        pass

    found = tool(show).parameters
    assert found["properties"] == {"thing": {}, "other": {}, "more": {"default": 3}}
    assert found["required"] == ["thing", "other"]


def test_descriptions_come_from_fields_from_words_and_from_the_docstring():
    def book(
        city: Annotated[str, Field(description="from a field")],
        nights: Annotated[int, "from a word", Field(ge=1)],
        price: float,
        *,
        guests: int = Field(default=2, description="from a default"),
        pets: int = Field(default=0, le=3),
        late: bool = False,
    ):
        """Book a room.

        Args:
            city: not this
            nights: nor this
            price (float): from the
                docstring
            guests: nor this
            pets: also from the docstring
        """

    found = properties(book)
    assert [found[name].get("description") for name in found] == [
        "from a field",
        "from a word",
        "from the docstring",
        "from a default",
        "also from the docstring",
        None,
    ]
    assert found["nights"]["minimum"] == 1
    assert (found["pets"]["maximum"], found["pets"]["default"]) == (3, 0)


async def test_a_field_as_a_default_gives_the_default(context):
    @tool
    def book(
        guests: int = Field(default=2),
        pets: list[str] = Field(default_factory=list),  # noqa: B008 - as people write it
    ):
        return guests, pets

    assert await book.call({}, context) == (2, [])
    assert await book.call({"guests": 3}, context) == (3, [])
    assert "required" not in book.parameters


async def test_a_field_without_a_default_is_required(context):
    @tool
    def book(guests: int = Field(description="how many")):
        return guests

    assert book.parameters["required"] == ["guests"]
    with pytest.raises(ToolError, match="guests: missing"):
        await book.call({}, context)


async def test_a_field_in_an_annotation_neither_renames_nor_gives_a_default(context):
    @tool
    def book(
        guests: Annotated[int, Field(default=2, alias="people", validation_alias="folks", ge=1)],
    ):
        return guests

    assert book.parameters["properties"]["guests"]["minimum"] == 1
    assert book.parameters["required"] == ["guests"]
    assert await book.call({"guests": 1}, context) == 1


async def test_what_is_passed_has_the_type_that_was_annotated(context):
    @tool
    def keep(to: Address, at: Point, when: dt.date, *, of: Colour, to_from: Range, ids: set[int]):
        return to, at, when, of, to_from, ids

    given = {
        "to": {"street": "Rue X"},
        "at": {"x": 1},
        "when": "2026-02-03",
        "of": "blue",
        "to_from": {"low": 1, "high": 2},
        "ids": [1, 1],
    }
    assert await keep.call(freeze(given), context) == (
        Address(street="Rue X"),
        Point(1),
        dt.date(2026, 2, 3),
        Colour.BLUE,
        {"low": 1, "high": 2},
        {1},
    )


async def test_what_is_passed_can_be_changed_though_the_call_cannot(context):
    @tool
    def grow(things: list[dict[str, Any]], more: Any) -> Any:
        things[0]["new"] = 1
        more["deep"].append(2)
        return things, more

    args = freeze({"things": [{"a": 0}], "more": {"deep": [1]}})
    assert await grow.call(args, context) == ([{"a": 0, "new": 1}], {"deep": [1, 2]})
    assert args == {"things": [{"a": 0}], "more": {"deep": [1]}}


async def test_the_functions_own_default_is_used_as_it_is(context):
    nothing = object()

    @tool
    def same(thing: Any = nothing, number: int = None):  # noqa: RUF013 - as people write it
        return thing is nothing, number

    assert same.parameters["properties"]["thing"] == {}
    assert await same.call({}, context) == (True, None)


def test_the_schema_cannot_be_changed_by_those_who_are_given_it():
    def lookup(city: str):
        pass

    found = tool(lookup).parameters
    assert freeze(found) is found


def in_text(city: "str", place: "Address", hidden: "int | None" = None):
    return city, place, hidden


async def test_annotations_in_text_are_read(context):
    found = await tool(in_text).call({"city": "Rome", "place": {"street": "Via Y"}}, context)
    assert found == ("Rome", Address(street="Via Y"), None)


def test_the_annotation_of_what_is_returned_does_not_matter():
    def lookup(city: str) -> "Unknown":  # noqa: F821 - the point of it
        pass

    assert list(properties(lookup)) == ["city"]


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("Unknown", "the annotation of its parameter 'bad' cannot be read"),
        ("list[", "the annotation of its parameter 'bad' cannot be read"),
        (Lock, "Lock, cannot be checked"),
        (callable, "the type of its parameter 'bad'"),
        (Annotated[int, Field(pattern="(")], "the type of its parameter 'bad'"),
        ("list[Lock]", "Lock], cannot be checked"),
    ],
)
def test_an_annotation_that_is_of_no_use_is_refused_by_the_name_of_its_parameter(
    annotation, problem
):
    def lookup(good: int, bad, other: str = ""):
        pass

    lookup.__annotations__["bad"] = annotation
    with pytest.raises(ToolRefusedError) as caught:
        tool(lookup)
    assert caught.value.tool == "lookup"
    assert problem in caught.value.problem
    assert "of its parameter 'bad'" in caught.value.problem
    assert caught.value.remedy


def locked(lock: Lock):
    return lock


def test_the_only_parameter_can_be_the_one_that_is_refused():
    with pytest.raises(ToolRefusedError, match="the type of its parameter 'lock'"):
        tool(locked)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@tool
async def lookup(city: str, at: Point, n: int = 0, pick: list[int] | None = None) -> None:
    assert isinstance(city, str)
    assert isinstance(at, Point)
    assert isinstance(n, int)
    assert pick is None or all(isinstance(one, int) for one in pick)


@given(st.dictionaries(st.sampled_from(["city", "n", "at", "pick"]) | st.text(), JSON, max_size=5))
def test_whatever_a_model_sends_is_either_passed_as_annotated_or_refused_with_words(args):
    with contextlib.suppress(ToolError):
        asyncio.run(lookup.call(freeze(args), None))
