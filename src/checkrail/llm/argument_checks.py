"""Arguments of tool calls that one client might read otherwise than another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage
from checkrail.llm.conversation import unparsed_in
from checkrail.llm.json_bytes import has_duplicate_names


def check_arguments(message: AssistantMessage, arguments: Iterable[Any]) -> AssistantMessage:
    """Return an answer without ambiguous arguments, which are kept like those that are not JSON.

    `arguments` are those of its calls as they came.
    """
    pairs = zip(message.tool_calls, arguments, strict=True)
    texts = {
        call.id: given
        for call, given in pairs
        if isinstance(given, str) and has_duplicate_names(given)
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
