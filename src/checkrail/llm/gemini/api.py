"""The Gemini API of Google."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote

from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.gemini.framing import Array, Events, Framing
from checkrail.llm.gemini.parts import Part
from checkrail.llm.gemini.request import read_request, write_request
from checkrail.llm.gemini.response import build_answer, read_answer, write_answer
from checkrail.llm.gemini.stream import GeminiStreamReader
from checkrail.llm.sse import Piece, Splitter
from checkrail.llm.wire_format import Body, Refusal, StreamReader

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

VERBS = {verb.casefold(): verb for verb in ("generateContent", "streamGenerateContent")}
COUNT = "countTokens"
VERSION = "v1beta"
_PATH = re.compile(r"/(?:(v\d\w*)/)?(models|tunedmodels|dynamic)/(.+):(\w+)", re.IGNORECASE)
_COLLECTIONS = {"models": "models", "tunedmodels": "tunedModels", "dynamic": "dynamic"}


class Gemini:
    """One call of the Gemini API, whose path names the model and says whether it is a stream.

    Hooks see contents as messages of the chat API, and each declared function as a tool.
    """

    name = "gemini"
    no_tokens: Mapping[str, Any] = MappingProxyType({"totalTokens": 0})

    def __init__(self, path: str, model: str, verb: str, query: str = "") -> None:
        self.path = path
        self.model = model
        self.aside = (path,) if verb == COUNT else ()
        self._stream = verb == VERBS["streamgeneratecontent"]
        self._framing: Framing = Array() if self._stream and not asks_events(query) else Events()
        self._calls: dict[str, Part] = {}

    @property
    def stream_type(self) -> bytes:
        """What kind of content a stream is."""
        return self._framing.content_type

    @property
    def keep_alive(self) -> bytes:
        """What may stand between two pieces of a stream, and means nothing."""
        return self._framing.keep_alive

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its pieces."""
        return self._framing.open_splitter()

    def is_streamed(self, body: Body) -> bool:  # noqa: ARG002 - other APIs need it
        """Return whether a request is for a stream, which the path says."""
        return self._stream

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return read_request(body, self.model, stream=self._stream)

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        return write_request(body, before, after, self._calls, stream=self._stream)

    def target_path(self, path: str, model: str | None) -> str:
        """Return the path of a request for a model."""
        return replace_model(path, model) if model else path

    def request_usage(self, body: Body) -> Body:
        """Return the body as it is: usage is always reported here."""
        return body

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""
        message = read_answer(body)
        parts: list[Part] = [
            part
            for candidate in body.get("candidates") or ()
            for part in (candidate.get("content") or {}).get("parts") or ()
            if (part.get("functionCall") or part.get("function_call")) is not None
        ]
        if UNPARSED not in message.metadata:
            ids = (call.id for call in message.tool_calls)
            self._calls |= dict(zip(ids, parts, strict=False))
        return message

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""
        return write_answer(body, before, after)

    def build_answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that came from no model."""
        return build_answer(message, request)

    def build_stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that came from no model as a whole stream."""
        yield self._framing.write(build_answer(message, request), begun=False)
        yield self._framing.write_end()

    def open_stream(self, request: ModelRequest) -> StreamReader:
        """Return a reader of a streamed answer."""
        return GeminiStreamReader(request, self._framing, self.read_answer)

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        usual = "INTERNAL" if refusal.status >= 500 else "FAILED_PRECONDITION"
        told: Body = {"code": refusal.status, "message": refusal.message}
        told["status"] = STATUSES.get(refusal.status, usual)
        if refusal.code:
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            told["details"] = [{"@type": kind, "reason": refusal.code, "domain": "checkrail"}]
        return {"error": told}

    def write_stream_error(self, refusal: Refusal, *, begun: bool) -> bytes:
        """Write an error that ends a stream, of which pieces were sent if it has `begun`."""
        return self._framing.write_error(self.write_error(refusal), begun=begun)

    def relay_stream_error(self, piece: Piece, *, begun: bool) -> bytes:
        """Write the upstream's own error, which ends a stream."""
        return self._framing.relay_error(piece, begun=begun)


def asks_events(query: str) -> bool:
    """Return whether a query asks for server-sent events."""
    asked = [value for name, value in parse_qsl(query) if name in ("alt", "$alt")]
    return asked[:1] == ["sse"]


def open_gemini(path: str, query: str = "") -> Gemini | None:
    """Return the call of a model that a path names, however it is spelled; None for another path.

    The path may have been brought into small letters, and may lack the version of the API.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    version, kind, model, verb = match.groups()
    known = VERBS | {COUNT.casefold(): COUNT}
    if verb.casefold() not in known:
        return None
    verb, kind = known[verb.casefold()], _COLLECTIONS[kind.casefold()]
    named = model if kind == "models" else f"{kind}/{model}"
    told = f"/{(version or VERSION).lower()}/{kind}/{quote(model)}:{verb}"
    return Gemini(told, named, verb, query)


def replace_model(path: str, model: str) -> str:
    """Return the path of a call with another model in it."""
    match = _PATH.fullmatch(path)
    if match is None:
        return path
    kind, _, rest = model.partition("/")
    collection = kind if kind in _COLLECTIONS.values() and rest else "models"
    name = rest if collection == kind else model
    return f"/{match[1] or VERSION}/{collection}/{quote(name)}:{match[4]}"
