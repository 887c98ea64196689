"""What is handed out cannot be damaged, and is still a dict or a list to everybody else."""

import copy
import heapq
import json
import pickle
from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkrail.engine.frozen import DEEPEST, FrozenDict, FrozenError, FrozenList, freeze, thaw
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall, User

DICT_MUTATORS = {
    "set": lambda d: d.__setitem__("a", 2),
    "set new": lambda d: d.__setitem__("b", 2),
    "delete": lambda d: d.__delitem__("a"),
    "or": lambda d: d.__ior__({"a": 2}),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("a"),
    "pop missing": lambda d: d.pop("b", None),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("b", 2),
    "setdefault known": lambda d: d.setdefault("a", 2),
    "update": lambda d: d.update(b=2),
}
LIST_MUTATORS = {
    "set": lambda x: x.__setitem__(0, 9),
    "set slice": lambda x: x.__setitem__(slice(0, 1), [9]),
    "delete": lambda x: x.__delitem__(0),
    "add": lambda x: x.__iadd__([9]),
    "multiply": lambda x: x.__imul__(2),
    "append": lambda x: x.append(9),
    "clear": lambda x: x.clear(),
    "extend": lambda x: x.extend([9]),
    "insert": lambda x: x.insert(0, 9),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove(1),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(),
}


