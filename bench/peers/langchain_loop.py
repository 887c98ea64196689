"""LangChain: `create_agent` on a chat model of our own, without a checkpointer."""

import os
from collections.abc import Sequence
from typing import Any, Self

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult

from scripted_run import ANSWER, ITEMS, QUERY, lookup, print_loop, wanted

A_TURN = 1 + len(ITEMS)
"""Messages that an iteration adds: an answer, and each result."""


class ScriptedModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Self:
        return self

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        calls = wanted((len(messages) - 1) // A_TURN)
        said = AIMessage(
            "" if calls else ANSWER,
            tool_calls=[tool_call(name="lookup", args=args, id=call_id) for call_id, args in calls],
            usage_metadata=UsageMetadata(input_tokens=20, output_tokens=10, total_tokens=30),
        )
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError


os.environ["LANGSMITH_TRACING"] = "false"
agent = create_agent(ScriptedModel(), tools=[lookup])


async def once() -> Any:
    state = await agent.ainvoke({"messages": [("user", QUERY)]})
    return state["messages"][-1].content


if __name__ == "__main__":
    print_loop("langchain", "LangChain create_agent", once)
