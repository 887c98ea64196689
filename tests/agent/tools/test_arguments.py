"""What a model is told about arguments that do not fit."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from checkrail.agent.tools import ToolError, tool


class Guest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    age: int = 0


@dataclass
class Room:
    beds: int


def even(number):
    if number % 2:
        raise ValueError("an even number")
    return number


@tool
def book(
    city: str,
    guests: list[Guest],
    *,
    nights: Annotated[int, Field(ge=1)] = 1,
    size: Literal["s", "m"] = "s",
    room: Room | None = None,
    codes: int | list[int] = 0,
    pairs: Annotated[int, AfterValidator(even)] = 0,
):
    return city


RIGHT = {"city": "Paris", "guests": [{"name": "ann"}]}


async def problems(context, **changes):
    with pytest.raises(ToolError) as caught:
        await book.call(RIGHT | changes, context)
    first, *lines = str(caught.value).splitlines()
    assert first == "the arguments of 'book' do not fit:"
    return lines


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"city": 3}, ["- city: found 3, expected a valid string"]),
        ({"nights": "two"}, ["- nights: found 'two', expected a valid integer"]),
        ({"nights": 0}, ["- nights: found 0, expected greater than or equal to 1"]),
        ({"size": "xl"}, ["- size: found 'xl', expected 's' or 'm'"]),
        ({"pairs": 3}, ["- pairs: found 3, expected an even number"]),
        ({"guests": "ann"}, ["- guests: found 'ann', expected a valid list"]),
        (
            {"guests": [{"name": "a"}, {"age": "x"}]},
            [
                "- guests[1].name: missing, expected a value: it has no default",
                "- guests[1].age: found 'x', expected a valid integer",
            ],
        ),
        ({"guests": [{"name": "a", "sex": "f"}]}, ["- guests[0].sex: unexpected"]),
        ({"room": {"beds": 1, "beads": 2}}, ["- room.beads: unexpected"]),
        (
            {"codes": "x"},
            ["- codes: found 'x', expected a valid integer or a valid list"],
        ),
        (
            {"codes": [1, "x"]},
            [
                "- codes: found [1, 'x'], expected a valid integer",
                "- codes[1]: found 'x', expected a valid integer",
            ],
        ),
    ],
)
async def test_each_problem_is_told_with_its_place_and_what_was_expected(context, changes, lines):
    assert await problems(context, **changes) == lines


async def test_all_problems_are_told_at_once(context):
    found = await problems(context, city=None, nights=0, size="", nigths=2)
    assert [line.split(":")[0] for line in found] == ["- city", "- nights", "- size", "- nigths"]


async def test_an_argument_that_nobody_expects_is_refused_and_the_known_ones_are_named(context):
    known = "city, guests, nights, size, room, codes, pairs"
    assert await problems(context, nigths=2) == [
        f"- nigths: unexpected (did you mean 'nights'?), expected only: {known}",
    ]


async def test_a_tool_that_takes_nothing_says_so(context):
    ping = tool(lambda: "pong", name="ping")
    assert await ping.call({}, context) == "pong"
    with pytest.raises(ToolError, match="- x: unexpected, expected only: nothing"):
        await ping.call({"x": 1}, context)


async def test_a_missing_argument_is_told(context):
    with pytest.raises(ToolError) as caught:
        await book.call({"city": "Paris"}, context)
    assert "- guests: missing, expected a value: it has no default" in str(caught.value)


async def test_what_was_found_is_shown_in_few_words(context):
    (line,) = await problems(context, nights="x" * 5000)
    assert len(line) < 150
