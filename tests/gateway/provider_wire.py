"""How the four APIs write what a model says: whole, and as the events of a stream."""

import json
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
GEMINI = "/v1beta/models"
"""Before the name of the model, which stands in the path."""

BEDROCK = "/model"
VERTEX = "/v1/projects/p-1/locations/us-east5/publishers/anthropic/models"
"""Before the name of the model; what is said is said as in Anthropic's own API."""

Body = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """A model's answer: a text, calls of tools as (name, arguments), thoughts before them.

    Arguments that are a text go out as they are. Ids tell the answers of a conversation apart by
    their `turn`. A stream is sent in pieces of `cut` bytes, or one event at a time, each of which
    tells `fragment` characters. `waits` stops a stream after so many pieces until the provider is
    told to go on; `dies` breaks it off there.
    """

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    thinking: str = ""
    model: str = "model-1"
    usage: tuple[int, int] = (11, 7)
    cached: int = 0
    gzip: bool = False
    cut: int | None = None
    fragment: int = 5
    waits: int | None = None
    dies: int | None = None
    turn: int = 1
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def written_calls(self) -> list[tuple[str, str, str]]:
        """The calls with their ids, and their arguments as a text."""
        calling = "call" if self.turn == 1 else f"call_{self.turn}"
        return [
            (f"{calling}_{number}", name, args if isinstance(args, str) else json.dumps(args))
            for number, (name, args) in enumerate(self.calls, 1)
        ]


def whole(path: str, said: Say) -> Body:
    """Write an answer at once."""
    if path.startswith(GEMINI):
        return _gemini(said)
    return {CHAT: _chat, MESSAGES: _messages, RESPONSES: _responses}[path](said)


def events(path: str, said: Say, body: Body) -> list[bytes]:
    """Write an answer as the events of a stream."""
    if path == CHAT:
        return [*map(_data, _chat_chunks(said, body)), b"data: [DONE]\n\n"]
    if path.startswith(GEMINI):
        return [_data(chunk) for chunk in gemini_chunks(said)]
    made = _messages_events(said) if path == MESSAGES else _responses_events(said)
    return [b"event: " + event["type"].encode() + b"\n" + _data(event) for event in made]


