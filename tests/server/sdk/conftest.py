import asyncio
import contextlib

import pytest

from .support import Awaited

# Both clients and both databases; the wire is the same, so each pair would only cost more.
PAIRS = (("sqlite", "async"), ("postgres", "sync"))


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request):
    return request.param


@pytest.fixture
def server(pair, shared_server):
    """A shared server, on each database in turn."""
    return shared_server(pair[0])


@pytest.fixture
async def client(pair, server):
    """The official client: the async one, or the sync one behind the same face."""
    if pair[1] == "async":
        async with server.client(timeout=60) as client:
            yield client
        return
    with server.sync_client(timeout=60) as client:
        yield Awaited(client)


@pytest.fixture
async def thread(client):
    """The id of a new thread."""
    return (await client.threads.create())["thread_id"]


@pytest.fixture
async def aclient(server):
    """The async client, whatever the other half of the pair is."""
    async with server.client(timeout=60) as client:
        yield client


@pytest.fixture(params=["sse", "websocket"])
def opened(request, aclient):
    """Open a stream of a thread, a new one unless it is named; who hangs is told in time."""

    @contextlib.asynccontextmanager
    async def stream(assistant, thread=None):
        made = aclient.threads.stream(thread, assistant_id=assistant, transport=request.param)
        async with asyncio.timeout(30), made as entered:
            yield entered

    return stream
