"""LangChain's own integration of OpenAI, against a server that speaks its wire."""

import dataclasses

import pytest
from langchain_openai import ChatOpenAI

from checkrail.engine.outcomes import Continue

from ...agent.models.servers.openai_wire import OpenAIWire  # noqa: TID252 - the server of other tests
from ...agent.models.servers.replies import call, calling  # noqa: TID252 - the server of other tests
from ...agent.models.servers.server import serving  # noqa: TID252 - the server of other tests
from .support_graphs import RAN, WAYS, agent_graph, guard_of, hooks


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("way", WAYS)
async def test_what_goes_over_the_wire_is_what_hooks_let_pass(way):
    def less(event, asked):
        return Continue(dataclasses.replace(asked, args={**asked.args, "amount": 77}))

    def hide(event, request):
        said = [{**message, "content": "[hidden]"} for message in request.messages[:1]]
        changed = {"messages": [*said, *request.messages[1:]], "params": {"temperature": 0.5}}
        return Continue(dataclasses.replace(request, **changed), redacted=True)

    def redact(event, message):
        return Continue(message.content.replace("hunter2", "[gone]"), redacted=True)

    registry = hooks(
        ("before_llm_call", hide), ("after_llm_call", redact), ("before_tool_call", less)
    )
    replies = [calling(call("pay", amount=5, to="ann")), "paid with hunter2"]
    guard = guard_of(registry)
    with serving(OpenAIWire(), replies) as endpoint, guard.activate():
        model = ChatOpenAI(
            model="grand-1", base_url=endpoint.base_url, api_key="sk-none", stream_usage=True
        )
        seen, result = await WAYS[way](agent_graph(model))
    assert RAN == [("pay", 77, "ann")]
    assert result["messages"][-1].content == "paid with [gone]"
    assert "hunter2" not in repr([*seen, result])
    first, second = (received.body for received in endpoint.requests)
    assert (first["messages"][0]["content"], first["temperature"]) == ("[hidden]", 0.5)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["pay", "look"]
    (sent,) = second["messages"][1]["tool_calls"]
    assert '"amount": 77' in sent["function"]["arguments"]
    (used,) = guard.usage.values()
    assert used["total_tokens"] == sum(
        message.usage_metadata["total_tokens"]
        for message in result["messages"]
        if getattr(message, "usage_metadata", None)
    )
