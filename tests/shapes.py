"""A text in every shape that the model APIs, LangChain and MCP bring."""

from __future__ import annotations

import base64
import json

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from mcp.types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

NEEDLE = "push --force"
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def _split(text):
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


def _thinking(text):
    return {"type": "thinking", "thinking": text, "signature": "c2ln"}


def _arguments(text):
    """Write arguments as some models do, with every letter as its number."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in text if ord(letter) < 0x10000)
    return f'{{"command": "{escaped}"}}'


# Each makes content of a text, in the shape that somebody's API gives it.
SHAPES = {
    "text": lambda t: t,
    "bytes": lambda t: t.encode(),
    "words": lambda t: t.split(" "),
    "command line": lambda t: ["bash", "-lc", f"git {t}"],
    "chat parts": lambda t: [{"type": "text", "text": t}],
    "parts in pieces": lambda t: [{"type": "text", "text": piece} for piece in _split(t)],
    "chat image": lambda t: [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": t},
    ],
    "chat image address": lambda t: [{"type": "image_url", "image_url": {"url": t}}],
    "chat refusal": lambda t: [{"type": "refusal", "refusal": t}],
    "messages thinking": lambda t: [_thinking(t), {"type": "text", "text": "Hello"}],
    "messages after thinking": lambda t: [_thinking("Hm"), {"type": "text", "text": t}],
    "messages citation": lambda t: [{"type": "text", "text": "x", "citations": [{"title": t}]}],
    "messages tool use": lambda t: [
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": t.split(" ")}}
    ],
    "messages tool result": lambda t: [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": t}]}
    ],
    "messages document": lambda t: [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": t}},
        {"type": "image", "source": PNG},
    ],
    "messages document context": lambda t: [{"type": "document", "source": PNG, "context": t}],
    "responses text": lambda t: [{"type": "output_text", "text": t, "annotations": []}],
    "responses reasoning": lambda t: [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": t}]}
    ],
    "responses call": lambda t: [
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": _arguments(t)}
    ],
    "responses unknown": lambda t: [{"type": "made_up_call", "action": {"query": t}}],
    "parts of a type that nobody knows": lambda t: [
        {"type": "reasoning.text", "index": 0, "text": piece} for piece in _split(t)
    ],
    "words and parts": lambda t: [*t.split(" "), {"type": "text", "text": "now"}],
    "parts and words": lambda t: [{"type": "text", "text": "now"}, *t.split(" ")],
    "parts without a space": lambda t: [{"type": "text", "text": word} for word in t.split(" ")],
    "parts around an image": lambda t: [
        {"type": "text", "text": _split(t)[0]},
        {"type": "image", "source": PNG},
        {"type": "text", "text": _split(t)[1]},
    ],
    "parts around thinking": lambda t: [
        {"type": "text", "text": _split(t)[0]},
        _thinking("Hm"),
        {"type": "text", "text": _split(t)[1]},
    ],
    "thinking in pieces": lambda t: [*map(_thinking, _split(t))],
    "cache control": lambda t: [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": t}}
    ],
    "a signature that is none": lambda t: [{"type": "thinking", "thinking": "", "signature": t}],
    "base64 file": lambda t: [
        {"type": "file", "file": {"file_data": f"data:text/plain;base64,{_encoded(t)}"}}
    ],
    "mcp blob": lambda t: [
        {"type": "resource", "resource": {"uri": "u", "mimeType": "a/b", "blob": _encoded(t)}}
    ],
    "arguments with a name twice": lambda t: [
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "bash",
            "arguments": json.dumps({"a": t})[:-1] + ', "a": "ls"}',
        }
    ],
    "langchain mixed": lambda t: ["Hello ", {"type": "text", "text": t}],
    "langchain reasoning": lambda t: [{"type": "reasoning", "reasoning": t}],
    "langchain message": lambda t: AIMessage(content=t),
    "langchain messages": lambda t: {
        "messages": [HumanMessage(content=[{"type": "text", "text": t}])]
    },
    "langchain tool message": lambda t: [ToolMessage(content=t, tool_call_id="c1")],
    "mcp content": lambda t: [TextContent(type="text", text=t)],
    "mcp result": lambda t: CallToolResult(content=[TextContent(type="text", text=t)]),
    "mcp resource": lambda t: [
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri="file:///a", mimeType="text/plain", text=t),
        )
    ],
    "mcp structured": lambda t: {"structuredContent": {"rows": [{"type": "text", "id": t}]}},
    "nested": lambda t: {"a": [{"b": {"c": [1, [t]]}}]},
    "key": lambda t: {"files": {t: 1}},
    "tuple": lambda t: (1, (t, None)),
    "set": lambda t: {t},
    "message": lambda t: {"role": "user", "content": t},
}
