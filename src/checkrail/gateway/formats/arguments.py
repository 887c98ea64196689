"""Arguments of tool calls that one client might read otherwise than another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from checkrail.agent.messages import UNPARSED, unparsed_in
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.json_bytes import names_twice


def in_one_way(message: AssistantMessage, arguments: Iterable[Any]) -> AssistantMessage:
    """Return an answer whose arguments mean one thing: others are kept like those that are no JSON.

    `arguments` are those of its calls as they came.
    """
    pairs = zip(message.tool_calls, arguments, strict=True)
    texts = {
        call.id: given for call, given in pairs if isinstance(given, str) and names_twice(given)
    }
    if not texts:
        return message
    return dataclasses.replace(
        message,
        tool_calls=[
            dataclasses.replace(call, args={}) if call.id in texts else call
            for call in message.tool_calls
        ],
        metadata={**message.metadata, UNPARSED: {**unparsed_in(message), **texts}},
    )
