"""How OpenAI's Responses API answers, as its tests need it: items, whole answers, and streams."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from checkrail.llm.sse import EventSplitter, Piece

Body = dict[str, Any]


def text_item(text: str = "Hello", id: str = "msg_1", **more: Any) -> Body:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    about = {"id": id, "type": "message", "status": "completed", "role": "assistant"}
    return {**about, "content": [part | more]}


def call_item(name: str = "transfer", arguments: str = '{"amount": 5}', id: str = "call_1") -> Body:
    about = {"id": f"fc_{id}", "type": "function_call", "status": "completed"}
    return {**about, "arguments": arguments, "call_id": id, "name": name}


def custom_item(input: str = "ls -l", id: str = "call_c") -> Body:
    about = {"id": f"ctc_{id}", "type": "custom_tool_call", "status": "completed"}
    return {**about, "call_id": id, "name": "exec", "input": input}


def thought_item(*summary: str, id: str = "rs_1") -> Body:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"id": id, "type": "reasoning", "encrypted_content": "gAAAA", "summary": parts}


SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "weather"},
}


def answer(*items: Body, **more: Any) -> Body:
    usage = {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 123,
    }
    return {
        "id": "resp_67ccd",
        "object": "response",
        "created_at": 1741476542,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-grand-1",
        "output": [*items],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        "metadata": {},
        **more,
    }


def stream(*items: Body, size: int = 4, **more: Any) -> bytes:
    """Write an answer as the API streams it, its texts in fragments of this size."""
    return b"".join(stream_events(answer(*items, **more), size))


def stream_events(whole: Body, size: int = 4) -> list[bytes]:
    return [_event(number, data) for number, data in enumerate(_events(whole, size))]


def _events(whole: Body, size: int) -> Iterator[Body]:
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        yield from _item_events(index, item, size)
    ended = {"incomplete": "incomplete", "failed": "failed"}.get(whole["status"], "completed")
    yield {"type": f"response.{ended}", "response": whole}


def _item_events(index: int, item: Body, size: int) -> Iterator[Body]:
    at = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            empty: Body = {"content": []}
            inner = [
                event
                for place, part in enumerate(item["content"])
                for event in _part_events(at | {"content_index": place}, part, size)
            ]
        case "reasoning":
            empty = {"summary": []}
            inner = [
                event
                for place, part in enumerate(item["summary"])
                for event in _summary_events(at | {"summary_index": place}, part, size)
            ]
        case "function_call":
            empty = {"arguments": ""}
            inner = _argument_events(at, "function_call_arguments", "arguments", item, size)
        case "custom_tool_call":
            empty = {"input": ""}
            inner = _argument_events(at, "custom_tool_call_input", "input", item, size)
        case _:
            empty, inner = {}, []
    status = {"status": "in_progress"} if "status" in item else {}
    begun = item | empty | status
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from inner
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(at: Body, part: Body, size: int) -> Iterator[Body]:
    field = "text" if "text" in part else "refusal"
    name = "response.output_text" if field == "text" else "response.refusal"
    odds = {"logprobs": []} if field == "text" else {}
    yield {"type": "response.content_part.added", **at, "part": part | {field: ""}}
    for piece in fragments(part[field], size):
        yield {"type": f"{name}.delta", **at, "delta": piece, **odds, "obfuscation": "x9"}
    yield {"type": f"{name}.done", **at, field: part[field], **odds}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(at: Body, part: Body, size: int) -> Iterator[Body]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **at, "part": part | {"text": ""}}
    for piece in fragments(part["text"], size):
        yield {"type": f"{name}_text.delta", **at, "delta": piece}
    yield {"type": f"{name}_text.done", **at, "text": part["text"]}
    yield {"type": f"{name}_part.done", **at, "part": part}


def _argument_events(at: Body, name: str, field: str, item: Body, size: int) -> list[Body]:
    deltas = [
        {"type": f"response.{name}.delta", **at, "delta": piece}
        for piece in fragments(item[field], size)
    ]
    return [*deltas, {"type": f"response.{name}.done", **at, field: item[field]}]


def fragments(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(number: int, data: Body) -> bytes:
    numbered = {"type": data["type"], "sequence_number": number} | data
    return f"event: {data['type']}\ndata: {json.dumps(numbered)}\n\n".encode()


def pieces_of(data: bytes) -> list[Piece]:
    return EventSplitter().feed(data)


def told(data: bytes | Sequence[bytes]) -> list[Body]:
    """Read the events of a stream back."""
    whole = data if isinstance(data, bytes) else b"".join(data)
    return [json.loads(piece.data) for piece in pieces_of(whole) if piece.data]


def check_order(events: Sequence[Body]) -> None:
    """Refuse a stream whose events are not in the order of the API."""
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    opened: dict[int, str] = {}
    closed: set[int] = set()
    for event in events[1:-1]:
        if "output_index" not in event:
            continue
        index = event["output_index"]
        assert index not in closed
        if event["type"] == "response.output_item.added":
            assert index == len(opened)
            opened[index] = event["item"]["id"]
        elif event["type"] == "response.output_item.done":
            assert event["item"]["id"] == opened[index]
            closed.add(index)
        else:
            assert event["item_id"] == opened[index]
    assert closed == set(opened)
