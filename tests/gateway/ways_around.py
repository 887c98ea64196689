"""The list of ways around the hooks: requests, and answers, that somebody might try.

A request carries `SECRET`, which hooks take out: it must not arrive at the upstream. An answer
carries a call of `transfer` with `PAYLOAD`, which hooks block: it must not arrive at the caller.
"""

# ruff: noqa: RUF001 - letters that look like others

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import brotli
import zstandard

from checkrail.llm.aws_frames import write_chunk
from checkrail.llm.sse import EventSplitter

from .provider_wire import BEDROCK, CHAT, GEMINI, MESSAGES, RESPONSES, VERTEX

SECRET = "sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb"
PAYLOAD = "PAYLOAD-4711"
TALK = {"role": "user", "content": f"I am {SECRET}"}
CHAT_BODY = {"model": "m", "messages": [TALK]}
ASKED = json.dumps(CHAT_BODY).encode()
OTHERS = {
    MESSAGES: json.dumps({"model": "m", "max_tokens": 9, "messages": [TALK]}).encode(),
    RESPONSES: json.dumps({"model": "m", "input": [TALK]}).encode(),
}
JSON = "content-type: application/json"
HELLO = {"role": "user", "parts": [{"text": f"I am {SECRET}"}]}
GEMINI_ASKED = json.dumps({"contents": [HELLO]}).encode()
CLOUD_BODY = {"anthropic_version": "2023-05-31", "max_tokens": 9, "messages": [TALK]}
CLOUD_ASKED = json.dumps(CLOUD_BODY).encode()


@dataclass(frozen=True)
class Way:
    """A request as it is written on a connection; `framing` says how long its body is."""

    line: str = f"POST {CHAT}"
    headers: tuple[str, ...] = (JSON,)
    body: bytes = ASKED
    framing: str | None = None
    version: str = "HTTP/1.1"

    def write(self) -> bytes:
        """Write all of it."""
        framing = self.framing if self.framing is not None else f"content-length: {len(self.body)}"
        lines = [f"{self.line} {self.version}", "host: 127.0.0.1", "connection: close"]
        lines += [*self.headers, *filter(None, [framing])]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body


def chunked(data: bytes, extension: str = "", trailers: str = "") -> bytes:
    """Write a body in two chunks."""
    half = len(data) // 2
    parts = [
        b"%x%s\r\n%s\r\n" % (len(p), extension.encode(), p) for p in (data[:half], data[half:])
    ]
    return b"".join(parts) + b"0\r\n" + trailers.encode() + b"\r\n"


SPELLINGS = """
/v1/chat/completions /v1/chat/completions/ /v1/chat/completions// //v1/chat/completions
/v1//chat//completions /v1/./chat/completions /v1/chat/./completions /v1/chat/completions/.
/v1/x/../chat/completions /v1/x/%2e%2e/chat/completions /v1/x/%252e%252e/chat/completions
/v1/x%3F/../chat/completions /v1/x%23/%2e%2e/chat/completions /v1/x%00/../chat/completions
/v1/x;/..;/chat/completions /v1/..;x/v1/chat/completions /v1/x\\..\\chat\\completions
/v1/%EF%BC%8E%EF%BC%8E/v1/chat/completions /v1/%E2%80%A5/v1/chat/completions
/v1\\chat\\completions /v1/chat%5Ccompletions /v1/chat%2Fcompletions /v1/chat%252Fcompletions
/v1/chat%25252Fcompletions /v1/ch%61t/completions /v1/ch%2561t/completions /%76%31/chat/completions
/V1/CHAT/COMPLETIONS /v1/Chat/Completions /v1/chat/completions;x=1 /v1/chat;x/completions;y
/v1/chat/completions%20 /v1/chat/completions%09 /v1/chat/completions%0D%0A /v1/chat/completions%00
/v1/chat/completions%EF%BB%BF /v1/chat/completions%E2%80%8B /v1/chat/completion%C5%BF
/v1/%EF%BD%83hat/completions /v1%EF%BC%8Fchat%EF%BC%8Fcompletions /v1/chat%C0%AFcompletions
/v1/chat%u002fcompletions /v1/chat/completions% /v1/chat/completions%zz /v1/chat/completions?x=/../
/v1/chat/completions%3Fx /v1/chat/completions%23x /v1/chat/completions#x /chat/completions
//chat/completions http://127.0.0.1/v1/chat/completions http://127.0.0.1/v1/x/../chat/completions
"""

BEHIND = """
/v1/chat/completions/x /v1/chat/completions/x/y /v1/chat/completions/x/messages
/v1/chat/completions.json /v1/chat/completions:stream /v1/chat/completions,x
/v1/chat/completions@x /v1/chat/completions&x /v1/chat/completions%26x /v1/chat/completions=
/v1/chat/completions* /v1/messages/foo /v1/messages/batches /v1/messages/batches/b1/results
/v1/messages/count_tokens/x /v1/messages.json /v1/responses/x /v1/responses/x/y/z
/v1/responses/compact/x /v1/responses/input_tokens/x /v1/responses/resp_1/cancel
/v1/x/chat/completions/y /v1/v1/chat/completions /v1/V1//messages /v1/engines/m/chat/completions
/v1/beta/messages/x /v1/x/responses
"""

ELSEWHERE = """
/openai/deployments/m/chat/completions?api-version=2024-10-21 /openai/v1/chat/completions
/v1/openai/deployments/m/chat/completions /v1/deployments/m/chat/completions/x
/openai/deployments/m/chat%2Fcompletions /model/m/invoke /model/m/converse
/model/m/invoke-with-response-stream /v1/model/m/invoke /v1/model/m/converse-stream
/v1/endpoints/e/invocations /invocations /v1beta/models/m:generateContent
/v1beta/models/m:streamGenerateContent?alt=sse /v1/models/m:generateContent
/v1/models/m%3AgenerateContent /v1/models/m:countTokens /v1beta/chat/completions
/v1beta/openai/chat/completions /v1beta/../v1/chat/completions
/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict
/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict
/v2/chat /api/chat /api/generate /v1
"""

