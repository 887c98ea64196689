"""Answers that no model gave, in the ways that LiteLLM leaves for them."""

from __future__ import annotations

import importlib
from typing import Any

from checkrail.adapters.litellm.calls import Call
from checkrail.adapters.litellm.pending_calls import PendingCalls
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.verdicts import Refused
from checkrail.llm.conversation import text_of
from checkrail.llm.wire_format import Refusal

ANSWERED = "ModifyResponseException"
"""LiteLLM's exception that has a text in place of an answer."""

PLACEHOLDER = "answered by a hook"
"""What LiteLLM takes for the model's answer, until the answer takes its place."""

UNCACHED = {"no-cache": True, "no-store": True}
"""Has LiteLLM keep it for nobody else, who may have the model's answer."""


def answer_without_model(
    call: Call, data: dict[str, Any], message: AssistantMessage | None, waiting: PendingCalls
) -> dict[str, Any]:
    """Make LiteLLM answer without a model; a stream begins with an exception of its own."""
    call.synthetic = answer = message or AssistantMessage()
    _check_supported(call, answer)
    if not call.request.stream:
        whole = call.format.name == "chat"
        data["mock_response"] = (
            call.format.build_answer(answer, call.request) if whole else PLACEHOLDER
        )
        data["cache"] = UNCACHED
        return data
    if call.format.name != "responses":  # there, LiteLLM writes the stream and asks nobody
        waiting.add_marked(call, data)
    modified = getattr(importlib.import_module("litellm.exceptions"), ANSWERED)
    raise modified(
        message=text_of(answer.content),
        model=call.request.model or "",
        request_data=data,
        guardrail_name="checkrail",
    )


def _check_supported(call: Call, answer: AssistantMessage) -> None:
    """Refuse an answer that LiteLLM cannot send. Raises `Refused`."""
    told = None
    if call.passes_through:
        told = f"a hook cannot answer on a pass-through route of LiteLLM: ask {call.format.path}"
    elif call.request.stream and call.format.name == "responses" and answer.tool_calls:
        told = "LiteLLM cannot stream an answer of a hook that calls tools: ask without stream"
    if told is not None:
        raise Refused(Refusal(501, told, "not_supported"))
