"""Whose connections and whose keys the SDK models use, and when they let go of them."""

import asyncio
import gc
import subprocess
import sys
from contextlib import aclosing

import pytest

from checkrail.agent.models.model import Model, ModelError
from checkrail.extras import MissingExtraError

from .conftest import KEY, QUESTION, asked
from .servers.replies import Refuse
from .servers.server import PATIENCE


def sent_key(endpoint) -> str:
    """The key that the last request came with, in whichever header."""
    headers = endpoint.requests[-1].headers
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


def test_it_is_a_model(provider):
    assert isinstance(provider.model("grand-1", api_key=KEY), Model)


def test_one_model_serves_one_event_loop_after_another(serve, model_at, way):
    endpoint = serve("one", "two", "three")
    model = model_at(endpoint)
    said = [asyncio.run(asked(model, way)).message.content for _ in range(3)]
    assert said == ["one", "two", "three"]
    assert endpoint.connections == 3


def test_the_connections_of_a_loop_are_closed_at_its_end(serve, model_at, way):
    endpoint = serve("one")
    model = model_at(endpoint)
    asyncio.run(asked(model, way))
    assert endpoint.idle.wait(PATIENCE)
    assert model is not None, "it was not for want of the model"


async def test_headers_are_sent_but_are_nothing_that_hooks_or_errors_tell(serve, model_at, way):
    secret = "gate-0123456789"
    endpoint = serve("one", Refuse(400, f"no such thing as {secret}"))
    model = model_at(endpoint, extra_headers={"x-gateway": secret}, temperature=0)
    await asked(model, way)
    assert endpoint.requests[-1].headers["x-gateway"] == secret
    assert dict(model.params) in ({"temperature": 0}, {"temperature": 0, "max_tokens": 4096})
    with pytest.raises(ModelError) as failed:
        await asked(model, way)
    assert secret not in str(failed.value) + repr(model)


async def test_one_loop_has_one_connection(serve, model_at):
    endpoint = serve("one", "two", "three")
    model = model_at(endpoint)
    for said in ("one", "two", "three"):
        assert (await asked(model, "complete")).message.content == said
    assert endpoint.connections == 1


async def test_many_may_ask_at_once(serve, model_at, way):
    model = model_at(serve(*["yes"] * 8))
    answers = await asyncio.gather(*(asked(model, way) for _ in range(8)))
    assert [answer.message.content for answer in answers] == ["yes"] * 8


async def test_loops_side_by_side_do_not_meet(serve, model_at, way):
    model = model_at(serve("one", "two", "three"))
    await asked(model, way)
    other = await asyncio.to_thread(lambda: asyncio.run(asked(model, way)))
    assert other.message.content == "two"
    assert (await asked(model, way)).message.content == "three"


async def test_a_closed_model_hangs_up_and_can_be_asked_again(serve, model_at, way):
    endpoint = serve("one", "two")
    model = model_at(endpoint)
    await asked(model, way)
    await model.aclose()
    assert await asyncio.to_thread(endpoint.idle.wait, PATIENCE)
    await model.aclose()
    assert (await asked(model, way)).message.content == "two"


async def test_a_model_that_is_forgotten_hangs_up(serve, model_at, way):
    endpoint = serve("one")
    model = model_at(endpoint)
    model.itself = model
    await asked(model, way)
    del model
    gc.collect()
    assert await asyncio.to_thread(endpoint.idle.wait, PATIENCE)


def test_a_model_can_be_closed_while_its_loop_is_ending(serve, model_at, way, caplog):
    endpoint = serve("one")
    model = model_at(endpoint)

    async def closing_at_the_end():
        try:
            yield
        finally:
            await model.aclose()

    async def main():
        await anext(last := closing_at_the_end())
        await asked(model, way)
        return last

    asyncio.run(main())
    assert endpoint.idle.wait(PATIENCE)
    assert not caplog.records


def test_a_loop_that_was_just_closed_does_no_harm(serve, model_at, way):
    model = model_at(serve("one", "two"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(asked(model, way))
    loop.run_until_complete(model.aclose())
    loop.close()
    assert asyncio.run(asked(model, way)).message.content == "two"


async def test_nothing_is_left_behind_by_a_stream_that_was_not_read_to_its_end(serve, model_at):
    endpoint = serve("It is sunny in Paris.", "Hello")
    model = model_at(endpoint)
    async with aclosing(model.stream(QUESTION)) as stream:
        await anext(stream)
    assert (await asked(model, "stream")).message.content == "Hello"
    for _ in range(20):  # the loop ends the generators that the SDK leaves
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_missing_key_is_told_when_the_model_is_asked(provider, way):
    model = provider.model("grand-1")
    name = f"{provider.name.upper()}_API_KEY"
    with pytest.raises(ModelError, match=f"no API key for .* 'grand-1': set {name} in the env"):
        await asked(model, way)


async def test_a_key_may_come_from_the_environment(serve, provider, way, monkeypatch):
    monkeypatch.setenv(f"{provider.name.upper()}_API_KEY", "sk-of-the-environment\n")
    endpoint = serve("Hello")
    await asked(provider.model("grand-1", base_url=endpoint.base_url), way)
    assert sent_key(endpoint) == "sk-of-the-environment"


async def test_a_key_that_is_given_comes_first(serve, model_at, provider, way, monkeypatch):
    monkeypatch.setenv(f"{provider.name.upper()}_API_KEY", "sk-of-the-environment")
    endpoint = serve("Hello")
    await asked(model_at(endpoint, api_key=f"{KEY}\n"), way)
    assert sent_key(endpoint) == KEY


async def test_an_endpoint_of_ones_own_needs_no_key(serve, provider, way):
    endpoint = serve("Hello")
    answer = await asked(provider.model("grand-1", base_url=endpoint.base_url), way)
    assert answer.message.content == "Hello"
    assert sent_key(endpoint) == "none"


async def test_a_base_url_may_come_from_the_environment(serve, provider, way, monkeypatch):
    endpoint = serve("Hello")
    monkeypatch.setenv(f"{provider.name.upper()}_BASE_URL", endpoint.base_url)
    answer = await asked(provider.model("grand-1"), way)
    assert answer.message.content == "Hello"


def test_a_missing_sdk_is_told_with_its_extra(provider, monkeypatch):
    monkeypatch.setitem(sys.modules, provider.name, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "checkrail\[{provider.name}\]"'):
        provider.model("grand-1")


def test_the_sdk_is_not_imported_before_there_is_a_model(provider):
    code = f"""
        import sys
        from checkrail.agent.models.{provider.name} import {provider.model.__name__}
        heavy = {{"openai", "anthropic", "httpx", "httpx2", "pydantic"}} & {{*sys.modules}}
        assert not heavy, heavy
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    subprocess.run([sys.executable, "-c", lines], check=True)