DOORS = {
    "gemini": """
/v1beta/models/m:generateContent /v1beta/models/m:streamGenerateContent
/v1beta/models/m:streamGenerateContent?alt=sse /v1beta/models/m:countTokens
/v1/models/m:generateContent /v1alpha/models/m:generateContent /models/m:generateContent
/v1beta/tunedModels/t:generateContent /v1beta/dynamic/d:generateContent
/v1beta/models/a/b:generateContent /v1beta/models/m%3AgenerateContent
/v1beta/models/m%253AgenerateContent /v1beta/models/m:GenerateContent
/V1BETA/MODELS/M:GENERATECONTENT //v1beta//models/m:generateContent/
/v1beta/models/m:generateContent;x /v1beta/models/m:generateContent%20
/v1beta/models/m:generateContent%E2%80%8B /v1beta/models/m:generate%EF%BC%A3ontent
/v1beta/models/m%EF%BC%9AgenerateContent /v1beta/models/x/../m:generateContent
/v1beta/models/m:generateContent?alt=sse&key=x /v1beta/models/m:generateContent%3Fx
/v1beta/models/m:embedContent:generateContent /v1beta/models/m:generateContent:x
/v1beta/models/m:generateContent/x /v1beta/models/m:generateContent,x
/v1beta/models/m:generateContent.json /v1beta/x/models/m:generateContent
/v1beta/models:generateContent /upload/v1beta/models/m:generateContent
/v1beta/v1beta/models/m:generateContent /v1beta/interactions /v1/interactions
/v1beta/interactions/i /v1beta/interactions:create /v1beta2/models/m:generateText
/v1beta/models/m:batchGenerateContent /v1beta/models/m:embedContent /v1beta/models/m:predict
/v1beta/models/m:generateAnswer /v1beta/projects/p/locations/l/publishers/google/models/m:predict
/v1/projects/p/locations/l/publishers/google/models/m:generateContent
""",
    "cloud": """
/model/m/invoke /model/m/invoke-with-response-stream /model/a%2Fb/invoke /model/a/b/invoke
/MODEL/m/INVOKE //model/m//invoke/ /model/m%2Finvoke /model/m/invoke;x /model/m/invoke%20
/model/x/../m/invoke /model/m/invoke/x /model/m/converse /model/m/converse-stream
/model/m/invoke-async /model/m/count-tokens /async-invoke /guardrail/g/version/1/apply
/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict
/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict
/v1/projects/p/locations/l/publishers/anthropic/models/m@1:rawPredict
/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict
/v1beta1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict
/projects/p/locations/l/publishers/anthropic/models/m:rawPredict
/v1/projects/p/locations/l/publishers/anthropic/models/m%3ArawPredict
/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict
/v1/projects/p/locations/l/endpoints/e:rawPredict /v1/projects/p/locations/l/endpoints/e:predict
/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict/x
""",
}
"""Paths that name the model, and spellings of them."""

METHODS = """
PUT /v1/chat/completions|PATCH /v1/chat/completions|DELETE /v1/chat/completions
GET /v1/chat/completions|HEAD /v1/chat/completions|OPTIONS /v1/chat/completions
QUERY /v1/chat/completions|PROPFIND /v1/chat/completions|post /v1/chat/completions
PoSt /v1/chat/completions|PUT /v1/messages|GET /v1/messages|PATCH /v1/responses
GET /v1/responses|GET /v1/responses/resp_1|DELETE /v1/responses/resp_1|PUT /v1/embeddings
PATCH /v1/files/f1|GET /v1/files|HEAD /v1/files|DELETE /v1/files/f1|OPTIONS /v1/files
GET /v1/models|HEAD /v1/models|GET /models|LOCK /v1/files
"""

ENCODINGS: dict[str, tuple[tuple[str, ...], bytes]] = {
    "gzip": (("gzip",), gzip.compress(ASKED)),
    "x-gzip": (("x-gzip",), gzip.compress(ASKED)),
    "GZIP": (("GZIP",), gzip.compress(ASKED)),
    "deflate": (("deflate",), zlib.compress(ASKED)),
    "deflate without its head": (("deflate",), zlib.compress(ASKED)[2:-4]),
    "br": (("br",), brotli.compress(ASKED)),
    "zstd": (("zstd",), zstandard.compress(ASKED)),
    "identity": (("identity",), ASKED),
    "nothing": (("",), ASKED),
    "gzip twice": (("gzip, gzip",), gzip.compress(gzip.compress(ASKED))),
    "gzip in identity": (("identity, gzip",), gzip.compress(ASKED)),
    "identity in gzip": (("gzip, identity",), gzip.compress(ASKED)),
    "gzip in deflate": (("gzip, deflate",), zlib.compress(gzip.compress(ASKED))),
    "two headers": (("identity", "gzip"), gzip.compress(ASKED)),
    "two headers the other way": (("gzip", "identity"), gzip.compress(ASKED)),
    "a parameter": (("gzip;q=1",), gzip.compress(ASKED)),
    "compress": (("compress",), ASKED),
    "aws-chunked": (("aws-chunked",), chunked(ASKED)),
    "gzip that is none": (("gzip",), ASKED),
    "gzip that nobody names": ((), gzip.compress(ASKED)),
    "two members of gzip": (("gzip",), gzip.compress(b"{}") + gzip.compress(ASKED)),
    "half of a gzip": (("gzip",), gzip.compress(ASKED)[:-9]),
    "gzip and more": (("gzip",), gzip.compress(ASKED) + ASKED),
    "two frames of zstd": (("zstd",), zstandard.compress(b"{}") + zstandard.compress(ASKED)),
}

KINDS: dict[str, tuple[str, bytes]] = {
    "utf-16": ("application/json; charset=utf-16", ASKED.decode().encode("utf-16")),
    "utf-16 that nobody names": ("application/json", ASKED.decode().encode("utf-16")),
    "utf-16 the other way": ("application/json", ASKED.decode().encode("utf-16-be")),
    "utf-32": ("application/json", ASKED.decode().encode("utf-32")),
    "utf-7": ("application/json; charset=utf-7", ASKED),
    "ebcdic": ("application/json; charset=cp500", ASKED.decode().encode("cp500")),
    "two letters": ("application/json; charset=utf-8; charset=utf-16", ASKED),
    "a mark": ("application/json", b"\xef\xbb\xbf" + ASKED),
    "plain text": ("text/plain", ASKED),
    "no kind": ("", ASKED),
    "a form": ("application/x-www-form-urlencoded", b"messages=" + ASKED),
    "a form of parts": (
        "multipart/form-data; boundary=b",
        b'--b\r\ncontent-disposition: form-data; name="messages"\r\n\r\n'
        + ASKED
        + b"\r\n--b--\r\n",
    ),
    "yaml": (
        "application/yaml",
        b"model: m\nmessages: [{role: user, content: %s}]" % SECRET.encode(),
    ),
    "msgpack": ("application/msgpack", b"\x81\xa5model\xa1m" + SECRET.encode()),
}