def error(path: str, status: int, message: str) -> Body:
    """Write an error as an API does."""
    if path == MESSAGES:
        kinds = {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}
        kind = kinds.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if path.startswith(GEMINI):
        kinds = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
        kind = kinds.get(status, "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": kind}}
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def _data(event: Body) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _fragments(text: str, size: int) -> list[str]:
    """Cut a text where tokens might end."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _chat_usage(said: Say) -> Body:
    sent, answered = said.usage
    return {
        "prompt_tokens": sent,
        "completion_tokens": answered,
        "total_tokens": sent + answered,
        "prompt_tokens_details": {"cached_tokens": said.cached, "audio_tokens": 0},
    }


def _chat(said: Say) -> Body:
    message: Body = {"role": "assistant", "content": said.text or None, "refusal": None}
    if said.calls:
        message["tool_calls"] = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call, name, arguments in said.written_calls
        ]
    finish = "tool_calls" if said.calls else "stop"
    return {
        "id": f"chatcmpl-{said.turn}",
        "object": "chat.completion",
        "created": 1750000000,
        "model": said.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _chat_usage(said),
        "service_tier": "default",
        "system_fingerprint": "fp_1",
    }


def _chat_chunks(said: Say, body: Body) -> list[Body]:
    asked = (body.get("stream_options") or {}).get("include_usage")
    deltas: list[tuple[Body, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in _fragments(said.text, said.fragment)]
    for index, (call_id, name, arguments) in enumerate(said.written_calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": call_id, "type": "function", "function": function}
        deltas.append(({"tool_calls": [call]}, None))
        for piece in _fragments(arguments, said.fragment):
            more = {"index": index, "function": {"arguments": piece}}
            deltas.append(({"tool_calls": [more]}, None))
    deltas.append(({}, "tool_calls" if said.calls else "stop"))
    common = {
        "id": f"chatcmpl-{said.turn}",
        "object": "chat.completion.chunk",
        "created": 1750000000,
        "model": said.model,
        "system_fingerprint": "fp_1",
    }
    usage = {"usage": None} if asked else {}
    chunks = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **usage}
        for delta, finish in deltas
    ]
    return [*chunks, {**common, "choices": [], "usage": _chat_usage(said)}] if asked else chunks


def _message_blocks(said: Say) -> list[Body]:
    blocks: list[Body] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": "c2ln"})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for call_id, name, arguments in said.written_calls:
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": _input(arguments)})
    return blocks


def _input(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _messages(said: Say) -> Body:
    sent, answered = said.usage
    usage = {
        "input_tokens": sent - said.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": said.cached,
        "output_tokens": answered,
    }
    return {
        "id": f"msg_{said.turn}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": _message_blocks(said),
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def _messages_events(said: Say) -> list[Body]:
    answer = _messages(said)
    begun = {**answer, "content": [], "stop_reason": None}
    begun["usage"] = {**answer["usage"], "output_tokens": 1}
    made: list[Body] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(answer["content"]):
        made += _block_events(index, block, said)
        if index == 0:
            made.insert(2, {"type": "ping"})
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": said.usage[1]}
    made.append({"type": "message_delta", "delta": delta, "usage": usage})
    return [*made, {"type": "message_stop"}]


def _block_events(index: int, block: Body, said: Say) -> list[Body]:
    kind = block["type"]
    if kind == "text":
        empty = {"type": "text", "text": ""}
        deltas = [
            {"type": "text_delta", "text": piece}
            for piece in _fragments(block["text"], said.fragment)
        ]
    elif kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        pieces = _fragments(block["thinking"], said.fragment)
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        empty = {**block, "input": {}}
        written = next(text for call_id, _, text in said.written_calls if call_id == block["id"])
        pieces = ["", *_fragments(written, said.fragment)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    changes = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    start = {"type": "content_block_start", "index": index, "content_block": empty}
    return [start, *changes, {"type": "content_block_stop", "index": index}]


def _responses_items(said: Say) -> list[Body]:
    items: list[Body] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        items.append({"type": "reasoning", "id": f"rs_{said.turn}", "summary": summary})
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{said.turn}",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    for call_id, name, arguments in said.written_calls:
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{call_id}",
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
        )
    return items


def _responses(said: Say) -> Body:
    sent, answered = said.usage
    return {
        "id": f"resp_{said.turn}",
        "object": "response",
        "created_at": 1750000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": said.model,
        "output": _responses_items(said),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": said.cached},
            "output_tokens": answered,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sent + answered,
        },
    }


def _responses_events(said: Say) -> list[Body]:
    answer = _responses(said)
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    made: list[Body] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(answer["output"]):
        made += _item_events(index, item, said.fragment)
    made.append({"type": "response.completed", "response": answer})
    return [{**event, "sequence_number": number} for number, event in enumerate(made)]


def _item_events(index: int, item: Body, size: int) -> list[Body]:
    at = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        inner = _part_events(item["content"][0], {**at, "content_index": 0}, size)
        empty = {**item, "status": "in_progress", "content": []}
    elif item["type"] == "function_call":
        kind = "response.function_call_arguments"
        pieces = _fragments(item["arguments"], size)
        inner = [{"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces]
        inner.append({"type": f"{kind}.done", **at, "arguments": item["arguments"]})
        empty = {**item, "status": "in_progress", "arguments": ""}
    else:
        inner = _summary_events(item["summary"][0], {**at, "summary_index": 0}, size)
        empty = {**item, "summary": []}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": empty},
        *inner,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _part_events(part: Body, at: Body, size: int) -> list[Body]:
    delta = {"type": "response.output_text.delta", **at, "logprobs": []}
    done = {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    return [
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({**delta, "delta": piece} for piece in _fragments(part["text"], size)),
        done,
        {"type": "response.content_part.done", **at, "part": part},
    ]


def _summary_events(part: Body, at: Body, size: int) -> list[Body]:
    kind = "response.reasoning_summary"
    return [
        {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}},
        *(
            {"type": f"{kind}_text.delta", **at, "delta": each}
            for each in _fragments(part["text"], size)
        ),
        {"type": f"{kind}_text.done", **at, "text": part["text"]},
        {"type": f"{kind}_part.done", **at, "part": part},
    ]


def _gemini_parts(said: Say) -> list[Body]:
    parts: list[Body] = [{"text": said.thinking, "thought": True}] if said.thinking else []
    if said.text:
        parts.append({"text": said.text})
    for number, (_, name, arguments) in enumerate(said.written_calls):
        part: Body = {"functionCall": {"name": name, "args": _input(arguments)}}
        parts.append(part | ({} if number else {"thoughtSignature": "c2lnbmVk"}))
    return parts


def _gemini(said: Say) -> Body:
    sent, answered = said.usage
    usage = {
        "promptTokenCount": sent,
        "candidatesTokenCount": answered,
        "totalTokenCount": sent + answered,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": sent}],
    }
    if said.cached:
        usage["cachedContentTokenCount"] = said.cached
    content = {"parts": _gemini_parts(said), "role": "model"}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": said.model,
        "responseId": "resp_1",
    }


def gemini_chunks(said: Say) -> list[Body]:
    """Write an answer as the pieces of a stream, the last of which has the finish reason."""
    answer = _gemini(said)
    parts: list[Body] = []
    for part in answer["candidates"][0]["content"]["parts"]:
        pieces = _fragments(part["text"], said.fragment) if "text" in part else []
        parts += [{**part, "text": piece} for piece in pieces] or [part]
    made = []
    for part in [*parts, {"text": ""}]:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        usage = {"promptTokenCount": said.usage[0], "totalTokenCount": said.usage[0]}
        made.append({**answer, "candidates": [candidate], "usageMetadata": usage})
    made[-1]["candidates"][0]["finishReason"] = "STOP"
    made[-1]["usageMetadata"] = answer["usageMetadata"]
    return made
