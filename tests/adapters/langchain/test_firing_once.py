"""One request is one request, however many methods and classes it goes through."""

import asyncio
import inspect
from unittest.mock import patch

import pytest
from langchain_core.language_models import BaseChatModel, SimpleChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool

from checkrail.adapters.langchain import install
from checkrail.adapters.langchain.guard import Guard

from .support_graphs import Scripted, called, guard_of, hooks, pay, scripted


class Count:
    """Counts what fires at each point."""

    def __init__(self):
        self.fired = []

    def registry(self):
        points = "before_llm_call after_llm_call before_tool_call after_tool_call on_tool_error"
        return hooks(*((point, self) for point in points.split()))

    def __call__(self, event):
        self.fired.append((str(event.point), event.model or event.value.name))

    def guard(self) -> Guard:
        return guard_of(self.registry())


BOTH = ["before_llm_call", "after_llm_call"]


def points(count):
    return [point for point, _ in count.fired]


class Whole(BaseChatModel):
    """Has nothing but `_generate`: all the rest falls back on it."""

    @property
    def _llm_type(self):
        return "whole"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("hello"))])


class Below(Scripted):
    """Goes over `super()` and over its own other methods."""

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return await super()._agenerate(messages, stop, run_manager, **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        [*self._stream(messages, stop=stop)]
        self.replies.insert(0, "hello")
        return super()._generate(messages, stop=stop, **kwargs)

    def _stream(self, *args, **kwargs):
        return super()._stream(*args, **kwargs)

    async def _astream(self, *args, **kwargs):
        async for piece in super()._astream(*args, **kwargs):
            yield piece


class OnlySyncStream(Scripted):
    _astream = BaseChatModel._astream


class Delegating(BaseChatModel):
    """Has another model answer in its stead."""

    model: str = "small"
    inner: BaseChatModel

    @property
    def _llm_type(self):
        return "delegating"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return self.inner._generate(messages, stop=stop, **kwargs)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        answer = await self.inner.ainvoke(messages, stop=stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Thinking(Delegating):
    """Asks another model something of its own first."""

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        await self.inner.ainvoke("what is this about?")
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


class Calm(SimpleChatModel):
    @property
    def _llm_type(self):
        return "calm"

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        return "hello"


MODELS = {
    "whole": Whole,
    "super": lambda: scripted("hello", kind=Below),
    "sync stream": lambda: scripted("hello", kind=OnlySyncStream),
    "delegating": lambda: Delegating(inner=scripted("hello")),
    "simple": Calm,
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


async def use_ainvoke(model):
    await model.ainvoke("hi")


async def use_astream(model):
    [piece async for piece in model.astream("hi")]


async def use_thread(model):
    await asyncio.to_thread(model.invoke, "hi")


async def use_sync_stream(model):
    await asyncio.to_thread(lambda: [*model.stream("hi")])


async def use_invoke_on_the_loop(model):
    model.invoke("hi")


@pytest.mark.parametrize(
    "use",
    [use_ainvoke, use_astream, use_thread, use_sync_stream, use_invoke_on_the_loop],
)
async def test_a_model_call_fires_once_whatever_it_goes_through(model, use):
    count = Count()
    with count.guard().activate():
        await use(model)
    assert points(count) == BOTH


async def test_each_of_several_calls_fires():
    count = Count()
    with count.guard().activate():
        await scripted("a", "b").abatch(["one", "two"])
    assert sorted(points(count)) == sorted(BOTH * 2)


async def test_a_request_of_its_own_within_a_model_fires_too():
    count = Count()
    with count.guard().activate():
        await Thinking(inner=scripted("money", "hello")).ainvoke("hi")
    assert points(count) == ["before_llm_call", *BOTH, "after_llm_call"]


async def test_the_same_request_to_a_model_of_another_name_is_one_of_its_own():
    count = Count()
    with count.guard().activate():
        await Delegating(inner=scripted("hello", model="large")).ainvoke("hi")
    named = [name for _, name in count.fired]
    assert named == ["small", "large", "large", "small"]  # an answer is of the model that was asked


async def test_what_a_model_passes_on_is_counted_once():
    count = Count()
    guard = count.guard()
    with guard.activate():
        await Delegating(model="mine", inner=scripted("hello", model="large")).ainvoke("hi")
    assert guard.usage == {"large": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}


async def test_a_class_that_is_defined_later_is_covered():
    install()

    class Later(Whole):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("later"))])

    count = Count()
    with count.guard().activate():
        assert Later()._generate([HumanMessage("hi")]).generations[0].text == "later"
    assert points(count) == BOTH