PLAIN = '{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
TOLD = f'"messages": [{{"role": "user", "content": "I am {SECRET}"}}]'
RESULT = {"type": "tool_result", "tool_use_id": "t"}
KEYS: dict[str, str | bytes] = {
    "doubled, the first": "{" + TOLD + ", " + PLAIN[1:],
    "doubled, the last": PLAIN[:-1] + ", " + TOLD + "}",
    "escaped": ASKED.decode().replace('"messages"', '"me\\u0073sages"'),
    "escaped beside plain": PLAIN[:-1] + ", " + TOLD.replace("messages", "me\\u0073sages") + "}",
    "escaped text": ASKED.decode().replace("sk-proj", "\\u0073k-proj"),
    "escaped throughout": ASKED.decode().replace(
        SECRET, "".join(f"\\u{ord(c):04x}" for c in SECRET)
    ),
    "capital": PLAIN[:-1] + ", " + TOLD.replace("messages", "Messages") + "}",
    "capitals alone": ASKED.decode().replace("messages", "MESSAGES"),
    "wide letters": PLAIN[:-1] + ", " + TOLD.replace("messages", "ｍessages") + "}",
    "a long s": PLAIN[:-1] + ", " + TOLD.replace("messages", "meſsages") + "}",
    "nothing wide": PLAIN[:-1] + ", " + TOLD.replace("messages", "messages\\u200b") + "}",
    "a space": PLAIN[:-1] + ", " + TOLD.replace("messages", "messages ") + "}",
    "a mark": PLAIN[:-1] + ", " + TOLD.replace("messages", "\\ufeffmessages") + "}",
    "doubled within": PLAIN.replace('"Hi"', f'"Hi", "content": "{SECRET}"'),
    "doubled within, escaped": PLAIN.replace('"Hi"', f'"Hi", "c\\u006fntent": "{SECRET}"'),
    "capital within": PLAIN.replace('"Hi"', f'"Hi", "Content": "{SECRET}"'),
    "another word for it": PLAIN[:-1] + f', "prompt": "{SECRET}"}}',
    "that of another API": PLAIN[:-1] + f', "input": "{SECRET}"}}',
    "instructions": PLAIN[:-1] + f', "instructions": "{SECRET}"}}',
    "a field that nobody knows": PLAIN[:-1] + f', "extra_body": {{"x": ["{SECRET}"]}}}}',
    "metadata": PLAIN[:-1] + f', "metadata": {{"x": "{SECRET}"}}}}',
    "a key that is the secret's": PLAIN[:-1] + f', "password": "{SECRET}"}}',
    "an object for a list": json.dumps({"model": "m", "messages": TALK}),
    "a text for a list": json.dumps({"model": "m", "messages": SECRET}),
    "a list for it all": json.dumps([CHAT_BODY]),
    "a second body": PLAIN + ASKED.decode(),
    "a second line": PLAIN + "\n" + ASKED.decode(),
    "a comment": PLAIN[:-1] + f" /* {SECRET} */}}",
    "no number": PLAIN[:-1] + f', "n": NaN, "x": "{SECRET}"}}',
    "half a letter": ASKED.decode().replace("I am", "\\ud800"),
    "deep": '{"model": "m", "messages": ' + "[" * 3000 + f'"{SECRET}"' + "]" * 3000 + "}",
    "a name of a tool that is none": PLAIN[:-1] + f', "tools": [{{"x": "{SECRET}"}}]}}',
    "a part that nobody knows": PLAIN.replace('"Hi"', f'[{{"type": "odd", "x": "{SECRET}"}}]'),
    "a part without a type": PLAIN.replace('"Hi"', f'[{{"text": "{SECRET}"}}]'),
    "a role that nobody knows": ASKED.decode().replace('"user"', '"oracle"'),
    "a role in capitals": ASKED.decode().replace('"user"', '"TOOL"'),
    "arguments": json.dumps(
        {
            "model": "m",
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "x", "arguments": SECRET}}],
                }
            ],
        }
    ),
    "bytes that are no letters": ASKED.replace(b"I am", b"\xff\xfe"),
    "letters too long": ASKED.replace(b"I am", b"\xc0\xae"),
    "nothing before it": b"\0" + ASKED,
    "white space before it": b" \t\r\n" + ASKED,
    "a prefix against thieves": b")]}',\n" + ASKED,
}
GEMINI_SAID = '"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]'
GEMINI_TOLD = json.dumps({"contents": [HELLO]})[1:-1]
IN_GEMINI: dict[str, str] = {
    "doubled, the first": f"{{{GEMINI_TOLD}, {GEMINI_SAID}}}",
    "doubled, the last": f"{{{GEMINI_SAID}, {GEMINI_TOLD}}}",
    "capital": f"{{{GEMINI_SAID}, {GEMINI_TOLD.replace('contents', 'Contents')}}}",
    "an object for a list": json.dumps({"contents": HELLO}),
    "an object for a list of parts": json.dumps({"contents": {"parts": {"text": SECRET}}}),
    "a text for a list": json.dumps({"contents": SECRET}),
    "an instruction": (
        f'{{{GEMINI_SAID}, "systemInstruction": {{"parts": {{"text": "{SECRET}"}}}}}}'
    ),
    "an instruction, the other way": (
        f'{{{GEMINI_SAID}, "system_instruction": {{"parts": [{{"text": "{SECRET}"}}]}}}}'
    ),
    "both ways": (
        f'{{{GEMINI_SAID}, "systemInstruction": {{}}, '
        f'"system_instruction": {{"parts": {{"text": "{SECRET}"}}}}}}'
    ),
    "an instruction that is a text": f'{{{GEMINI_SAID}, "systemInstruction": "{SECRET}"}}',
    "a field of another API": f'{{{GEMINI_SAID}, "messages": [{{"content": "{SECRET}"}}]}}',
    "a field that nobody knows": f'{{{GEMINI_SAID}, "odd": ["{SECRET}"]}}',
    "labels": f'{{{GEMINI_SAID}, "labels": {{"a": "{SECRET}"}}}}',
    "settings": f'{{{GEMINI_SAID}, "generationConfig": {{"stopSequences": ["{SECRET}"]}}}}',
    "settings, the other way": (
        f'{{{GEMINI_SAID}, "generation_config": {{"stop_sequences": ["{SECRET}"]}}}}'
    ),
    "a request to count": f'{{"generateContentRequest": {{{GEMINI_TOLD}}}}}',
    "a request beside it": f'{{{GEMINI_SAID}, "generateContentRequest": {{{GEMINI_TOLD}}}}}',
    "a description": (
        f'{{{GEMINI_SAID}, "tools": {{"function_declarations": '
        f'{{"name": "x", "description": "{SECRET}"}}}}}}'
    ),
    **{
        how: json.dumps({"contents": [{"role": role, "parts": [part]}]})
        for how, role, part in (
            ("arguments", "model", {"functionCall": {"name": "x", "args": {"a": SECRET}}}),
            ("arguments, the other way", "model", {"function_call": {"args": {"a": SECRET}}}),
            ("arguments in a text", "model", {"functionCall": {"name": "x", "args": SECRET}}),
            ("a result", "user", {"functionResponse": {"name": "x", "response": {"a": SECRET}}}),
            ("a result in a text", "user", {"functionResponse": {"response": SECRET}}),
            ("a result's part", "user", {"functionResponse": {"parts": [{"text": SECRET}]}}),
            ("a field of a result", "user", {"functionResponse": {"name": "x", "odd": SECRET}}),
            ("a thought", "model", {"text": SECRET, "thought": True}),
            ("code", "model", {"executableCode": {"language": "PYTHON", "code": SECRET}}),
            ("what came of code", "model", {"code_execution_result": {"output": SECRET}}),
            ("a call at Google", "model", {"toolCall": {"args": {"q": SECRET}}}),
            ("a file", "user", {"fileData": {"fileUri": f"https://x.example/{SECRET}"}}),
            ("a name of a file", "user", {"inlineData": {"displayName": SECRET, "data": ""}}),
            ("metadata", "user", {"text": "Hi", "partMetadata": {"a": SECRET}}),
            ("a kind that nobody knows", "user", {"odd": {"a": SECRET}}),
            ("two kinds", "user", {"text": "Hi", "executableCode": {"code": SECRET}}),
            ("a capital", "user", {"Text": SECRET}),
            ("a type", "user", {"type": "text", "text": SECRET}),
            ("a role that nobody knows", "oracle", {"text": SECRET}),
        )
    },
}
IN_RESULTS = {
    "a text in a result": [RESULT | {"content": [{"type": "text", "text": SECRET}]}],
    "a capital in a result": [
        RESULT | {"content": [{"type": "text", "text": "x", "Text": SECRET}]}
    ],
    "a result in capitals": [RESULT | {"type": "Tool_Result", "content": SECRET}],
    "a result in a result": [RESULT | {"content": [RESULT | {"content": SECRET}]}],
    "a document": [
        {"type": "document", "source": {"type": "text", "data": SECRET}, "title": SECRET}
    ],
    "a search result": [
        {"type": "search_result", "source": SECRET, "title": SECRET, "content": []}
    ],
}

