"""A person in Slack and an agent on a server: one message, one run, one reply in its thread."""

import asyncio
import contextlib

import httpx2
import pytest
from tests.channels.servers.slack import APP_TOKEN, BOT_TOKEN, SECRET, event, event_request

from checkrail.server.app import build_app
from checkrail.server.project import Project
from checkrail.server.startup import open_services

TS = "1700000000.000100"
SAID = event(text="<@UBOT> Good morning", ts=TS)
MENTION = event(type="app_mention", text="<@UBOT> Good morning", ts=TS)

AGENTS = """
from checkrail.testing import ScriptedModel

parrot = ScriptedModel(lambda request: f"{request.messages[-1]['content']}, <!channel>")
"""

FILE = """
python_path: ["."]
env:
  allow: [BOT_TOKEN, SECRET, APP_TOKEN]
agents:
  parrot: {model: ./agents.py:parrot}
channels:
  slack:
    agent: parrot
    bot_token: ${BOT_TOKEN}
    base_url: %s/api/
    %s
"""


@pytest.fixture
async def open_server(slack, tmp_path, monkeypatch):
    """Opens a server whose channel has one more option, and gives a client of it."""
    monkeypatch.delenv("CHECKRAIL_DATABASE_URL", raising=False)
    for name, secret in (("BOT_TOKEN", BOT_TOKEN), ("SECRET", SECRET), ("APP_TOKEN", APP_TOKEN)):
        monkeypatch.setenv(name, secret)
    (tmp_path / "agents.py").write_text(AGENTS)

    @contextlib.asynccontextmanager
    async def opened(option):
        (tmp_path / "checkrail.yaml").write_text(FILE % (slack.url, option))
        async with open_services(Project(tmp_path / "checkrail.yaml"), dev=True) as services:
            transport = httpx2.ASGITransport(build_app(services), raise_app_exceptions=False)
            base = "http://127.0.0.1"
            async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
                yield client

    return opened


async def wait_for_reply(slack):
    async with asyncio.timeout(60):
        while not slack.messages:  # noqa: ASYNC110 - whoever sends it tells nobody here
            await asyncio.sleep(0.02)
    (message,) = slack.messages.values()
    return message


async def post(client, payload, **headers):
    request = event_request(payload, **headers)
    return await client.post("/channels/slack", content=request.body, headers=request.headers)


async def post_until_taken(client, payload):
    """Send an event again while the channel is not open yet, as Slack does."""
    async with asyncio.timeout(60):
        while (answer := await post(client, payload)).status_code == 503:  # noqa: ASYNC110 - as Slack
            await asyncio.sleep(0.02)
    assert answer.status_code == 200


async def test_a_mention_over_the_events_api_is_answered_once(slack, open_server):
    async with open_server("signing_secret: ${SECRET}") as client:
        forged = await post(client, SAID, x_slack_signature="v0=0")
        assert (forged.status_code, forged.headers["x-slack-no-retry"]) == (401, "1")
        for payload in (SAID, MENTION, SAID):
            await post_until_taken(client, payload)
        reply = await wait_for_reply(slack)
        runs = (await client.get("/runs")).json()
    assert (reply["channel"], reply["thread_ts"]) == ("C1", TS)
    assert reply["text"] == "Good morning, &lt;!channel&gt;"
    assert len(runs if isinstance(runs, list) else runs["runs"]) == 1
    assert len(slack.messages) == 1


async def test_a_mention_over_a_socket_is_answered_once(slack, open_server):
    async with open_server("app_token: ${APP_TOKEN}") as client:
        socket = await asyncio.wait_for(slack.connected.get(), 60)
        for number, payload in enumerate((SAID, MENTION)):
            await slack.push(socket, f"e{number}", payload)
            assert await asyncio.wait_for(slack.acks.get(), 60) == f"e{number}"
        assert (await wait_for_reply(slack))["text"] == "Good morning, &lt;!channel&gt;"
        assert (await post(client, SAID)).status_code == 404
    assert len(slack.messages) == 1
