"""Channels of one's own whose calls do not end, whatever they are told."""

import asyncio

import pytest
import yaml

from checkrail.llm import timeouts
from checkrail.sessions import channel_host, replies

from .conftest import FILE, open_desk

STUCK = """
import asyncio

from checkrail.channels import Address, Channel, ChannelOptions, Inbound, Sent


class Options(ChannelOptions):
    place: str = ""


class Stuck(Channel):
    Options = Options
    released = False

    async def stick(self, place):
        while self.options.place == place and not Stuck.released:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass

    async def open(self, accept):
        await super().open(accept)
        await self.stick("open")

    async def send(self, to, part, *, delivery_id):
        await self.stick("send")
        return Sent(delivery_id)

    async def close(self):
        await self.stick("close")
"""
PLACES = ("open", "send", "close")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(channel_host, "_OPENING", 0.1)
    monkeypatch.setattr(replies, "_CALLING", 0.1)
    monkeypatch.setattr(timeouts, "GRACE", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_what_does_not_end_holds_up_neither_the_start_nor_others_nor_the_stop(project):
    told = {place: {"type": "./stuck.py:Stuck", "place": place} for place in PLACES}
    told = {name: {**each, "agent": "parrot"} for name, each in told.items()}
    file = project(FILE + yaml.safe_dump({"channels": told}), stuck=STUCK)
    async with asyncio.timeout(60), open_desk(file) as desk:
        host = desk.sessions.host
        assert (await desk.client.post("/channels/open", content=b"{}")).status_code == 503
        channel = host.channels["send"]
        said = replies.Address("send", "1", "room")
        await channel.accept([channel_host.Inbound("message", "1", said, "ada", "Hello")])
        [row] = (await desk.client.get("/messages")).json()
        while True:
            shown = (await desk.client.get(f"/messages/{row['message_id']}")).json()
            if any(each["last_error"] for each in shown["deliveries"]):
                break
            await asyncio.sleep(0.02)
        [delivery] = shown["deliveries"]
        assert (delivery["status"], delivery["last_error"]) == (
            "owed",
            "the channel took longer than 0.1 seconds",
        )
    type(channel).released = True  # or the event loop itself waits for them
