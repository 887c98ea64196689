"""What is counted is what LangChain's own handler counts, and more where that is blind."""

import asyncio

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from .support_graphs import ASKED, GRAPHS, WAYS, Scripted, called, guard_of, hooks, scripted

DETAILED = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_token_details": {"cache_read": 4},
    "output_token_details": {"reasoning": 2},
}


async def test_it_is_what_the_handler_of_langchain_gives():
    for graph in GRAPHS.values():
        model = scripted(called(("look", {"where": "x"}, "c1")), "done")
        handler, guard = UsageMetadataCallbackHandler(), guard_of()
        with guard.activate():
            await graph(model).ainvoke(ASKED, {"callbacks": [handler]})
        assert guard.usage == handler.usage_metadata


async def test_streams_are_counted_as_whole_answers_are():
    for go in WAYS.values():
        guard = guard_of()
        with guard.activate():
            await go(GRAPHS["sync node"](scripted("done")))
        assert guard.usage == {
            "small": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        }


class Detailed(Scripted):
    named: bool = True

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = AIMessage("hello", usage_metadata=DETAILED)
        told = {"model_name": "small-2"} if self.named else {}
        generation = ChatGeneration(message=message, generation_info=told)
        return ChatResult(generations=[generation])


async def test_details_are_added_up_under_the_name_that_answered():
    guard, model = guard_of(), scripted(kind=Detailed)
    with guard.activate():
        await asyncio.gather(model.ainvoke("hi"), asyncio.to_thread(model.invoke, "hi"))
    assert guard.usage["small-2"]["input_token_details"] == {"cache_read": 8}
    assert guard.usage["small-2"]["total_tokens"] == 30


async def test_a_model_that_does_not_say_its_name_is_counted_under_that_of_the_request():
    guard = guard_of()
    with guard.activate():
        await scripted(kind=Detailed, named=False).ainvoke("hi")
    assert [*guard.usage] == ["small"]


async def test_a_model_that_tells_no_usage_is_not_counted():
    class Silent(Scripted):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("hello"))])

    guard = guard_of(hooks())
    with guard.activate():
        await scripted(kind=Silent).ainvoke("hi")
    assert guard.usage == {}
