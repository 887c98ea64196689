"""A text before the first reply of a session."""

import pytest

from checkrail import OutboundMessage
from checkrail.builtin import greeting
from checkrail.testing import RecordingRegistry

REPLY = OutboundMessage("ann", "web", "It is sunny.")


async def fire(**metadata):
    registry = RecordingRegistry()
    registry.register(greeting, config={"text": "Welcome!"})
    return (await registry.fire("before_outbound", REPLY, metadata=metadata)).value


async def test_the_first_reply_has_a_text_before_it():
    assert (await fire(first_reply=True)).content == "Welcome!\n\nIt is sunny."


@pytest.mark.parametrize("metadata", [{}, {"first_reply": False}, {"first_reply": "yes"}])
async def test_any_other_reply_stays_as_it_is(metadata):
    assert await fire(**metadata) is REPLY