SMUGGLED = Way(headers=(JSON,)).write()
HARMLESS = PLAIN.encode()
CHUNKED = "transfer-encoding: chunked"
FRAMING: dict[str, Way] = {
    "chunks": Way(framing=CHUNKED, body=chunked(ASKED)),
    "an extension": Way(framing=CHUNKED, body=chunked(HARMLESS, f";x={SECRET}")),
    "trailers": Way(framing=CHUNKED, body=chunked(HARMLESS, trailers=f"x-note: {SECRET}\r\n")),
    "trailers that are known": Way(
        headers=(JSON, "trailer: authorization"),
        framing=CHUNKED,
        body=chunked(HARMLESS, trailers=f"authorization: {SECRET}\r\n"),
    ),
    "a length beside chunks": Way(framing=f"{CHUNKED}\r\ncontent-length: 4", body=chunked(ASKED)),
    "chunks beside a length": Way(
        framing=f"content-length: {len(HARMLESS)}\r\n{CHUNKED}", body=HARMLESS + chunked(ASKED)
    ),
    "chunks by another name": Way(framing="transfer-encoding: xchunked", body=chunked(ASKED)),
    "chunks and identity": Way(framing="transfer-encoding: chunked, identity", body=chunked(ASKED)),
    "chunks twice": Way(framing=f"{CHUNKED}\r\n{CHUNKED}", body=chunked(ASKED)),
    "chunks with a space": Way(framing="transfer-encoding : chunked", body=chunked(ASKED)),
    "chunks with a tab": Way(framing="transfer-encoding:\tchunked", body=chunked(ASKED)),
    "chunks in capitals": Way(framing="Transfer-Encoding: CHUNKED", body=chunked(ASKED)),
    "a size that is none": Way(framing=CHUNKED, body=b"zz\r\n" + ASKED + b"\r\n0\r\n\r\n"),
    "a size that is too large": Way(framing=CHUNKED, body=b"f" * 17 + b"\r\n" + ASKED),
    "a size below nothing": Way(framing=CHUNKED, body=b"-1\r\n" + ASKED + b"\r\n0\r\n\r\n"),
    "two lengths": Way(framing=f"content-length: {len(ASKED)}\r\ncontent-length: 2"),
    "two lengths in one": Way(framing=f"content-length: {len(ASKED)}, 2"),
    "a length with a sign": Way(framing=f"content-length: +{len(ASKED)}"),
    "a length below nothing": Way(framing="content-length: -1"),
    "a length in another base": Way(framing=f"content-length: 0x{len(ASKED):x}"),
    "a length that is too short": Way(framing="content-length: 2", body=b"{}" + SMUGGLED),
    "no length": Way(framing="", body=ASKED),
    "no length, and a second request": Way(framing="", body=SMUGGLED),
    "a second request": Way(body=HARMLESS, framing=f"content-length: {len(HARMLESS)}"),
    "a second one in a chunk": Way(framing=CHUNKED, body=b"0\r\n\r\n" + SMUGGLED),
    "a folded header": Way(headers=(JSON, f"x-note: a\r\n {SECRET}")),
    "an upgrade": Way(headers=(JSON, "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")),
    "a socket": Way("GET /v1/realtime", (JSON, "upgrade: websocket")),
    "an expectation": Way(headers=(JSON, "expect: 100-continue")),
    "another method by header": Way("GET /v1/files", ("x-http-method-override: POST",)),
    "an older version": Way(version="HTTP/1.0"),
    "a newer version": Way(version="HTTP/2.0"),
    "no version": Way(version=""),
}


def requests_at_doors() -> Iterator[tuple[str, Way]]:
    """Yield requests whose paths name the model."""
    for kind, given in DOORS.items():
        for path in given.split():
            body = GEMINI_ASKED if kind == "gemini" else CLOUD_ASKED
            yield f"door {path}", Way(f"POST {path}", body=body)
            yield f"door {path}, a chat", Way(f"POST {path}")
            yield f"door {path}, put", Way(f"PUT {path}", body=body)
    for how, text in IN_GEMINI.items():
        for verb in ("generateContent", "countTokens"):
            yield f"{verb} {how}", Way(f"POST {GEMINI}/m:{verb}", body=text.encode())
    for how, blocks in IN_RESULTS.items():
        said = {**CLOUD_BODY, "messages": [{"role": "user", "content": blocks}]}
        yield f"cloud {how}", Way(f"POST {BEDROCK}/m/invoke", body=json.dumps(said).encode())


def requests() -> Iterator[tuple[str, Way]]:
    """Yield every request of the list, with what is odd about it."""
    for title, given in (("path", SPELLINGS), ("behind", BEHIND), ("elsewhere", ELSEWHERE)):
        for path in given.split():
            yield f"{title} {path}", Way(f"POST {path}")
    for path, body in OTHERS.items():
        yield f"path {path}", Way(f"POST {path}", body=body)
        yield f"path {path.upper()}/", Way(f"POST {path.upper()}/", body=body)
    yield from requests_at_doors()
    for line in METHODS.strip().replace("\n", "|").split("|"):
        yield f"method {line}", Way(line)
        yield f"method {line}, in chunks", Way(line, framing=CHUNKED, body=chunked(ASKED))
    for how, (names, body) in ENCODINGS.items():
        said = (f"content-encoding: {name}" for name in names)
        yield f"encoding {how}", Way(headers=(JSON, *said), body=body)
    for how, (kind, body) in KINDS.items():
        yield f"kind {how}", Way(headers=(f"content-type: {kind}",) if kind else (), body=body)
    for how, text in KEYS.items():
        yield f"keys {how}", Way(body=text.encode() if isinstance(text, str) else text)
    for how, blocks in IN_RESULTS.items():
        said = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}
        yield f"block {how}", Way(f"POST {MESSAGES}", body=json.dumps(said).encode())
    for how, way in FRAMING.items():
        second = SMUGGLED if how == "a second request" else b""
        kept = tuple(each for each in way.headers)
        yield f"framing {how}", replace(way, headers=kept, body=way.body + second)


