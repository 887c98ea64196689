"""How Anthropic's messages look on the wire."""

import json
from collections.abc import Mapping
from typing import Any

from .replies import Call, Say, pieces

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class AnthropicWire:
    prefix = ""
    path = "/v1/messages"

    def whole(self, reply: Say, asked: Mapping[str, Any]) -> dict[str, Any]:
        ended = {"content": _blocks(reply), "stop_reason": _stop(reply), "usage": _usage(reply)}
        return _message(asked) | ended

    def begun(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        counted = _usage(reply) | {"output_tokens": 1}
        start = {"type": "message_start", "message": _message(asked) | {"usage": counted}}
        events = [_event(start), _event({"type": "ping"})]
        for index, block in enumerate(_blocks(reply)):
            events += _block_events(index, block, reply)
        return events

    def ended(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        usage = {"output_tokens": reply.usage[1]}
        return [
            _event({"type": "message_delta", "delta": delta, "usage": usage}),
            _event({"type": "message_stop"}),
        ]

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = TYPES.get(status, "api_error")
        error = {"details": None, "type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}

    def broken(self, message: str) -> str:
        return _event(self.error(529, message))


def _block_events(index: int, block: dict[str, Any], reply: Say) -> list[str]:
    match block["type"]:
        case "thinking":
            empty: dict[str, Any] = {"thinking": "", "signature": ""}
            deltas = [
                *({"type": "thinking_delta", "thinking": one} for one in pieces(reply.thinking)),
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "text":
            empty = {"text": ""}
            deltas = [{"type": "text_delta", "text": one} for one in pieces(reply.text)]
        case _:
            empty = {"input": {}}
            written = reply.calls[index - len(_blocks(reply)) + len(reply.calls)].arguments
            parts = ["", *pieces(written, 5)]
            deltas = [{"type": "input_json_delta", "partial_json": one} for one in parts]
    opened = {"type": "content_block_start", "index": index, "content_block": block | empty}
    grown = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [_event(one) for one in (opened, *grown, {"type": "content_block_stop", "index": index})]


def _event(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {data['type']}\ndata: {text}\n\n"


def _message(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": f"{asked['model']}-20260205",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(reply: Say) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "EqQBCgIYAg=="})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for position, call in enumerate(reply.calls):
        named = {"id": call.id or f"toolu_{position}", "name": call.name}
        blocks.append({"type": "tool_use", **named, "input": _input(call)})
    return blocks


def _input(call: Call) -> Any:
    """Give the arguments as an object, as the API does; what is none stays what was written."""
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else call.arguments


def _stop(reply: Say) -> str:
    return reply.stop or ("tool_use" if reply.calls else "end_turn")


def _usage(reply: Say) -> dict[str, Any]:
    sent, answered = reply.usage
    return {
        "input_tokens": sent - 2,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": answered,
        "service_tier": "standard",
    }
