"""Finish hooks on the web: told until they are reached, and no other hook waits for that."""

import asyncio
import contextlib
import json

import pytest

from checkrail.config import load_blueprint_hooks

from .support import chain, graph_agent, say, until


class Site:
    """A small web server that answers as it is told to, and keeps what it was sent."""

    def __init__(self):
        self.status = 200
        self.got = []

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1])
            for line in head.splitlines()
            if line.lower().startswith("content-length")
        )
        self.got.append((head, json.loads(await reader.readexactly(length))))
        writer.write(f"HTTP/1.1 {self.status} x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def open(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{port}/told"
            yield self


@pytest.fixture
async def site():
    async with Site().open() as opened:
        yield opened


async def opened(world, site, *others, **more):
    entry = {"type": "http", "url": site.url, "on_error": "continue", **more}
    specs = load_blueprint_hooks("say", {"on_run_finish": entry}, outside=world.outside)
    served = await world.open(
        {"say": chain(say)},
        *others,
        agents=[graph_agent("say", hooks=specs)],
        allow=["127.0.0.1/32"],
    )
    world.outside.outbound = served.parts.outbound
    return served


async def test_a_web_address_is_told_of_the_end_of_a_run(world, site):
    served = await opened(world, site)
    ended = await served.run("say", {"text": "hi"})
    [owed] = await served.settled(ended)
    [(_, told)] = site.got
    assert (owed.status, told["run_id"]) == ("done", ended.run_id)
    assert told["result"]["output"]["said"] == ["hi"]


async def test_one_that_cannot_be_reached_is_told_again_and_others_are_not(world, site):
    told = []

    def watch(event, value):
        told.append(value.status)

    site.status = 503
    served = await opened(world, site, (watch, "after_run", {"name": "watch"}))
    ended = await served.run("say", {"text": "hi"})

    async def tried():
        rows = await served.owed(ended)
        return next((row for row in rows if row.status == "owed" and row.attempts), None)

    owed = await until(tried, "the first try")
    assert "503" in owed.last_error
    site.status = 200
    await served.settled(ended)
    assert len(site.got) == 2
    first, second = (head.split("webhook-id:")[1].split()[0] for head, _ in site.got)
    assert first == second
    assert told == ["success"]
    kinds = [each["event_type"] for each in await served.records(ended) if each["hook"] != "watch"]
    assert kinds == ["hook_start", "hook_failed", "hook_start", "hook_complete"]


async def test_a_refusal_is_final(world, site):
    site.status = 400
    served = await opened(world, site)
    ended = await served.run("say", {"text": "hi"})
    [owed] = await served.settled(ended)
    assert (owed.status, len(site.got)) == ("done", 1)