ARGS = {"note": PAYLOAD}
TEXT = json.dumps(ARGS)
NAMED = {"name": "transfer", "input": ARGS}

UNKNOWN: dict[str, Any] = {
    "a call": {"type": "tool_call", **NAMED},
    "a type in capitals": {"type": "Tool_Use", "id": "t", **NAMED},
    "a type with a dash": {"type": "tool-use", "id": "t", **NAMED},
    "a type with a space": {"type": "tool_use ", "id": "t", **NAMED},
    "one that somebody has": {"type": "client_tool_use", "id": "t", **NAMED},
    "arguments in a text": {"type": "call", "name": "transfer", "arguments": TEXT},
    "arguments by another word": {"type": "call", "tool_name": "transfer", "args": ARGS},
    "parameters": {"type": "call", "tool": "transfer", "parameters": ARGS},
    "a function": {"type": "call", "function": {"name": "transfer", "arguments": TEXT}},
    "one within": {"type": "odd", "steps": [{"do": [{"name": "transfer", "input": ARGS}]}]},
    "one in a text": {"type": "text", "text": "", "call": NAMED},
    "two inputs": {"type": "call", "name": "transfer", "input": {}, "arguments": TEXT},
    "no JSON": {"type": "call", "name": "transfer", "input": f"{PAYLOAD}("},
    "a name twice": {"type": "call", "name": "transfer", "input": f'{{"a": 1, "a": "{PAYLOAD}"}}'},
}

NAMES = [
    "Transfer",
    "TRANSFER",
    " transfer",
    "transfer\n",
    "transfer\u200b",
    "tr\u00adansfer",
    "\ufefftransfer",
    "trans\u202efer",
    "trans\u2060fer",
    "transfer\u0000",
    "ｔｒａｎｓｆｅｒ",
    "𝐭𝐫𝐚𝐧𝐬𝐟𝐞𝐫",
    "trаnsfer",
    "τransfer",
    "tránsfer",
    "transfer\u0301",
    "tranſfer",
    "trans-fer",
    "trans_fer",
    "functions.transfer",
    "functions::transfer",
    "default_api:transfer",
    "tools/transfer",
    "mcp__bank__transfer",
    "functions.Transfer",
    "multi_tool_use.transfer",
]

Writer = Callable[[Any], list[tuple[str, Any]]]
STREAM = {"content-type": "text/event-stream"}
WHOLE = {"content-type": "application/json"}


