"""The four APIs as their callers speak them: requests written, and answers read, by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from checkrail.llm.aws_frames import FrameSplitter

Json = dict[str, Any]


@dataclass
class Heard:
    """What a caller makes of an answer."""

    text: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    stop: str | None = None
    error: Json | None = None
    ended: bool = False
    usage: bool = False


def events(stream: bytes) -> list[tuple[str, Json | str]]:
    """Read a stream as its events: their names, and what they tell."""
    found = []
    for block in stream.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = next((line[7:] for line in lines if line.startswith("event: ")), "")
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found


def plain(content: Any) -> str:
    """Give the text of a content, which may be in parts."""
    if isinstance(content, str | None):
        return content or ""
    return "".join(part.get("text", "") for part in content)


class Dialect:
    """What APIs have in common whose requests name the model in the body."""

    def sent(self, path: str, body: Any) -> tuple[str, Any]:
        """Give the path and the body of a request that is written as all are here."""
        return path, body

    def shown(self, raw: bytes) -> bytes:
        """Give what is in an answer, without what it is packed in."""
        return raw


class Chat(Dialect):
    """Chat completions."""

    name = "chat"
    plain, calling = "stop", "tool_calls"

    def request(self, text: str = "Hello", *, stream: bool = False, **more: Any) -> Json:
        body = {"model": "test-model", "messages": [{"role": "user", "content": text}], **more}
        return body | ({"stream": True} if stream else {})

    def with_result(self, content: str, *, stream: bool = False) -> Json:
        function = {"name": "read", "arguments": '{"path": "a"}'}
        body = self.request(stream=stream)
        body["messages"] += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_r", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_r", "content": content},
        ]
        return body

    def said(self, body: Json) -> list[str]:
        """Give the texts of a request."""
        return [plain(message["content"]) for message in body["messages"]]

    def result(self, body: Json) -> str:
        """Give the first result of a tool in a request."""
        return next(plain(m["content"]) for m in body["messages"] if m["role"] == "tool")

    def heard(self, body: Json) -> Heard:
        if "error" in body:
            return Heard(error=body["error"])
        choice = body["choices"][0]
        calls = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in choice["message"].get("tool_calls") or ()
        ]
        text = choice["message"]["content"] or ""
        return Heard(text, calls, choice["finish_reason"], None, True, "usage" in body)

    def heard_stream(self, stream: bytes) -> Heard:
        heard, calls = Heard(), {}
        for _, data in events(stream):
            assert not heard.ended
            if data == "[DONE]":
                heard.ended = True
                continue
            if "error" in data:
                heard.error = data["error"]
                continue
            heard.usage = heard.usage or bool(data.get("usage"))
            for choice in data["choices"]:
                heard.text += choice["delta"].get("content") or ""
                heard.stop = choice.get("finish_reason") or heard.stop
                for call in choice["delta"].get("tool_calls") or ():
                    known = calls.setdefault(call["index"], ["", ""])
                    known[0] += call["function"].get("name") or ""
                    known[1] += call["function"].get("arguments") or ""
        heard.calls = [(name, json.loads(args or "{}")) for name, args in calls.values()]
        return heard


class Messages(Dialect):
    """Anthropic's messages."""

    name = "messages"
    plain, calling = "end_turn", "tool_use"

    def request(self, text: str = "Hello", *, stream: bool = False, **more: Any) -> Json:
        messages = [{"role": "user", "content": text}]
        body = {"model": "test-model", "max_tokens": 100, "messages": messages, **more}
        return body | ({"stream": True} if stream else {})

    def with_result(self, content: str, *, stream: bool = False) -> Json:
        body = self.request(stream=stream)
        use = {"type": "tool_use", "id": "call_r", "name": "read", "input": {"path": "a"}}
        result = {"type": "tool_result", "tool_use_id": "call_r", "content": content}
        body["messages"] += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
        return body

    def said(self, body: Json) -> list[str]:
        system = [plain(body["system"])] if "system" in body else []
        return system + [plain(message["content"]) for message in body["messages"]]

    def result(self, body: Json) -> str:
        parts = [
            part
            for m in body["messages"]
            if isinstance(m["content"], list)
            for part in m["content"]
        ]
        return next(plain(part["content"]) for part in parts if part["type"] == "tool_result")

    def heard(self, body: Json) -> Heard:
        if body["type"] == "error":
            return Heard(error=body["error"])
        text = "".join(part["text"] for part in body["content"] if part["type"] == "text")
        uses = [part for part in body["content"] if part["type"] == "tool_use"]
        calls = [(use["name"], use["input"]) for use in uses]
        return Heard(text, calls, body["stop_reason"], None, True, "usage" in body)

    def heard_stream(self, stream: bytes) -> Heard:
        heard, blocks = Heard(), {}
        for name, data in events(stream):
            assert name == data["type"]
            assert not heard.ended
            match data["type"]:
                case "error":
                    heard.error = data["error"]
                case "content_block_start":
                    blocks[data["index"]] = [data["content_block"], ""]
                case "content_block_delta":
                    delta = data["delta"]
                    blocks[data["index"]][1] += delta.get("text") or delta.get("partial_json") or ""
                case "message_delta":
                    heard.stop = data["delta"]["stop_reason"]
                    heard.usage = "usage" in data
                case "message_stop":
                    heard.ended = True
        for block, told in blocks.values():
            if block["type"] == "text":
                heard.text += block["text"] + told
            elif block["type"] == "tool_use":
                heard.calls.append((block["name"], json.loads(told or "{}")))
        return heard


