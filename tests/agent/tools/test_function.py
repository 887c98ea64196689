import asyncio
import contextvars
import functools
import inspect
import subprocess
import sys
import threading

import pytest
from pydantic import BaseModel

import checkrail.agent.tools
from checkrail import CheckrailError
from checkrail.agent.tools import Tool, ToolContext, ToolRefusedError, tool

WHO = contextvars.ContextVar("who", default="nobody")


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    They may be negative.
    """
    return a + b


class Desk:
    """Answers questions."""

    def __init__(self, city):
        self.city = city

    def where(self, street: str) -> str:
        """Say where a street is."""
        return f"{street}, {self.city}"

    @tool
    def number(self, street: str, house: int = 1) -> str:
        """Say where a house is."""
        return f"{street} {house}, {self.city}"

    @tool(name="later")
    async def number_later(self, street: str) -> str:
        return f"{street}, {self.city}"

    @staticmethod
    @tool
    def far(miles: int) -> bool:
        return miles > 10

    def __call__(self, street: str, house: int = 1) -> str:
        return self.where(f"{street} {house}")


def test_a_tool_takes_its_name_and_its_description_from_the_function():
    assert isinstance(add, Tool)
    assert (add.name, add.description, add.timeout) == ("add", "Add two numbers.", None)
    assert repr(add) == "FunctionTool('add')"


def test_a_tool_can_still_be_called_as_the_function_that_it_was():
    assert add(1, b=2) == 3
    assert add.__name__ == "add"
    assert inspect.signature(add) == inspect.signature(add.fn)
    assert add("1", "2") == "12"


async def test_an_async_tool_can_still_be_awaited_as_the_function_that_it_was():
    @tool
    async def double(x: int) -> int:
        return 2 * x

    assert await double(2) == 4


def test_what_is_said_goes_before_what_the_function_says():
    @tool(name="plus", description="Adds.", timeout=2)
    def other(a: int) -> int:
        """Do something else."""
        return a

    assert (other.name, other.description, other.timeout) == ("plus", "Adds.", 2)


def test_a_tool_can_be_made_again_under_another_name():
    plus = tool(add, name="plus", timeout=3)
    same = tool(plus, description="")
    assert (plus.name, plus.description, plus.timeout) == ("plus", "Add two numbers.", 3)
    assert (same.name, same.description, same.timeout) == ("plus", "", 3)
    assert plus.fn is same.fn is add.fn


async def test_arguments_are_checked_and_converted_and_defaults_are_left_to_the_function(context):
    assert await add.call({"a": "2"}, context) == 3
    assert await add.call({"a": 2, "b": 5}, context) == 7


async def test_a_sync_function_runs_in_a_thread_with_the_callers_context(context):
    @tool
    def where() -> tuple[str, int]:
        return WHO.get(), threading.get_ident()

    WHO.set("ann")
    who, thread = await where.call({}, context)
    assert who == "ann"
    assert thread != threading.get_ident()


async def test_an_async_function_runs_in_the_callers_task(context):
    @tool
    async def where() -> object:
        return asyncio.current_task()

    assert await where.call({}, context) is asyncio.current_task()


async def test_what_a_plain_function_gives_to_await_is_awaited(context):
    async def double(x):
        return 2 * x

    doubled = tool(lambda x: double(x + 1), name="doubled")
    assert await doubled.call({"x": 2}, context) == 6


@pytest.mark.parametrize("raised", [ValueError("no such city"), KeyError("x")])
async def test_what_a_function_raises_is_raised(context, raised):
    @tool
    def lookup() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        await lookup.call({}, context)
    assert caught.value is raised


async def test_a_stop_iteration_does_not_leave_the_caller_waiting(context):
    @tool
    def first() -> int:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(first.call({}, context), 10)


async def test_the_context_is_given_to_whoever_asks_for_it_and_is_no_parameter(context):
    @tool
    def whose(city: str, where: ToolContext) -> str:
        return f"{city} {where.ids.run_id} {where.call.id}"

    @tool
    async def maybe(*, where: ToolContext | None = None, city: str = "Rome") -> object:
        return where, city

    assert list(whose.parameters["properties"]) == ["city"]
    assert list(maybe.parameters["properties"]) == ["city"]
    assert await whose.call({"city": "Paris"}, context) == "Paris run-1 call-1"
    assert await maybe.call({}, context) == (context, "Rome")


async def test_positional_only_parameters_are_passed_in_their_place(context):
    @tool
    def power(base: int, exponent: int = 2, /, *, plus: int = 0) -> int:
        return base**exponent + plus

    assert await power.call({"base": 3}, context) == 9
    assert await power.call({"plus": 1, "exponent": 3, "base": 2}, context) == 9


async def test_bound_methods_are_tools(context):
    where = tool(Desk("Paris").where)
    assert (where.name, where.description) == ("where", "Say where a street is.")
    assert list(where.parameters["properties"]) == ["street"]
    assert await where.call({"street": "Rue X"}, context) == "Rue X, Paris"


async def test_a_method_that_is_decorated_in_its_class_is_a_tool_of_each_object(context):
    paris, rome = Desk("Paris"), Desk("Rome")
    assert paris.number("Rue X", house=2) == "Rue X 2, Paris"
    assert list(paris.number.parameters["properties"]) == ["street", "house"]
    assert await paris.number.call({"street": "Rue X"}, context) == "Rue X 1, Paris"
    assert await rome.number.call({"street": "Via Y", "house": 3}, context) == "Via Y 3, Rome"
    assert await rome.number_later.call({"street": "Via Y"}, context) == "Via Y, Rome"
    assert rome.number_later.name == "later"
    assert list(inspect.signature(rome.number).parameters) == ["street", "house"]
    assert await rome.far.call({"miles": 11}, context) is True


async def test_a_method_without_its_object_says_what_is_missing(context):
    assert Desk.number is Desk.__dict__["number"]
    with pytest.raises(ToolRefusedError, match=r"it is a method.*Give the tool of an object"):
        await Desk.number.call({"street": "Rue X"}, context)


async def test_callable_objects_are_tools_by_the_name_of_their_class(context):
    desk = tool(Desk("Paris"))
    assert (desk.name, desk.description) == ("Desk", "Answers questions.")
    assert await desk.call({"street": "Rue X"}, context) == "Rue X 1, Paris"


async def test_what_a_partial_has_filled_in_is_neither_shown_nor_changeable(context):
    def lookup(city: str, key: str, unit: str = "C") -> str:
        """Look a city up."""
        return f"{city} {key} {unit}"

    found = tool(functools.partial(lookup, key="s3cret"))
    assert (found.name, found.description) == ("lookup", "Look a city up.")
    assert list(found.parameters["properties"]) == ["city", "unit"]
    assert "s3cret" not in str(found.parameters)
    assert await found.call({"city": "Paris", "unit": "F"}, context) == "Paris s3cret F"
    with pytest.raises(CheckrailError, match="key: unexpected"):
        await found.call({"city": "Paris", "key": "mine"}, context)


async def test_a_decorated_function_shows_what_it_wraps(context):
    def loud(fn):
        @functools.wraps(fn)
        def shout(*args, **kwargs):
            return fn(*args, **kwargs).upper()

        return shout

    @tool
    @loud
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"hi {name}"

    assert (greet.name, greet.description) == ("greet", "Greet somebody.")
    assert await greet.call({"name": "ann"}, context) == "HI ANN"


async def test_calls_at_the_same_time_do_not_wait_for_each_other(context):
    both = threading.Barrier(2)

    @tool
    def meet() -> bool:
        both.wait(10)
        return True

    assert await asyncio.gather(meet.call({}, context), meet.call({}, context)) == [True, True]


async def test_a_call_can_be_cancelled(context):
    begun = asyncio.Event()

    @tool
    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(wait.call({}, context))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Place(BaseModel):
    city: str


def generator():
    yield 1


class Pages:
    async def __call__(self):
        yield 1


@pytest.mark.parametrize(
    ("given", "options", "problem", "remedy"),
    [
        (lambda x: x, {}, "'<lambda>' is no name", "Say name=…"),
        (add.fn, {"name": "größe"}, "'größe' is no name", "letters, digits, _ and -"),
        (add.fn, {"name": "x" * 65}, "is no name that all models accept", "up to 64"),
        (add.fn, {"timeout": 0}, "its timeout is 0", "more than 0"),
        (add.fn, {"timeout": "5s"}, "its timeout is '5s'", "Say seconds"),
        ("lookup", {}, "it is of type str", "Write @tool(name='lookup')"),
        (Place, {}, "it is a class", "Give a function"),
        (3, {}, "it is of type int", "Give a function"),
        (generator, {}, "it is a generator", "Return a list"),
        (Pages(), {}, "it is a generator", "Return a list"),
        (print, {}, "it takes *args", "take a list"),
        (lambda **rest: rest, {"name": "x"}, "it takes **rest", "take a dict"),
        (map, {}, "it is a class", "Give a function"),
        (getattr, {}, "its parameters cannot be read", "Wrap it in a function"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_made(given, options, problem, remedy):
    with pytest.raises(ToolRefusedError) as caught:
        tool(given, **options)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert str(caught.value).startswith(f"tool {caught.value.tool!r} was refused: ")
    assert isinstance(caught.value, CheckrailError)


def test_the_package_gives_its_names_and_no_others():
    for name in checkrail.agent.tools.__all__:
        assert getattr(checkrail.agent.tools, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        checkrail.agent.tools.nothing  # noqa: B018 - reading it is the test


def test_importing_tools_is_light():
    code = (
        "import sys; from checkrail.agent.tools import tool, mcp_stdio, mcp_http;"
        "print(sorted({'pydantic', 'mcp', 'httpx2', 'anyio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
