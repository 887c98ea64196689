"""How OpenAI's chat completions look on the wire."""

import json
from collections.abc import Mapping
from typing import Any

from .replies import Say, pieces

TYPES = {401: "invalid_request_error", 429: "requests", 500: "server_error"}


class OpenAIWire:
    prefix = "/v1"
    path = "/chat/completions"

    def whole(self, reply: Say, asked: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": None,
            "annotations": [],
        }
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": call.id or f"call_{position}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for position, call in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _stop(reply)}
        answer = self._envelope(asked, "chat.completion")
        return answer | {"choices": [choice], "usage": _usage(reply)}

    def begun(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        opening = {"role": "assistant", "content": None if reply.calls else "", "refusal": None}
        deltas: list[dict[str, Any]] = [opening]
        deltas += [{"content": piece} for piece in pieces(reply.text)]
        for index, call in enumerate(reply.calls):
            first = {
                "index": index,
                "id": call.id or f"call_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            rest = [
                {"index": index, "function": {"arguments": piece}}
                for piece in pieces(call.arguments, 5)
            ]
            deltas += [{"tool_calls": [piece]} for piece in (first, *rest)]
        return [self._chunk(asked, _choice(delta)) for delta in deltas]

    def ended(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        events = [self._chunk(asked, _choice({}, _stop(reply)))]
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append(self._chunk(asked, usage=_usage(reply)))
        return [*events, "data: [DONE]\n\n"]

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = TYPES.get(status, "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def broken(self, message: str) -> str:
        return f"data: {json.dumps(self.error(500, message))}\n\n"

    def _chunk(self, asked: Mapping[str, Any], *choices: dict[str, Any], usage: Any = None) -> str:
        chunk = self._envelope(asked, "chat.completion.chunk") | {"choices": [*choices]}
        data = json.dumps(chunk | {"usage": usage}, ensure_ascii=False, separators=(",", ":"))
        return f"data: {data}\n\n"

    def _envelope(self, asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return {
            "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
            "object": kind,
            "created": 1741570283,
            "model": f"{asked['model']}-2025-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_fc9f1d7035",
        }


def _choice(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}


def _stop(reply: Say) -> str:
    return reply.stop or ("tool_calls" if reply.calls else "stop")


def _usage(reply: Say) -> dict[str, Any]:
    sent, answered = reply.usage
    return {
        "prompt_tokens": sent,
        "completion_tokens": answered,
        "total_tokens": sent + answered,
        "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0},
    }