class Responses(Dialect):
    """OpenAI's responses."""

    name = "responses"
    plain = calling = "completed"

    def request(self, text: str = "Hello", *, stream: bool = False, **more: Any) -> Json:
        body = {"model": "test-model", "input": [{"role": "user", "content": text}], **more}
        return body | ({"stream": True} if stream else {})

    def with_result(self, content: str, *, stream: bool = False) -> Json:
        body = self.request(stream=stream)
        call = {"type": "function_call", "call_id": "call_r", "name": "read"}
        body["input"] += [
            call | {"arguments": '{"path": "a"}'},
            {"type": "function_call_output", "call_id": "call_r", "output": content},
        ]
        return body

    def said(self, body: Json) -> list[str]:
        told = [body["instructions"]] if body.get("instructions") else []
        return told + [plain(item.get("content", item.get("output"))) for item in body["input"]]

    def result(self, body: Json) -> str:
        found = (item for item in body["input"] if item.get("type") == "function_call_output")
        return next(plain(item["output"]) for item in found)

    def heard(self, body: Json) -> Heard:
        if body.get("error"):
            return Heard(error=body["error"])
        texts = [
            part["text"]
            for item in body["output"]
            if item["type"] == "message"
            for part in item["content"]
        ]
        calls = [
            (item["name"], json.loads(item["arguments"]))
            for item in body["output"]
            if item["type"] == "function_call"
        ]
        return Heard("".join(texts), calls, body["status"], None, True, bool(body.get("usage")))

    def heard_stream(self, stream: bytes) -> Heard:
        heard, items = Heard(), {}
        for name, data in events(stream):
            assert name in ("", data["type"])
            assert not heard.ended
            match data["type"]:
                case "error":
                    heard.error = data
                case "response.failed":
                    heard.error = heard.error or data["response"]["error"]
                case "response.output_item.added":
                    items[data["output_index"]] = [data["item"], ""]
                case "response.output_text.delta" | "response.function_call_arguments.delta":
                    items[data["output_index"]][1] += data["delta"]
                case "response.completed":
                    final = self.heard(data["response"])
                    heard.ended, heard.stop, heard.usage = True, final.stop, final.usage
        heard.text = "".join(told for item, told in items.values() if item["type"] == "message")
        heard.calls = [
            (item["name"], json.loads(told or "{}"))
            for item, told in items.values()
            if item["type"] == "function_call"
        ]
        assert not heard.ended or (heard.text, heard.calls) == (final.text, final.calls)
        return heard