def events(*told: Any) -> bytes:
    """Write events, each with its name if it has one."""
    found = b""
    for each in told:
        name = each.get("type") if isinstance(each, dict) else None
        found += f"event: {name}\n".encode() if name else b""
        found += b"data: " + json.dumps(each).encode() + b"\n\n"
    return found


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Write a piece of a chat; what is more stands beside its delta."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish, **more}
    return {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


DONE = b"data: [DONE]\n\n"
CALL = {"index": 0, "id": "c", "type": "function"}
CALL |= {"function": {"name": "transfer", "arguments": TEXT}}
USE = {"type": "tool_use", "id": "t", "name": "transfer", "input": {}}
FILLED = {"type": "input_json_delta", "partial_json": TEXT}
BEGUN = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
BEGUN |= {"usage": {"input_tokens": 1, "output_tokens": 1}}
START = {"type": "message_start", "message": BEGUN}
STOP = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 1},
}
END = {"type": "message_stop"}
SAID = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
SAID |= {"content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
ITEM = {"type": "function_call", "id": "f", "call_id": "c", "name": "transfer", "arguments": TEXT}
CREATED = {"type": "response.created", "response": {"id": "r", "output": []}}


def completed(*output: Any, **more: Any) -> dict[str, Any]:
    """Write the end of a stream of responses."""
    return {"type": "response.completed", "response": answered(*output, **more)}


def answered(*output: Any, **more: Any) -> dict[str, Any]:
    """Write an answer of responses."""
    return {"id": "r", "object": "response", "status": "completed", "output": [*output], **more}


def added(item: Any, index: int = 0, ending: str = "added") -> dict[str, Any]:
    """Write the event of an item."""
    return {"type": f"response.output_item.{ending}", "output_index": index, "item": item}


def opened(block: Any, index: int = 0) -> dict[str, Any]:
    """Write the beginning of a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def grown(delta: Any, index: int = 0) -> dict[str, Any]:
    """Write more of a block."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


def completion(message: Any, *more: Any, finish: str = "stop", **fields: Any) -> dict[str, Any]:
    """Write an answer of a chat."""
    said = [{"role": "assistant", "content": "Hi", **each} for each in (message, *more)]
    choices = [
        {"index": n, "message": each, "finish_reason": finish} for n, each in enumerate(said)
    ]
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": choices, **fields}


def message(*blocks: Any, **fields: Any) -> dict[str, Any]:
    """Write an answer of messages."""
    said = {"type": "text", "text": "Hi"}
    return {**BEGUN, "content": [said, *blocks], "stop_reason": "end_turn", **fields}


def candidate(*parts: Any, content: Any = None, **fields: Any) -> dict[str, Any]:
    """Write a candidate of Gemini; `content` stands beside its parts."""
    said = {"parts": [*parts], "role": "model", **(content or {})}
    return {"content": said, "index": 0, "finishReason": "STOP", **fields}


def generated(*candidates: Any, **fields: Any) -> dict[str, Any]:
    """Write an answer of Gemini, or a piece of one."""
    return {"candidates": [*candidates], "modelVersion": "m", **fields}


def unfinished(*parts: Any, **more: Any) -> dict[str, Any]:
    """Write a piece of a stream of Gemini that is not its last."""
    return generated(candidate(*parts, finishReason=None, **more))


HI = {"text": "Hi"}
LAST = generated(candidate({"text": ""}))
GEMINI_CALL = {"functionCall": {"name": "transfer", "args": ARGS}}


def unknown_in_gemini(given: Any) -> Iterator[tuple[str, Any, bytes]]:
    """Yield the places where an unknown call may stand in an answer of Gemini."""
    plain = {name: given[name] for name in given if name not in ("type", "text")}
    for where, part in (("a part", plain), ("in a part", {"odd": given})):
        yield where, generated(candidate(HI, part)), events(unfinished(HI), unfinished(part), LAST)
    beside = {"text": "Hi", "odd": given}
    yield "beside a text", generated(candidate(beside)), events(unfinished(beside), LAST)
    for where, fields in (
        ("a content", {"content": {"odd": given}}),
        ("a candidate", {"odd": given}),
    ):
        whole = generated(candidate(HI, **fields))
        yield f"in {where}", whole, events(unfinished(HI, **fields), LAST)


def unknown_in(api: str, given: Any) -> Iterator[tuple[str, Any, bytes]]:
    """Yield the places where an unknown call may stand in an answer, whole and streamed."""
    if api == CHAT:
        yield "a part", completion({"content": [{"type": "text", "text": "Hi"}, given]}), b""
        yield (
            "a field",
            completion({"odd": [given]}),
            events(chunk({"odd": [given]}), chunk(None, "stop")),
        )
    elif api == GEMINI:
        yield from unknown_in_gemini(given)
    elif api in (MESSAGES, VERTEX, BEDROCK):
        head = {name: given[name] for name in given if name != "input"}
        tail = grown({"type": "odd_delta", "input": given.get("input")})
        yield "a block", message(given), events(START, opened(given), STOP, END)
        yield "a block in pieces", message(given, {}), events(START, opened(head), tail, STOP, END)
    else:
        yield "an item", answered(SAID, given), events(CREATED, added(given), completed(given))
        part = {**SAID, "content": [given]}
        yield "a part", answered(part), events(CREATED, added(part), completed(part))


def unknown_beside(api: str) -> Iterator[tuple[str, Any, bytes]]:
    """Yield answers with a call beside all that their API knows."""
    given = {"type": "call", **NAMED}
    if api == CHAT:
        yield (
            "at the top",
            completion({}, calls=[given]),
            events({**chunk({"content": "Hi"}), "odd": given}, chunk(None, "stop")),
        )
        yield (
            "at a choice",
            {"choices": [completion({})["choices"][0] | {"tool_calls": [given]}]},
            events(
                chunk({"content": "Hi"}, tool_calls=[given]), chunk(None, "stop", tool_calls=None)
            ),
        )
        yield (
            "in the second choice",
            completion({}, {"odd": given}),
            events(
                {"choices": [{"index": 1, "delta": {"odd": given}}]},
                chunk(None, "stop"),
                {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]},
            ),
        )
        yield (
            "a kind of call that nobody knows",
            completion({"tool_calls": [{"id": "c", "type": "odd", "odd": NAMED}]}),
            events(
                chunk({"tool_calls": [{"index": 0, "type": "odd", "odd": NAMED}]}),
                chunk(None, "stop"),
            ),
        )
    elif api == GEMINI:
        top = {**unfinished(HI), "odd": given}
        yield "at the top", generated(candidate(HI), odd=[given]), events(top, LAST)
        yield (
            "told once, and then otherwise",
            {"candidates": [candidate(HI)], "odd": given},
            events(top, {**LAST, "odd": None}),
        )
        beside = {"functionCall": {"name": "search", "args": {}, "odd": given}}
        yield "beside a call", generated(candidate(beside)), events(unfinished(beside), LAST)
        second = [candidate(HI), candidate({"odd": given}, index=1)]
        yield "in the second candidate", generated(*second), events(generated(*second))
        yield (
            "where nothing else is",
            {"promptFeedback": {"odd": given}},
            events({"promptFeedback": {"odd": given}}),
        )
    elif api in (MESSAGES, VERTEX, BEDROCK):
        yield (
            "at the top",
            message(calls=[given]),
            events({"type": "message_start", "message": {**BEGUN, "odd": given}}, STOP, END),
        )
        yield (
            "at the end",
            message(name="transfer", input=ARGS),
            events(START, {**STOP, "delta": {**STOP["delta"], "odd": given}}, END),
        )
        yield "in an event of its own", message(odd=[[given]]), events(START, given, STOP, END)
        yield (
            "beside a call",
            message({**USE, "name": "search", "odd": given}),
            events(START, opened({**USE, "name": "search", "odd": given}), STOP, END),
        )
    else:
        yield "at the top", answered(SAID, calls=[given]), events(CREATED, completed(calls=[given]))
        yield (
            "at the beginning",
            answered(odd=given),
            events({"type": "response.created", "response": answered(odd=given)}, completed()),
        )
        yield (
            "in an event of its own",
            answered(SAID, name="transfer", input=ARGS),
            events(CREATED, {"type": "response.odd", **NAMED}, completed()),
        )
        yield (
            "beside a message",
            answered({**SAID, "odd": given}),
            events(CREATED, added({**SAID, "odd": given}), completed({**SAID, "odd": given})),
        )


PATHS = {CHAT: "chat", MESSAGES: "messages", RESPONSES: "responses"}
PATHS |= {GEMINI: "gemini", BEDROCK: "bedrock", VERTEX: "vertex"}


def array(*told: Any) -> bytes:
    """Write the pieces of a stream of Gemini as an array."""
    return json.dumps([*told]).encode()


def framed(stream: bytes) -> bytes:
    """Write a stream as Bedrock does."""
    if stream.startswith(b"{"):
        return stream
    splitter = EventSplitter()
    pieces = [*splitter.feed(stream), *splitter.finish()]
    return b"".join(write_chunk(piece.data) for piece in pieces if piece.data)


