"""Data of any shape in any place of the four APIs, whatever belongs there: no rule lets it pass."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.planting import MARK, PLANTED_DATA

from checkrail.config import load_text

from .dialects import DIALECTS
from .every_field import ANSWERS, REQUESTS
from .provider import Provider, Raw
from .talking import Talk
from .test_every_field import JSON, PROTOCOL, REPEATED, RULES, planted

slow = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NAMES = frozenset({"model", "id", "call_id"})
"""Fields of a request of which a rule does not see a name: whoever answers refuses other data."""

UNSEEN = PROTOCOL | REPEATED | {"audio", "error"}
"""Fields of an answer that rules do not see, or that make it no answer."""

WORDS = ["git", *MARK.split(" ")]


def places(data: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything within data."""
    if not isinstance(data, dict | list):
        return
    for key, item in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        yield from places(item, *path, key)


@pytest.fixture(scope="module")
def provider():
    logging.disable()
    with Provider() as running:
        yield running
    logging.disable(logging.NOTSET)


def told_by(provider: Provider, name: str, body: Any = None, answer: Any = None) -> bytes:
    """Call the gateway under the rules, and return what came back."""

    async def call() -> bytes:
        provider.anew()
        if answer is not None:
            provider.say(Raw([json.dumps(answer).encode()], headers=JSON))
        async with Talk(DIALECTS[name], provider) as talk:
            talk.hooks.swap(load_text(RULES).specs)
            return (await talk.reply(body)).content

    return asyncio.run(call())


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_request_passes(provider, name, data):
    body = REQUESTS[name]
    seen = [path for path in places(body) if path[-1] not in NAMES]
    path = data.draw(st.sampled_from(seen))
    told_by(provider, name, planted(body, path, data.draw(PLANTED_DATA)))
    assert not any(b"force" in received.body for received in provider.requests)


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_answer_passes(provider, name, data):
    answer = ANSWERS[name]
    path = data.draw(st.sampled_from([path for path in places(answer) if not UNSEEN & {*path}]))
    tainted = planted(answer, path, data.draw(PLANTED_DATA))
    assert b"force" not in told_by(provider, name, answer=tainted)


@pytest.mark.parametrize(
    ("name", "path", "data"),
    [
        ("chat", ("extra",), {MARK: None}),
        ("chat", (MARK,), 1),
        ("chat", ("created",), MARK),
        ("chat", ("choices", 0, "index"), WORDS),
        ("chat", ("choices", 0, "message", MARK), None),
        (
            "chat",
            ("choices", 0, "message", "tool_calls", 0, "function", "arguments"),
            json.dumps(WORDS),
        ),
        ("messages", ("content", 7, "input"), WORDS),
        ("messages", ("extra",), {MARK: 1.5}),
        ("responses", ("created_at",), WORDS),
        ("responses", ("output", 2, "name"), WORDS),
        ("gemini", ("candidates", 0), {MARK: None}),
        ("gemini", ("candidates", 0, "content", "parts", 0, "thought"), WORDS),
    ],
)
def test_no_answer_passes_with_what_is_not_expected_there(provider, name, path, data):
    tainted = planted(ANSWERS[name], path, data)
    assert b"force" not in told_by(provider, name, answer=tainted)


def test_an_id_of_a_call_is_a_text(provider):
    path = ("contents", 1, "parts", 4, "functionCall", "id")
    told = told_by(provider, "gemini", planted(REQUESTS["gemini"], path, WORDS))
    assert b"`id` of a function call should be a text" in told
    assert provider.requests == []
