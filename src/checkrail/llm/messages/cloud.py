"""The messages API as AWS Bedrock and Google's Vertex AI have it: the path names the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.aws_frames import FrameSplitter, write_chunk, write_exception
from checkrail.llm.messages.api import Messages
from checkrail.llm.messages.stream import MessagesStreamReader
from checkrail.llm.sse import EventSplitter, Splitter
from checkrail.llm.wire_format import Body, Refusal, StreamReader, UnreadableError

_OURS = ("model", "stream")


class CloudMessages(Messages):
    """One call of the messages API, whose path names the model and says whether it is a stream."""

    def __init__(self, path: str = "", model: str | None = None, *, stream: bool = False) -> None:
        self.path = path
        self.model = model
        self.aside = ()
        self._stream = stream

    def _add_names(self, body: Body) -> Body:
        if "model" in body and self.model is not None:
            raise UnreadableError("the path names the model, and so the body should not")
        stream = self._stream or bool(body.get("stream"))
        return {**body, "model": self.model or body.get("model"), "stream": stream}

    def is_streamed(self, body: Body) -> bool:
        """Return whether a request is for a stream."""
        return self._stream or super().is_streamed(body)

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return super().read_request(self._add_names(body))

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        written = super().write_request(self._add_names(body), before, after)
        kept = {name: body[name] for name in _OURS if name in body}
        if "model" in kept:
            kept["model"] = after.model
        return {name: value for name, value in written.items() if name not in _OURS} | kept


_BEDROCK = re.compile(r"/model/(.+)/(invoke|invoke-with-response-stream)", re.IGNORECASE)
_FRAMES = b"application/vnd.amazon.eventstream"


class Bedrock(CloudMessages):
    """A call of Bedrock, whose streams are messages of AWS."""

    name = "bedrock"
    stream_type = _FRAMES
    keep_alive = write_chunk(b'{"type": "ping"}')

    def target_path(self, path: str, model: str | None) -> str:
        """Return the path of a request for a model."""
        match = _BEDROCK.fullmatch(path)
        return path if match is None or not model else _bedrock_path(model, match[2])

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its messages."""
        return FrameSplitter()

    def open_stream(self, request: ModelRequest) -> StreamReader:  # noqa: ARG002 - other APIs need it
        """Return a reader of a streamed answer."""
        return _FramedReader()

    def build_stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that came from no model as a whole stream."""
        return _write_frames(super().build_stream(message, request))

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        return {"message": refusal.message} | ({"code": refusal.code} if refusal.code else {})

    def write_stream_error(self, refusal: Refusal, *, begun: bool) -> bytes:  # noqa: ARG002 - messages stand for themselves
        """Write an error that ends a stream."""
        kind = "internalServerException" if refusal.status >= 500 else "validationException"
        return write_exception(kind, refusal.message)


class _FramedReader(MessagesStreamReader):
    def write_rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was sent."""
        return _write_frames(super().write_rest(after))


def _write_frames(events: Iterable[bytes]) -> Iterator[bytes]:
    splitter = EventSplitter()
    for event in events:
        for piece in splitter.feed(event):
            if piece.data:
                yield write_chunk(piece.data)


def _bedrock_path(model: str, verb: str) -> str:
    return f"/model/{quote(model, safe=':')}/{verb.lower()}"


def open_bedrock(path: str) -> Bedrock | None:
    """Return the call of a model that a path names; None for another path."""
    match = _BEDROCK.fullmatch(path)
    if match is None:
        return None
    model, verb = match.groups()
    return Bedrock(_bedrock_path(model, verb), model, stream=verb.lower() != "invoke")


_VERTEX = re.compile(
    r"(?:/(v1(?:beta1)?))?(/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/)([^/:]+)"
    r":(rawpredict|streamrawpredict)",
    re.IGNORECASE,
)
_VERBS = {"rawpredict": "rawPredict", "streamrawpredict": "streamRawPredict"}
COUNT = "count-tokens"
"""What stands for the model where tokens are counted; the body names the model then."""


class Vertex(CloudMessages):
    """A call of Vertex AI."""

    name = "vertex"

    def target_path(self, path: str, model: str | None) -> str:
        """Return the path of a request for a model."""
        match = _VERTEX.fullmatch(path)
        if match is None or not model or match[3] == COUNT:
            return path
        return f"/{match[1]}{match[2]}{quote(model, safe='@')}:{match[4]}"


def open_vertex(path: str) -> Vertex | None:
    """Return the call of a model that a path names; None for another path."""
    match = _VERTEX.fullmatch(path)
    if match is None:
        return None
    version, place, model, verb = match.groups()
    verb = _VERBS[verb.lower()]
    told = f"/{(version or 'v1').lower()}{quote(place)}{quote(model, safe='@')}:{verb}"
    counts = model.lower() == COUNT
    made = Vertex(told, None if counts else model, stream=verb == "streamRawPredict")
    if counts:
        made.aside = (told,)
    return made