class Gemini(Dialect):
    """Google's Gemini. Its path names the model and says whether it is a stream."""

    name = "gemini"
    plain = calling = "STOP"

    def sent(self, path: str, body: Any) -> tuple[str, Any]:
        body = dict(body)
        verb = "streamGenerateContent?alt=sse" if body.pop("stream", False) else "generateContent"
        return f"{path}/{body.pop('model')}:{verb}", body

    def request(self, text: str = "Hello", *, stream: bool = False, **more: Any) -> Json:
        contents = [{"role": "user", "parts": [{"text": text}]}]
        body = {"model": "test-model", "contents": contents, **more}
        return body | ({"stream": True} if stream else {})

    def with_result(self, content: str, *, stream: bool = False) -> Json:
        body = self.request(stream=stream)
        call = {"functionCall": {"name": "read", "args": {"path": "a"}}}
        result = {"functionResponse": {"name": "read", "response": {"result": content}}}
        body["contents"] += [
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result]},
        ]
        return body

    def said(self, body: Json) -> list[str]:
        system = [plain(body["systemInstruction"]["parts"])] if "systemInstruction" in body else []
        return system + [plain(content["parts"]) for content in body["contents"]]

    def result(self, body: Json) -> str:
        parts = [part for content in body["contents"] for part in content["parts"]]
        found = next(part["functionResponse"] for part in parts if "functionResponse" in part)
        return next(iter(found["response"].values()))

    def heard(self, body: Json) -> Heard:
        if "error" in body:
            return Heard(error=body["error"])
        candidate = body["candidates"][0]
        parts = candidate.get("content", {}).get("parts", [])
        text = "".join(part["text"] for part in parts if "text" in part and "thought" not in part)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        told = [(call["name"], call.get("args", {})) for call in calls]
        stop = candidate.get("finishReason")
        return Heard(text, told, stop, None, bool(stop), "usageMetadata" in body)

    def heard_stream(self, stream: bytes) -> Heard:
        blocks = stream.decode().replace("\r\n", "\n").split("\n\n")
        found = [json.loads(block.split("data: ")[-1]) for block in blocks if block.strip()]
        return self.heard_pieces(found)

    def heard_pieces(self, pieces: list[Json]) -> Heard:
        heard = Heard()
        for piece in map(self.heard, pieces):
            assert not heard.ended
            heard.text += piece.text
            heard.calls += piece.calls
            heard.error = piece.error or heard.error
            heard.stop, heard.ended, heard.usage = piece.stop, piece.ended, piece.usage
        return heard


DIALECTS = {dialect.name: dialect for dialect in (Chat(), Messages(), Responses(), Gemini())}
"""Those that have all their own."""


class Bedrock(Messages):
    """Anthropic's messages at AWS: the path names the model, and a stream is frames."""

    name = "bedrock"

    def sent(self, path: str, body: Any) -> tuple[str, Any]:
        body = dict(body)
        verb = "invoke-with-response-stream" if body.pop("stream", False) else "invoke"
        return f"{path}/{body.pop('model')}/{verb}", body

    def heard(self, body: Json) -> Heard:
        return Heard(error=body) if "message" in body else super().heard(body)

    def shown(self, raw: bytes) -> bytes:
        pieces = FrameSplitter().feed(raw) if raw.startswith(b"\x00") else []
        return b"\n".join(piece.data for piece in pieces) or raw

    def heard_stream(self, stream: bytes) -> Heard:
        told = [json.loads(piece.data) for piece in FrameSplitter().feed(stream)]
        lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told)
        return super().heard_stream("".join(lines).encode())


class Vertex(Messages):
    """Anthropic's messages at Google: the path names the model."""

    name = "vertex"

    def sent(self, path: str, body: Any) -> tuple[str, Any]:
        body = dict(body)
        verb = "streamRawPredict" if body.get("stream") else "rawPredict"
        return f"{path}/{body.pop('model')}:{verb}", body


CLOUDS = {dialect.name: dialect for dialect in (Bedrock(), Vertex())}
EVERY = DIALECTS | CLOUDS

PROXIED = {name: DIALECTS[name] for name in ("chat", "messages", "responses")}
"""Those that hooks know in a proxy of somebody else's."""