async def test_a_class_that_hides_its_making_is_covered_when_it_is_used():
    install()

    class Hiding(Whole):
        def __init_subclass__(cls, **kwargs):
            """Tell nobody."""

    class Hidden(Hiding):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("hidden"))])

    count = Count()
    with count.guard().activate():
        assert (await Hidden().ainvoke("hi")).content == "hidden"
    assert points(count) == BOTH


async def test_a_method_that_was_exchanged_on_a_class_is_covered():
    answer = ChatResult(generations=[ChatGeneration(message=AIMessage("mocked"))])
    count = Count()
    with count.guard().activate(), patch.object(Whole, "_generate", return_value=answer):
        assert (await Whole().ainvoke("hi")).content == "mocked"
    assert points(count) == BOTH
    assert (await Whole().ainvoke("hi")).content == "hello"


async def test_a_method_that_was_set_on_an_instance_is_covered():
    model = Whole()
    answer = ChatResult(generations=[ChatGeneration(message=AIMessage("own"))])
    vars(model)["_generate"] = lambda *args, **kwargs: answer
    count = Count()
    with count.guard().activate():
        assert (await model.ainvoke("hi")).content == "own"
        assert (await model.ainvoke("hi")).content == "own"
    assert points(count) == BOTH * 2


async def test_installing_again_wraps_nothing_twice():
    install()
    before = Scripted._generate
    install()
    assert Scripted._generate is before


async def test_what_was_awaitable_still_looks_so():
    install()
    for method in (BaseTool.ainvoke, BaseTool.arun, Scripted._agenerate):
        assert inspect.iscoroutinefunction(method)


async def test_what_a_call_leaves_running_is_no_part_of_it():
    class Leaving(Whole):
        left: list[asyncio.Task]

        async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
            if not self.left:
                self.left.append(asyncio.create_task(self._later(messages)))
            return await super()._agenerate(messages, stop, run_manager, **kwargs)

        async def _later(self, messages):
            await asyncio.sleep(0.01)
            return await self._agenerate(messages)

    count, model = Count(), Leaving(left=[])
    with count.guard().activate():
        await model.ainvoke("hi")
        await model.left[0]
    assert points(count) == BOTH * 2


async def test_outside_of_a_run_nothing_fires_and_nothing_is_counted():
    count = Count()
    guard = count.guard()
    with guard.activate():
        pass
    await scripted("hello").ainvoke("hi")
    await pay.ainvoke({"amount": 1})
    assert (count.fired, guard.usage) == ([], {})


class Through(BaseTool):
    """A tool that goes over `super()`."""

    name: str = "through"
    description: str = "Goes through."

    def run(self, tool_input, *args, **kwargs):
        return super().run(tool_input, *args, **kwargs)

    async def arun(self, tool_input, *args, **kwargs):
        return await super().arun(tool_input, *args, **kwargs)

    def _run(self, amount: int) -> str:
        return f"through {amount}"


TOOLED = ["before_tool_call", "after_tool_call"]


@pytest.mark.parametrize("used", [Through(), pay], ids=lambda used: used.name)
async def test_a_tool_call_fires_once_whatever_it_goes_through(used):
    call = called((used.name, {"amount": 3}, "c1")).tool_calls[0]
    for use in (used.ainvoke, lambda call: asyncio.to_thread(used.invoke, call)):
        count = Count()
        with count.guard().activate():
            assert "3" in (await use(call)).content
        assert points(count) == TOOLED


async def test_a_tool_within_a_tool_fires_for_itself():
    async def outer(amount: int) -> str:
        """Pay, in the end."""
        return await pay.ainvoke({"amount": amount})

    count = Count()
    with count.guard().activate():
        await StructuredTool.from_function(coroutine=outer).ainvoke({"amount": 3})
    assert count.fired == [
        ("before_tool_call", "outer"),
        ("before_tool_call", "pay"),
        ("after_tool_call", "pay"),
        ("after_tool_call", "outer"),
    ]


async def test_a_hooks_own_calls_do_not_fire_that_hook():
    fired = []

    async def judge(event):
        fired.append(event.value.messages[-1]["content"])
        await scripted("fine").ainvoke("is this fine?")

    with guard_of(hooks(("before_llm_call", judge))).activate():
        await scripted("hello").ainvoke("hi")
    assert fired == ["hi"]
