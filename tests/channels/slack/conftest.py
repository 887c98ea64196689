"""A Slack on this machine, and channels that talk to it."""

import pytest
from tests.channels.servers.slack import SlackServer

from checkrail.channels.slack import SlackChannel


@pytest.fixture
async def slack():
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def make_channel(slack):
    """Makes channels, which are closed at the end, and what came in through them."""
    made = []

    async def make(**options):
        channel = SlackChannel("slack", SlackChannel.Options(**slack.options(**options)))
        made.append(channel)
        taken = []

        async def accept(found):
            taken.extend(found)

        await channel.open(accept)
        return channel, taken

    yield make
    for channel in made:
        await channel.close()
