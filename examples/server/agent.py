"""A LangGraph agent as anybody would write it. Put a real model in the place of the script."""

import json
import re

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def lookup(order: str) -> str:
    """Look up an order by its number."""
    return f"Order {order} is on its way."


@tool
def refund(amount: int) -> str:
    """Give a customer money back."""
    return f"{amount} were refunded."


class Script(BaseChatModel):
    """Asks for a refund or looks an order up, and then says what the tool said."""

    @property
    def _llm_type(self):
        return "script"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return generate_from_stream(self._stream(messages))

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            yield from (_text(word) for word in re.findall(r"\S+\s*", str(last.content)))
        else:
            yield _call(str(last.content), f"call-{len(messages)}")
        used = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
        yield _chunk(usage_metadata=used, response_metadata={"model_name": "script"})


def _text(word):
    return _chunk(content=word)


def _call(question, id):
    amount = re.search(r"refund (\d+)", question, re.IGNORECASE)
    order = re.search(r"[A-Z]-\d+", question)
    name = "refund" if amount else "lookup"
    args = {"amount": int(amount[1])} if amount else {"order": order[0] if order else "?"}
    call = {"name": name, "args": json.dumps(args), "id": id, "index": 0}
    return _chunk(tool_call_chunks=[call])


def _chunk(content="", **more):
    return ChatGenerationChunk(message=AIMessageChunk(content, **more))


model = Script()


async def ask(state: MessagesState):
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("model", ask)
builder.add_node("tools", ToolNode([lookup, refund]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
graph = builder.compile()