CALLED = candidate(GEMINI_CALL)
OF_GEMINI: dict[str, bytes] = {
    "behind the end": events(LAST, unfinished(GEMINI_CALL)),
    "in the last piece": events(generated(CALLED)),
    "without an end": events(unfinished(GEMINI_CALL)),
    "without its empty line": events(generated(CALLED))[:-1],
    "of a candidate that is none": events(unfinished(GEMINI_CALL, index=7), LAST),
    "of a candidate below nothing": events(unfinished(GEMINI_CALL, index=-1), LAST),
    "of a candidate without a number": events(unfinished(GEMINI_CALL, index=None), LAST),
    "a number in a text": events(unfinished(GEMINI_CALL, index="0"), LAST),
    "a candidate that is an object": events({"candidates": CALLED}),
    "a content that is a list": events({"candidates": [{**CALLED, "content": [GEMINI_CALL]}]}),
    "parts that are an object": events(
        {"candidates": [{**CALLED, "content": {"parts": GEMINI_CALL}}]}
    ),
    "lines of their own": b"data: "
    + json.dumps(generated(CALLED), indent=1).replace("\n", "\ndata: ").encode()
    + b"\n\n",
    "lines that end in returns": events(generated(CALLED)).replace(b"\n", b"\r"),
    "lines that end in both": events(generated(CALLED)).replace(b"\n", b"\r\n"),
    "a mark before it": b"\xef\xbb\xbf" + events(generated(CALLED)),
    "a list": events([generated(CALLED)], LAST),
    "an array in place of events": array(generated(CALLED)).replace(b"[", b" [", 1),
    "an answer in place of a stream": b" " + json.dumps(generated(CALLED)).encode(),
    "a stream in place of an answer": b"{" + events(generated(CALLED)),
    "the other way": events(
        unfinished({"function_call": {"name": "transfer", "args": ARGS}}), LAST
    ),
    "in capitals": events(unfinished({"FunctionCall": GEMINI_CALL["functionCall"]}), LAST),
    "both ways": events(
        unfinished(
            {
                "functionCall": {"name": "search", "args": {}},
                "function_call": GEMINI_CALL["functionCall"],
            }
        ),
        LAST,
    ),
    "two kinds of data": events(unfinished({"text": "Hi", **GEMINI_CALL}), LAST),
    "a thought": events(unfinished({"thought": True, **GEMINI_CALL}), LAST),
    "a type beside it": events(unfinished({"type": "text", **GEMINI_CALL}), LAST),
    "arguments in a text": events(
        unfinished({"functionCall": {"name": "transfer", "args": TEXT}}), LAST
    ),
    "arguments in pieces": events(
        unfinished(
            {
                "functionCall": {
                    "name": "transfer",
                    "partialArgs": [{"jsonPath": "$.note", "stringValue": PAYLOAD}],
                    "willContinue": True,
                }
            }
        ),
        unfinished({"functionCall": {}}),
        LAST,
    ),
    "arguments in pieces, the other way": events(
        unfinished(
            {
                "function_call": {
                    "name": "transfer",
                    "partial_args": [{"json_path": "$.note", "string_value": PAYLOAD}],
                    "will_continue": True,
                }
            }
        ),
        LAST,
    ),
    "as a result": events(
        unfinished({"functionResponse": {"name": "transfer", "response": ARGS}}), LAST
    ),
    "as a call at Google": events(
        unfinished({"toolCall": {"name": "transfer", "args": ARGS}}), LAST
    ),
    "in the name of its kind": events(unfinished({"function": NAMED}), LAST),
    "withheld": events({**generated(CALLED), "promptFeedback": {"blockReason": "SAFETY"}}),
    "behind what is withheld": events(
        {"promptFeedback": {"blockReason": "SAFETY"}}, unfinished(GEMINI_CALL)
    ),
    "an error as well": events({**generated(CALLED), "error": {"code": 500, "message": "no"}}),
    "behind an error": events({"error": {"code": 500, "message": "no"}}, generated(CALLED)),
    "as a chat": events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE,
    "as messages": events(START, opened(USE), grown(FILLED), STOP, END),
    "in an array": array(unfinished(HI), generated(CALLED)),
    "behind an array": array(LAST) + array(generated(CALLED)),
    "behind an array, and its comma": array(LAST) + b"," + json.dumps(generated(CALLED)).encode(),
    "in an array without an end": array(generated(CALLED))[:-1],
    "in an array in an array": b"[" + array(generated(CALLED)) + b"]",
    "in the array's last": array(LAST, unfinished(GEMINI_CALL)),
    "events in place of an array": b"[" + events(generated(CALLED)),
}
"""Odd answers of Gemini; what begins as an array is asked for so."""

