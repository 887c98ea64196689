"""Answers that no model gave, in the ways that LiteLLM leaves for them."""

from __future__ import annotations

import importlib
from typing import Any

from checkrail.adapters.litellm.calls import Call
from checkrail.adapters.litellm.refusals import refused_before
from checkrail.agent.messages import text_of
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Refusal

PLACEHOLDER = "answered by a hook"
"""What LiteLLM takes for the model's answer, until the answer takes its place."""


def answering(call: Call, data: dict[str, Any], message: AssistantMessage | None) -> dict[str, Any]:
    """Have LiteLLM answer without a model; a stream begins with an exception of its own."""
    call.synthetic = answer = message or AssistantMessage()
    if not call.request.stream:
        whole = call.format.name == "chat"
        data["mock_response"] = call.format.answer(answer, call.request) if whole else PLACEHOLDER
        return data
    if call.format.name == "responses" and answer.tool_calls:
        told = "LiteLLM cannot stream an answer of a hook that calls tools: ask without stream"
        raise refused_before(call.format, Refusal(501, told, "not_supported"))
    modified = importlib.import_module("litellm.exceptions").ModifyResponseException
    raise modified(
        message=text_of(answer.content),
        model=call.request.model or "",
        request_data=data,
        guardrail_name="checkrail",
    )