@pytest.mark.parametrize("mutate", DICT_MUTATORS.values(), ids=DICT_MUTATORS.keys())
def test_every_change_of_a_dict_raises(mutate):
    frozen = freeze({"a": 1})
    with pytest.raises(FrozenError, match=r"frozen.*Continue"):
        mutate(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize("mutate", LIST_MUTATORS.values(), ids=LIST_MUTATORS.keys())
def test_every_change_of_a_list_raises(mutate):
    frozen = freeze([1, 2])
    with pytest.raises(FrozenError, match=r"frozen.*Continue"):
        mutate(frozen)
    assert frozen == [1, 2]


def test_there_is_no_way_of_changing_that_is_not_listed_here():
    """Every method that a dict or list has and a tuple or mapping proxy has not is refused."""
    reading = {*dir(MappingProxyType({})), "fromkeys", "__init__", "__class_getitem__"}
    for name in {*dir(dict)} - reading - {"__getattribute__"}:
        assert name in vars(FrozenDict), name
    for name in {*dir(list)} - {*dir(tuple)} - {"copy", "__reversed__"}:
        assert name in vars(FrozenList), name


def test_making_one_anew_in_place_changes_nothing():
    frozen, items = freeze({"a": 1}), freeze([1])
    frozen.__init__({"b": 2})
    items.__init__([2])
    assert (frozen, items) == ({"a": 1}, [1])


def test_another_class_cannot_be_given_to_one():
    class Dict(dict):
        __slots__ = ()

    class List(list):
        __slots__ = ()

    for frozen, other in ((freeze({"a": 1}), Dict), (freeze([1]), List)):
        with pytest.raises(FrozenError):
            frozen.__class__ = other
        with pytest.raises(FrozenError):
            del frozen.__class__


Point = namedtuple("Point", "x y")  # noqa: PYI024 - what users have


class Triple(tuple):
    __slots__ = ()


def test_named_tuples_are_frozen_in_depth():
    frozen = freeze({"at": Point([1], {"a": [2]})})
    assert frozen == {"at": Point([1], {"a": [2]})}
    assert type(frozen["at"]) is Point
    with pytest.raises(FrozenError):
        frozen["at"].x.append(2)
    with pytest.raises(FrozenError):
        frozen["at"].y["a"].append(2)
    made = copy.deepcopy(frozen)
    made["at"].x.append(2)
    assert (made["at"].x, frozen["at"].x) == ([1, 2], [1])


def test_other_tuples_are_objects_of_their_class():
    given = Triple([[1], 2, 3])
    assert freeze(given) is given
    assert thaw(given) is given


def test_what_goes_around_the_class_cannot_be_refused():
    """Known: a subclass of dict or list cannot refuse these; docs/writing-hooks.md says so."""
    items, data = freeze([2]), freeze({})
    heapq.heappush(items, 1)
    dict.__setitem__(data, "a", 1)
    assert (items, data) == ([1, 2], {"a": 1})


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(derandomize=True)
@given(json_data)
def test_frozen_data_is_equal_json_and_thaws_to_what_it_was(data):
    frozen = freeze(data)
    assert frozen == data
    assert json.dumps(frozen) == json.dumps(data)
    assert thaw(frozen) == data
    assert json.dumps(thaw(frozen)) == json.dumps(data)
    assert freeze(frozen) is frozen


@settings(derandomize=True)
@given(json_data)
def test_frozen_data_is_frozen_in_depth_and_thawed_data_is_not(data):
    def kinds(value):
        yield type(value)
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                yield from kinds(inner)

    wrapped = {"data": [data]}
    assert set(kinds(freeze(wrapped))) <= {FrozenDict, FrozenList}
    assert set(kinds(thaw(freeze(wrapped)))) <= {dict, list}


def test_frozen_containers_are_dicts_and_lists():
    frozen = freeze({"a": [1, {"b": 2}]})
    assert isinstance(frozen, dict)
    assert isinstance(frozen["a"], list)
    assert frozen | {"c": 3} == {"a": [1, {"b": 2}], "c": 3}
    assert {**frozen} == frozen
    assert frozen["a"] + [3] == [1, {"b": 2}, 3]
    assert repr(frozen) == "{'a': [1, {'b': 2}]}"
    assert list(reversed(frozen["a"])) == [{"b": 2}, 1]


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("data", [{"a": [1, {"b": (2, [3])}]}, [[1], {"a": 2}], {}, []])
def test_copies_are_equal_and_leave_the_frozen_one_alone(make, data):
    frozen = freeze(data)
    made = make(frozen)
    assert made == data
    assert isinstance(made, type(data))
    assert frozen == data


def test_a_deep_copy_can_be_changed():
    frozen = freeze({"a": [1]})
    made = copy.deepcopy(frozen)
    made["a"].append(2)
    assert (made, frozen) == ({"a": [1, 2]}, {"a": [1]})


@pytest.mark.parametrize("copied", [lambda x: x.copy(), dict])
def test_a_shallow_copy_is_a_plain_dict_whose_contents_are_still_frozen(copied):
    made = copied(freeze({"a": [1]}))
    made["b"] = 2
    with pytest.raises(FrozenError):
        made["a"].append(2)


def test_other_containers_are_frozen_too():
    frozen = freeze(
        {
            "tuple": ([1],),
            "set": {1, 2},
            "bytes": bytearray(b"x"),
            "ordered": OrderedDict(a=[1]),
            "proxy": MappingProxyType({"a": [1]}),
            "user": UserDict({"a": [1]}),
        }
    )
    assert isinstance(frozen["set"], frozenset)
    assert isinstance(frozen["bytes"], bytes)
    for inner in (frozen["tuple"][0], *(frozen[key]["a"] for key in ("ordered", "proxy", "user"))):
        with pytest.raises(FrozenError):
            inner.append(2)
    assert thaw(frozen)["tuple"] == ([1],)


def test_a_value_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        freeze(loop)


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_a_value_that_nests_too_deeply_is_refused(wrap):
    deep = "x"
    for _ in range(DEEPEST):
        deep = wrap(deep)
    assert freeze(deep) == deep
    with pytest.raises(ValueError, match=f"nests deeper than {DEEPEST} levels"):
        freeze(wrap(deep))


def test_values_are_frozen_when_they_are_made():
    args, calls = {"a": [1]}, []
    call = ToolCall(args=args)
    message = AssistantMessage(tool_calls=calls, metadata={"x": {"y": 1}})
    args["a"].append(2)
    calls.append(call)
    assert (call.args, message.tool_calls) == ({"a": [1]}, [])
    for change in (
        lambda: call.args["a"].append(2),
        lambda: message.metadata["x"].update(y=2),
        lambda: message.tool_calls.append(call),
        lambda: User("u").extras.update(a=1),
    ):
        with pytest.raises(FrozenError):
            change()
    with pytest.raises(AttributeError):
        call.name = "other"


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_values_can_be_copied_and_pickled(make):
    message = AssistantMessage(content=[{"text": "x"}], tool_calls=[ToolCall(args={"a": [1]})])
    assert make(message) == message


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_values_are_frozen_too(make):
    call = make(ToolCall(args={"a": [1]}))
    with pytest.raises(FrozenError):
        call.args["a"].append(2)


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
async def test_a_hook_cannot_damage_a_value_that_came_as_a_copy(make):
    given_call = make(ToolCall(name="t", args={"a": [1]}))
    registry = HookRegistry()
    registry.register(lambda e, call: call.args["a"].append(2), "before_tool_call", name="h")
    verdict = await registry.fire("before_tool_call", given_call)
    assert verdict.records[1].failure == "error"
    assert given_call.args == {"a": [1]}


async def test_what_a_hook_returns_is_a_copy_that_it_cannot_reach():
    kept = {"a": [1]}
    registry = HookRegistry()
    registry.register(lambda event: Continue(kept), "before_run", name="h")
    verdict = await registry.fire("before_run", {})
    kept["a"].append(2)
    assert verdict.value == {"a": [1]}
    with pytest.raises(FrozenError):
        verdict.value["a"].append(2)


async def test_verdicts_and_records_are_frozen():
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "before_run", name="h")
    verdict = await registry.fire("before_run", {"a": [1]})
    for thing in (verdict, verdict.records[0], verdict.records[1]):
        for name in ("value", "decision", "hook", "kind", "new"):
            with pytest.raises(FrozenError, match=name):
                setattr(thing, name, 1)
    assert isinstance(verdict.records, tuple)
    with pytest.raises(FrozenError):
        verdict.value["a"].append(2)


async def test_nothing_can_be_deleted_from_verdicts_and_records():
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "before_run", name="h")
    verdict = await registry.fire("before_run", {})
    with pytest.raises(FrozenError):
        del verdict.value
    with pytest.raises(FrozenError):
        del verdict.records[0].kind


def test_outcomes_are_frozen():
    with pytest.raises(AttributeError):
        Block("no").reason = "yes"
