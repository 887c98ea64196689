"""What the tests of the models share: their providers' servers, and a way to ask both ways."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkrail.agent.models.anthropic import AnthropicModel
from checkrail.agent.models.openai import OpenAIModel
from checkrail.engine.values import AssistantMessage, ModelRequest

from .servers.anthropic_wire import AnthropicWire
from .servers.openai_wire import OpenAIWire
from .servers.replies import Reply
from .servers.server import Endpoint, Wire, serving

KEY = "sk-secret-0123456789"
QUESTION = ModelRequest(messages=[{"role": "user", "content": "What is the weather?"}])


@dataclass(frozen=True)
class Provider:
    """What one provider calls the things that all of them have."""

    name: str
    wire: Wire
    model: type[OpenAIModel | AnthropicModel]


OPENAI = Provider("openai", OpenAIWire(), OpenAIModel)
ANTHROPIC = Provider("anthropic", AnthropicWire(), AnthropicModel)

Serve = Callable[..., Endpoint]
Ask = Callable[..., Any]


@dataclass(frozen=True)
class Answer:
    """A model's answer, and the text as it was streamed (all at once, if it was not)."""

    texts: list[str]
    message: AssistantMessage


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda provider: provider.name)
def provider(request: pytest.FixtureRequest) -> Provider:
    return request.param


@pytest.fixture(params=["complete", "stream"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def serve(provider: Provider) -> Iterator[Serve]:
    """Start a server of the provider that gives these replies, one after the other."""
    with ExitStack() as stack:

        def start(*replies: Reply) -> Endpoint:
            return stack.enter_context(serving(provider.wire, replies))

        yield start


@pytest.fixture
def model_at(provider: Provider) -> Callable[..., Any]:
    """Make the provider's model for a server; it has a key and does not try twice."""

    def make(endpoint: Endpoint, **options: Any) -> Any:
        given = {"api_key": KEY, "max_retries": 0, **options}
        return provider.model("grand-1", base_url=endpoint.base_url, **given)

    return make


async def asked(model: Any, way: str, request: ModelRequest = QUESTION) -> Answer:
    """Ask a model in one of the two ways."""
    if way == "complete":
        message = await model.complete(request)
        return Answer([message.content], message)
    async with aclosing(model.stream(request)) as stream:
        *texts, message = [piece async for piece in stream]
    return Answer(texts, message)


@pytest.fixture
def ask(serve: Serve, model_at: Callable[..., Any], way: str) -> Ask:
    """Serve one reply, ask for it, and give the answer."""

    async def answer(reply: Reply, request: ModelRequest = QUESTION, **options: Any) -> Answer:
        return await asked(model_at(serve(reply), **options), way, request)

    return answer


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing of this machine in: no keys, no base URLs, no proxies, no login."""
    for name in [*os.environ]:
        if name.upper().startswith(("OPENAI_", "ANTHROPIC_")) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
