"""One proxy for all tests: it takes a minute to start."""

import pytest
from tests.gateway.dialects import PROXIED
from tests.gateway.place import PATHS, Place, prepare
from tests.gateway.provider import Provider

from .proxy import MODELS, config_for, started

CALLBACK = "checkrail.adapters.litellm.callback"

MORE = '''
import asyncio
import gc
import json
from collections import Counter
from pathlib import Path

SEEN = Path(__file__).parent / "seen" / "seen.jsonl"


def crash(event, value):
    raise RuntimeError("a secret of the hook")


async def sleep(event, value):
    await asyncio.sleep(30)


def count(event, value):
    """Write down what there is in this process."""
    gc.collect()
    kinds = Counter(type(thing).__name__ for thing in gc.get_objects())
    kept = {name: kinds[name] for name in ("Call", "Streamed", "Chunks")}
    with SEEN.open("a") as file:
        file.write(json.dumps(kept | {"tasks": len(asyncio.all_tasks())}) + "\\n")
'''


def surroundings(provider):
    """Give what pass-through routes need."""
    return {
        "ANTHROPIC_API_BASE": provider.url,
        "ANTHROPIC_API_KEY": "sk-of-the-upstream",
        "OPENAI_API_BASE": f"{provider.url}/v1",
        "OPENAI_API_KEY": "sk-of-the-upstream",
    }


def pytest_collection_modifyitems(items):
    """Leave out what is about APIs that the callback does not know."""
    others = PATHS.keys() - PROXIED.keys()
    items[:] = [item for item in items if _api_of(item) not in others]


def _api_of(item):
    return getattr(item, "callspec", None) and item.callspec.params.get("name")


@pytest.fixture(scope="session")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    hooks = prepare(folder)
    (folder / "more.py").write_text(MORE)
    cache = {"type": "local", "mode": "default_off"}  # for those who ask for it
    with Provider() as provider:
        config = config_for(provider, callbacks=[CALLBACK], cache=True, cache_params=cache)
        around = surroundings(provider)
        with started(folder, config, CHECKRAIL_HOOKS=str(hooks), **around) as running:
            assert running.wait(), running.told()[-3000:]
            running.place = Place(running.url, running.key, provider, folder, MODELS)
            yield running


@pytest.fixture
def place(proxy):
    proxy.place.provider.anew()
    return proxy.place
