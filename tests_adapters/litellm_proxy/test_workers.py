"""A proxy of several processes: hooks hold in each, and limits count for all of them together."""

import asyncio
import time
from collections import Counter

import pytest
from tests.gateway.behaviours import CLOSED
from tests.gateway.dialects import PROXIED
from tests.gateway.place import Place, prepare, write_hooks
from tests.gateway.provider import Provider

from .conftest import CALLBACK
from .proxy import MODELS, PATIENCE, config_for, started

PID = {"path": "./pid.py:note", "lane": "observe"}
LIMITED = {"builtin": "rate_limit", "config": {"limit": 10, "per": "1h", "by": ["key"]}}

NOTE_PID = """
import os
from pathlib import Path

SEEN = Path(__file__).parent / "seen" / "seen.jsonl"


def note(event, value):
    with SEEN.open("a") as file:
        file.write(f"{os.getpid()}\\n")
"""


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    hooks = prepare(folder)
    (folder / "pid.py").write_text(NOTE_PID)
    write_hooks(folder, 0, {"before_llm_call": [PID, LIMITED]})
    patience = {"NUM_WORKERS": "2", "TIMEOUT_WORKER_HEALTHCHECK": "120"}
    with Provider() as provider:
        config = config_for(provider, callbacks=[CALLBACK])
        with started(folder, config, CHECKRAIL_HOOKS=str(hooks), **patience) as running:
            assert running.wait(), running.told()[-3000:]
            wait_for_both(running)
            yield Place(running.url, running.key, provider, folder, MODELS)


def wait_for_both(running):
    until = time.monotonic() + PATIENCE
    while running.told().count("Application startup complete") < 2:
        assert time.monotonic() < until, running.told()[-3000:]
        time.sleep(0.2)


async def statuses(place):
    """Ask until both processes were asked several times, and give what they said."""
    told = Counter()
    async with asyncio.timeout(120):
        while len(often := Counter(place.seen)) < 2 or min(often.values()) < 12:
            calls = (place.ask(list(PROXIED)[number % 3]) for number in range(30))
            told.update(got.status for got in await asyncio.gather(*calls))
    return told


async def until_all(place, **points):
    """Let these hooks hold in both processes."""
    await place.rules(**points)
    await asyncio.sleep(3)  # each looks for itself, every second


async def test_limits_count_together_and_rules_and_reloads_reach_each_process(workers):
    told = await statuses(workers)
    assert (told[200], set(told)) == (10, {200, 400})
    await until_all(workers, before_llm_call=[PID, CLOSED])
    assert set(await statuses(workers)) == {451}
    await until_all(workers, before_llm_call=[PID])
    assert set(await statuses(workers)) == {200}
