"""LiteLLM's models, held to what the tests of the SDK models ask of those."""

import os
from pathlib import Path

import pytest
from tests.agent.models.conftest import Provider, ask, bare_environment, model_at, serve, way
from tests.agent.models.servers.openai_wire import OpenAIWire

from checkrail.agent.models.litellm import LiteLLMModel

__all__ = ["ask", "bare_environment", "model_at", "serve", "way"]

HERE = Path(__file__).parent

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks GitHub for prices


class BareNames(LiteLLMModel):
    """Takes the names that the shared tests give to models, which say nothing of the provider."""

    def _build_arguments(self, request, *, stream):
        arguments = super()._build_arguments(request, stream=stream)
        return arguments | {"model": f"openai/{arguments['model']}"}


def named(name, **options):
    return BareNames(name, provider="openai", **options)


@pytest.fixture(autouse=True)
async def no_connections_left():
    """Close what LiteLLM keeps for the whole process, in the loop that it belongs to."""
    import litellm

    yield
    await litellm.close_litellm_async_clients()


@pytest.fixture
def provider():
    return Provider("openai", OpenAIWire(), named)


def pytest_collection_modifyitems(items):
    """Make warnings errors only if they are ours: LiteLLM has many of its own."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings("error:::checkrail"))
