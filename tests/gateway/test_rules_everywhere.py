"""One rule holds in every API, streaming or not, however the pieces of a stream are cut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkrail import Block, Continue, HookRegistry
from checkrail.config import load_text
from checkrail.config.gateway import GatewayConfig
from checkrail.gateway.call import Gateway, ModelCall

from .dialects import DIALECTS, Heard
from .place import PATHS
from .provider import Provider, Say
from .provider_wire import events
from .talking import Talk, format_at

RULE = """
hooks:
  before_tool_call:
    - name: limit
      tools: [transfer]
      when: tool_call.args.amount > 1000
      block: Transfers over 1000 need the finance desk
"""


class Cut:
    """An upstream whose stream comes in exactly these chunks."""

    provider = name = "here"
    status = 200
    configs = ()

    def __init__(self, chunks: list[bytes]) -> None:
        self.headers = [(b"content-type", b"text/event-stream")]
        self._chunks = chunks

    def find_route(self, format: str, model: str | None) -> Cut:
        return self

    async def send(self, *_: Any, **_more: Any) -> Cut:
        return self

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def close(self) -> None:
        pass


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [*sorted({place % len(data) for place in places}), len(data)]
    starts = [0, *ends[:-1]]
    return [data[start:end] for start, end in zip(starts, ends, strict=True) if end > start]


async def streamed(
    name: str, hooks: HookRegistry, said: Say, places: list[int]
) -> tuple[bytes, Heard]:
    """Call a gateway whose upstream says something, cut in these places."""
    dialect = DIALECTS[name]
    path, asked = dialect.sent(PATHS[name], dialect.request(stream=True))
    form = format_at(path)
    data = b"".join(events(form.path, said, {"stream_options": {"include_usage": True}}))
    gateway = Gateway(hooks, Cut(cut(data, places)), GatewayConfig(blocked_tool="text"))  # type: ignore[arg-type]
    reply = await gateway.answer(ModelCall(form, json.dumps(asked).encode()))
    raw = b"".join([piece async for piece in reply.content])
    return raw, dialect.heard_stream(raw)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
others = st.lists(
    st.tuples(st.just("search"), st.dictionaries(texts, texts, max_size=2)), max_size=2
)
places = st.lists(st.integers(0, 100_000), max_size=40)
many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.mark.parametrize("name", DIALECTS)
@many
@given(text=texts, first=others, last=others, amount=st.integers(1001), places=places)
async def test_a_blocked_call_never_gets_through(*, name, text, first, last, amount, places):
    hooks = HookRegistry()
    hooks.register(
        lambda event, call: Block("too much") if call.args.get("amount", 0) > 1000 else None,
        "before_tool_call",
        tools=["transfer"],
    )
    call = ("transfer", {"amount": amount, "note": "Größe 😀"})
    raw, heard = await streamed(name, hooks, Say(text, [*first, call, *last]), places)
    assert heard.calls == [*first, *last]
    assert heard.text.startswith(text)
    assert heard.text.endswith("transfer was not called: too much")
    assert heard.ended
    assert b"note" not in raw


@pytest.mark.parametrize("name", DIALECTS)
@many
@given(text=texts, calls=others, places=places)
async def test_what_no_rule_is_about_arrives_as_it_was(name, text, calls, places):
    hooks = HookRegistry()
    hooks.register(lambda event: Block("no"), "before_tool_call", tools=["transfer"])
    _, heard = await streamed(name, hooks, Say(text, calls), places)
    assert (heard.text, heard.calls, heard.ended) == (text, calls, True)


@pytest.mark.parametrize("name", DIALECTS)
@many
@given(before=texts, after=texts, calls=others, places=places)
async def test_a_redacted_text_never_gets_through(name, before, after, calls, places):
    hooks = HookRegistry()
    hooks.register(
        lambda event, message: Continue(
            message.content.replace("sk-12345", "[redacted]"), redacted=True
        ),
        "after_llm_call",
    )
    raw, heard = await streamed(name, hooks, Say(f"{before}sk-12345{after}", calls), places)
    assert heard.text == f"{before}[redacted]{after}"
    assert heard.calls == calls
    assert b"sk-12345" not in raw


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
async def test_one_rule_of_a_file_holds_in_all_apis(name, stream):
    with Provider() as provider:
        async with Talk(DIALECTS[name], provider, stream=stream) as talk:
            talk.hooks.swap(load_text(RULE).specs)
            provider.say(
                Say("", [("transfer", {"amount": 5000}), ("transfer", {"amount": 5})]),
            )
            got = await talk.ask()
    assert got.heard.calls == [("transfer", {"amount": 5})]
    assert "finance desk" in got.heard.text