ODD: dict[str, tuple[str, bytes]] = {
    "behind the end": (
        CHAT,
        events(chunk({"content": "Hi"}, "stop")) + DONE + events(chunk({"tool_calls": [CALL]})),
    ),
    "behind its finish": (CHAT, events(chunk({}, "stop"), chunk({"tool_calls": [CALL]})) + DONE),
    "in the last piece": (CHAT, events(chunk({"tool_calls": [CALL]}, "stop")) + DONE),
    "without an end": (CHAT, events(chunk({"tool_calls": [CALL]}))),
    "without its empty line": (CHAT, events(chunk({"tool_calls": [CALL]}, "stop"))[:-1]),
    "of a choice that is none": (
        CHAT,
        events(chunk({"tool_calls": [CALL]}, index=7), chunk(None, "stop")) + DONE,
    ),
    "of a choice below nothing": (
        CHAT,
        events(chunk({"tool_calls": [CALL]}, index=-1), chunk(None, "stop")) + DONE,
    ),
    "of a choice without a number": (
        CHAT,
        events(chunk({"tool_calls": [CALL]}, index=None), chunk(None, "stop")) + DONE,
    ),
    "a number in a text": (
        CHAT,
        events(chunk({"tool_calls": [CALL | {"index": "0"}]}), chunk(None, "stop")) + DONE,
    ),
    "a call that is an object": (
        CHAT,
        events(chunk({"tool_calls": CALL}), chunk(None, "stop")) + DONE,
    ),
    "lines of their own": (
        CHAT,
        b"data: "
        + json.dumps(chunk({"tool_calls": [CALL]}), indent=1).replace("\n", "\ndata: ").encode()
        + b"\n\n"
        + events(chunk(None, "stop"))
        + DONE,
    ),
    "lines that end in returns": (
        CHAT,
        (events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE).replace(b"\n", b"\r"),
    ),
    "lines that end in both": (
        CHAT,
        (events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE).replace(b"\n", b"\r\n"),
    ),
    "no space behind the colon": (
        CHAT,
        (events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE).replace(
            b"data: ", b"data:"
        ),
    ),
    "a mark before it": (
        CHAT,
        b"\xef\xbb\xbf" + events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE,
    ),
    "a mark in the middle": (
        CHAT,
        events(chunk({"content": "Hi"}))
        + b"\xef\xbb\xbf"
        + events(chunk({"tool_calls": [CALL]}), chunk(None, "stop"))
        + DONE,
    ),
    "data in capitals": (
        CHAT,
        events(chunk({"tool_calls": [CALL]})).replace(b"data", b"Data")
        + events(chunk(None, "stop"))
        + DONE,
    ),
    "a space before data": (
        CHAT,
        b" " + events(chunk({"tool_calls": [CALL]})) + events(chunk(None, "stop")) + DONE,
    ),
    "two in one": (
        CHAT,
        events(chunk({"content": "Hi"}))[:-2]
        + json.dumps(chunk({"tool_calls": [CALL]})).encode()
        + b"\n\n"
        + events(chunk(None, "stop"))
        + DONE,
    ),
    "a list": (CHAT, events([chunk({"tool_calls": [CALL]})], chunk(None, "stop")) + DONE),
    "the old way": (
        CHAT,
        events(chunk({"function_call": CALL["function"]}), chunk(None, "stop")) + DONE,
    ),
    "a custom one": (
        CHAT,
        events(
            chunk(
                {
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": "c",
                            "type": "custom",
                            "custom": {"name": "transfer", "input": PAYLOAD},
                        }
                    ]
                }
            ),
            chunk(None, "stop"),
        )
        + DONE,
    ),
    "a whole message": (
        CHAT,
        events(chunk(None, "stop", message={"role": "assistant", "tool_calls": [CALL]})) + DONE,
    ),
    "named in pieces": (
        CHAT,
        events(
            chunk({"tool_calls": [CALL | {"function": {"name": "trans"}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"name": "fer", "arguments": TEXT}}]}),
            chunk(None, "stop"),
        )
        + DONE,
    ),
    "as an event of Anthropic's": (
        CHAT,
        events(START, opened(USE), grown(FILLED), STOP, END) + DONE,
    ),
    "an answer in place of a stream": (
        CHAT,
        json.dumps(completion({"tool_calls": [CALL]})).encode(),
    ),
    "a stream in place of an answer": (CHAT, b"{" + events(chunk({"tool_calls": [CALL]})) + DONE),
    "behind the stop": (MESSAGES, events(START, STOP, END, opened(USE), grown(FILLED))),
    "between the stop and the end": (
        MESSAGES,
        events(START, STOP, opened(USE), grown(FILLED), END),
    ),
    "in the beginning": (
        MESSAGES,
        events(
            {"type": "message_start", "message": {**BEGUN, "content": [USE | {"input": ARGS}]}},
            STOP,
            END,
        ),
    ),
    "before the beginning": (MESSAGES, events(opened(USE), grown(FILLED), START, STOP, END)),
    "in a block that is closed": (
        MESSAGES,
        events(
            START, opened(USE), {"type": "content_block_stop", "index": 0}, grown(FILLED), STOP, END
        ),
    ),
    "in a block of text": (
        MESSAGES,
        events(START, opened({"type": "text", "text": ""}), grown(FILLED), STOP, END),
    ),
    "a block twice": (
        MESSAGES,
        events(START, opened({"type": "text", "text": ""}), opened(USE), grown(FILLED), STOP, END),
    ),
    "a block without a number": (
        MESSAGES,
        events(START, opened(USE, None), grown(FILLED, None), STOP, END),
    ),
    "a block below nothing": (
        MESSAGES,
        events(START, opened(USE, -1), grown(FILLED, -1), STOP, END),
    ),
    "under another event's name": (
        MESSAGES,
        events(START, opened(USE), grown(FILLED), STOP, END).replace(
            b"event: content_block_start", b"event: ping"
        ),
    ),
    "without names of events": (
        MESSAGES,
        b"".join(
            line + b"\n"
            for line in events(START, opened(USE), grown(FILLED), STOP, END).split(b"\n")
            if not line.startswith(b"event")
        ),
    ),
    "as a chat": (MESSAGES, events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE),
    "a thought with it": (
        MESSAGES,
        events(START, opened({"type": "thinking", "thinking": "", "call": NAMED}), STOP, END),
    ),
    "behind the completion": (
        RESPONSES,
        events(CREATED, completed(SAID), added(ITEM), added(ITEM, 0, "done")),
    ),
    "in the completion alone": (RESPONSES, events(CREATED, completed(ITEM))),
    "in the creation": (
        RESPONSES,
        events(
            {"type": "response.created", "response": {"id": "r", "output": [ITEM]}}, completed(SAID)
        ),
    ),
    "done without a beginning": (
        RESPONSES,
        events(CREATED, added(ITEM, 3, "done"), completed(SAID)),
    ),
    "in the place of a message": (
        RESPONSES,
        events(CREATED, added(SAID), added(ITEM, 0, "done"), completed(SAID)),
    ),
    "taken back": (RESPONSES, events(CREATED, added(ITEM), completed())),
    "that failed": (
        RESPONSES,
        events(
            CREATED,
            added(ITEM),
            {"type": "response.failed", "response": {**answered(ITEM), "status": "failed"}},
        ),
    ),
    "that is incomplete": (
        RESPONSES,
        events(
            CREATED,
            added(ITEM),
            {"type": "response.incomplete", "response": {**answered(ITEM), "status": "incomplete"}},
        ),
    ),
    "a type in capitals": (
        RESPONSES,
        events(CREATED, added({**ITEM, "type": "Function_Call"}), completed()),
    ),
    "an item without a type": (
        RESPONSES,
        events(CREATED, added({**ITEM, "type": None}), completed()),
    ),
    "an item without a number": (RESPONSES, events(CREATED, added(ITEM, None), completed())),
    "arguments for another item": (
        RESPONSES,
        events(
            CREATED,
            added({**ITEM, "arguments": ""}),
            {"type": "response.function_call_arguments.delta", "output_index": 9, "delta": TEXT},
            completed(),
        ),
    ),
    "arguments that were other ones": (
        RESPONSES,
        events(
            CREATED,
            added({**ITEM, "arguments": "{}"}),
            {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": TEXT},
            completed(ITEM),
        ),
    ),
    "as an approval": (
        RESPONSES,
        events(
            CREATED,
            added({**ITEM, "type": "mcp_approval_request", "server_label": "s"}),
            completed(),
        ),
    ),
    "as a custom call": (
        RESPONSES,
        events(CREATED, added({**ITEM, "type": "custom_tool_call", "input": PAYLOAD}), completed()),
    ),
    "as a call that nobody knows": (
        RESPONSES,
        events(CREATED, added({**ITEM, "type": "odd_call"}), completed()),
    ),
    "as one without an id": (
        RESPONSES,
        events(
            CREATED, added({"type": "odd_call", **NAMED}), completed({"type": "odd_call", **NAMED})
        ),
    ),
    "as a chat of responses": (
        RESPONSES,
        events(chunk({"tool_calls": [CALL]}), chunk(None, "stop")) + DONE,
    ),
}


def called_as(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield an answer of each API that calls a tool by a name."""
    function = {"name": name, "arguments": TEXT}
    yield CHAT, json.dumps(completion({"tool_calls": [CALL | {"function": function}]})).encode()
    yield MESSAGES, json.dumps(message({**USE, "name": name, "input": ARGS})).encode()
    yield RESPONSES, json.dumps(answered({**ITEM, "name": name})).encode()
    function = {"functionCall": {"name": name, "args": ARGS}}
    yield GEMINI, json.dumps(generated(candidate(function))).encode()
    yield GEMINI, events(unfinished(function), LAST)


def answers() -> Iterator[tuple[str, str, bytes]]:
    """Yield every answer of the list: what is odd about it, the path of its API, and its bytes."""
    for api, short in PATHS.items():
        places = [
            (f"{how} as", where, whole, stream)
            for how, given in UNKNOWN.items()
            for where, whole, stream in unknown_in(api, given)
        ]
        places += [("a call", where, whole, stream) for where, whole, stream in unknown_beside(api)]
        for how, where, whole, stream in places:
            yield f"{short}: {how} {where}", api, json.dumps(whole).encode()
            if stream:
                ended = stream + (DONE if api == CHAT else b"")
                data = framed(stream) if api == BEDROCK else ended
                yield f"{short}: {how} {where}, streamed", api, data
    for how, (api, data) in ODD.items():
        yield f"{PATHS[api]}: odd, {how}", api, data
        if api == MESSAGES:
            yield f"vertex: odd, {how}", VERTEX, data
            yield f"bedrock: odd, {how}", BEDROCK, framed(data)
    for how, data in OF_GEMINI.items():
        yield f"gemini: odd, {how}", GEMINI, data
    for name in NAMES:
        for api, data in called_as(name):
            streamed = "" if data.startswith(b"{") else ", streamed"
            yield f"{PATHS[api]}: name {name!a}{streamed}", api, data
