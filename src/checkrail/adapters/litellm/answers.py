"""Answers as LiteLLM has them, shown to hooks."""

from __future__ import annotations

import logging
from typing import Any

from checkrail.adapters.litellm.calls import Call
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Body, Refusal, UnreadableError
from checkrail.gateway.verdicts import Refused

log = logging.getLogger("checkrail.litellm")

HIDDEN = "_hidden_params"
"""What LiteLLM notes of an answer for itself."""


def _body(response: Any) -> Body:
    """Return an answer as JSON has it; what has no such form is empty, and so cannot be read."""
    if isinstance(response, dict):
        return {name: value for name, value in response.items() if name != HIDDEN}
    dump = getattr(response, "model_dump", None)
    found = dump(mode="json", exclude_unset=True) if dump is not None else None
    return found if isinstance(found, dict) else {}


async def judged(call: Call, response: Any) -> Body | None:
    """Show hooks an answer: what is to be sent in its place, or None. Raises `Refused`."""
    body = _body(response)
    message = _read(call, body)
    if message is None:
        return None
    answered = await call.judge.answer(call.sent, message)
    if answered.refusal is not None:
        raise Refused(answered.refusal)
    if answered.message is None:
        await call.send(call.sent)
    if answered.message == message:
        return None
    return call.format.write_answer(body, message, answered.message)


def _read(call: Call, body: Body) -> AssistantMessage | None:
    """Read an answer; None: it is odd, but nobody has to see it before the caller does."""
    try:
        return call.counted(call.sent, call.format.read_answer(body))
    except UnreadableError as error:
        if call.judge.holds() == "nothing":
            log.warning("an answer is passed on unread: it is not as its API is: %s", error)
            return None
        told = f"the answer cannot be read: {error}"
        raise Refused(Refusal(502, told, "upstream_error")) from None
