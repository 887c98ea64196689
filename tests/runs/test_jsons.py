"""Whatever a graph hands over becomes JSON, and ordinary values become ordinary JSON."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import uuid
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Interrupt
from pydantic import BaseModel, SecretStr

from checkrail.runs.jsons import Fragment, dumps, jsonable, loads


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


@dataclasses.dataclass
class Point:
    x: int
    inner: object = None


class Model(BaseModel):
    at: dt.datetime
    key: SecretStr


class Unwritable:
    def __str__(self):
        raise ValueError

    __repr__ = __str__


class Unreadable(BaseModel):
    def model_dump(self, **options):
        raise ValueError


class Pair(NamedTuple):
    left: int
    right: list


ID = uuid.UUID(int=1)
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
CIRCLE: list = []
CIRCLE.append({"again": CIRCLE})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (NOON, "2026-01-02T12:00:00+00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.timedelta(minutes=1), 60.0),
        (ID, str(ID)),
        (Color.RED, "red"),
        (Color.PAIR, [1, 2]),
        ({1, 2}, [1, 2]),
        (frozenset({1}), [1]),
        (collections.deque([1, 2]), [1, 2]),
        (range(2), [0, 1]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        (b"ab", "YWI="),
        (memoryview(b"ab"), "YWI="),
        (ValueError("no"), {"error": "ValueError", "message": "no"}),
        (float("nan"), None),
        (float("inf"), None),
        (2**70, str(2**70)),
        (-(2**70), str(-(2**70))),
        (decimal.Decimal("1.5"), 1.5),
        (decimal.Decimal(3), 3),
        (decimal.Decimal("NaN"), "NaN"),
        (Point(1, Point(2, {3})), {"x": 1, "inner": {"x": 2, "inner": [3]}}),
        (Pair(1, [2]), {"left": 1, "right": [2]}),
        (Model(at=NOON, key="k"), {"at": "2026-01-02T12:00:00+00:00", "key": "**********"}),
        (Interrupt("sure?", id="i"), {"value": "sure?", "id": "i", "response_schema": None}),
        (int, "<class 'int'>"),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({(1, 2): 3, Color.RED: 4, NOON: 5}, {"(1, 2)": 3, "red": 4, NOON.isoformat(): 5}),
        ("\ud800", "?"),
        ({"half": "a\ud800", "\ud800": 1}, {"half": "a?", "?": 1}),
        (CIRCLE, [{"again": "<builtins.list>"}]),
        (Unwritable(), f"<{Unwritable.__module__}.Unwritable>"),
        ({Unwritable(): 1}, {f"<{Unwritable.__module__}.Unwritable>": 1}),
        ([Unreadable()], [f"<{Unreadable.__module__}.Unreadable>"]),
    ],
)
def test_odd_values_are_told_in_words_that_json_has(value, told):
    assert loads(dumps(value)) == told
    assert jsonable(value) == told


def test_a_message_is_told_as_langchain_dumps_it():
    message = AIMessage("hi", id="1", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}])
    assert jsonable([message]) == [message.model_dump()]
    assert jsonable({"messages": [HumanMessage("x")]})["messages"][0]["type"] == "human"


def test_an_oddity_deep_inside_leaves_the_rest_as_it_is():
    value = {"m": HumanMessage("x", id="1"), "p": Point(1, (2**70,)), "t": NOON, "i": [ID]}
    told = jsonable(value)
    assert told["p"] == {"x": 1, "inner": [str(2**70)]}
    assert told["m"] == HumanMessage("x", id="1").model_dump()
    assert told["t"] == NOON.isoformat()
    assert told["i"] == [str(ID)]


def test_what_runs_once_is_not_used_up():
    numbers = iter([1, 2])
    dumps({"numbers": numbers})
    assert list(numbers) == [1, 2]


def test_nesting_without_end_is_cut_off():
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    assert dumps(deep).startswith(b"[[[[")


def test_a_json_value_is_not_shared_with_what_it_came_from():
    value = {"said": ["a"]}
    told = jsonable(value)
    value["said"].append("b")
    assert told == {"said": ["a"]}


def test_json_that_is_written_already_is_taken_as_it_is():
    written = Fragment(b'{"a": 1}')
    assert jsonable(written) == {"a": 1}
    assert jsonable([written, 2**70]) == [{"a": 1}, str(2**70)]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_json_comes_back_as_it_went_in(value):
    assert jsonable(value) == value
    assert json.loads(dumps(value)) == value
