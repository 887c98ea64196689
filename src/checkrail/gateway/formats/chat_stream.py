"""Streams of the chat API: read as they pass, and written on where hooks changed the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.agent.models.checked import list_in, object_in
from checkrail.agent.models.sdk_errors import InvalidAnswer
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.formats.base import Body, Kind, UnreadableError
from checkrail.gateway.formats.chat_answers import OF_ANSWER, read_answer, write_answer
from checkrail.gateway.formats.chat_choice import Choice
from checkrail.gateway.formats.gathered import Gathered
from checkrail.gateway.formats.growing import Growing
from checkrail.gateway.formats.json_bytes import read_object, write_json
from checkrail.gateway.formats.provider_errors import WRONG, reported, unreadable
from checkrail.gateway.formats.top_level import tool_names
from checkrail.gateway.sse import Piece, event

DONE = b"data: [DONE]\n\n"
OF_CHUNK = frozenset({"choices", "usage", "obfuscation"})


class ChatReading(Gathered):
    """A streamed answer. It has ended when all its choices have, or when the stream says so.

    A piece is about the end if nothing can follow it: usage comes after the end of the last choice.
    Usage that the request did not ask for is hidden.
    """

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(read_answer)
        self._usage_asked = asks_usage(request.params)
        self._expected = _count(request.params.get("n"))
        self._offered = tool_names(request.tools)
        self._head: Body = {}
        self._earlier: Body = {}
        self._choices: dict[int, Choice] = {}
        self._usage = Growing()
        self._usage_apart = True
        self._done = Growing()

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its end."""
        if self._done.pieces or self._error is not None:
            return self._error is None
        choices = self._choices.values()
        return len(choices) >= self._expected and all(one.finish.pieces for one in choices)

    def take(self, piece: Piece) -> Kind:
        """Read one piece. Raises `UnreadableError`."""
        data = piece.data
        if not data or data.isspace():
            return "quiet"
        if data.startswith(b"[DONE]"):
            self._done.pieces.append(data)
            self._touched.append(self._done)
            return "end"
        if self._done.pieces or self._error is not None:
            raise UnreadableError("the stream of the model went on after its end")
        self._answer = None
        chunk = read_object(data, "a piece of the model's stream")
        if chunk.get("error"):
            self._error = chunk["error"]
            if _speaks(chunk):  # it is passed on unseen, and so must not be an answer as well
                raise UnreadableError(reported(self._error))
            return "error"
        try:
            return self._take(chunk)
        except WRONG as error:
            raise unreadable("stream", error) from error

    def _take(self, chunk: Body) -> Kind:
        kind: Kind = "quiet"
        for name, value in chunk.items():
            if name not in OF_CHUNK and value is not None:
                self._note(name, value)
        choices = list_in(chunk.get("choices"), "its choices")
        for given in choices:
            choice = object_in(given, "a choice")
            index = choice.get("index") or 0
            if not isinstance(index, int):
                raise InvalidAnswer("the index of a choice should be a number")
            known = self._choices.get(index) or self._begin(index)
            about = known.take(choice, self._touched)
            if about == "tool" or kind == "quiet":
                kind = about
        if chunk.get("usage"):
            self._usage.pieces.append(chunk["usage"])
            self._usage_apart = not choices
            if self._usage_apart and not self._usage_asked:
                return "hidden"
            self._touched.append(self._usage)
        return kind

    def _note(self, name: str, value: Any) -> None:
        """Keep a field of a piece; of one that nobody knows, what was there before as well."""
        known = self._head.get(name, value)
        if known != value and name not in OF_ANSWER:
            self._earlier.setdefault(f"earlier_{name}", []).append(known)
        self._head[name] = value

    def _begin(self, index: int) -> Choice:
        self._choices[index] = choice = Choice(index, self._offered)
        return choice

    def _body(self) -> Body:
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        usage = {"usage": self._usage.pieces[-1]} if self._usage.pieces else {}
        return self._head | self._earlier | {"choices": choices} | usage

    def rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was passed."""
        body, before = self._read()
        written = write_answer(body, before, after)
        targets = {target["index"]: target for target in written["choices"]}
        head = {name: written[name] for name in self._head if name in written}
        usage = {"usage": written["usage"]} if written.get("usage") else {}
        riding = {} if self._usage_apart or self._usage.begun else usage
        for index, choice in self._choices.items():
            target = targets.get(index)
            for step in choice.steps(target) if target else ():
                yield _written(head, step)
            finish = target["finish_reason"] if target else None
            ending = choice.ending(finish) if target or choice.begun else None
            if ending is not None:
                yield _written(head | riding, ending)
        if usage and self._usage_apart and self._usage_asked and not self._usage.begun:
            yield _written(head | usage)
        if not self._done.begun:
            yield DONE


def written_stream(body: Body, *, usage: bool) -> Iterator[bytes]:
    """Write a whole answer as a stream."""
    head = {name: body[name] for name in body if name not in OF_CHUNK}
    head["object"] = "chat.completion.chunk"
    for target in body["choices"]:
        choice = Choice(target["index"])
        for step in choice.steps(target):
            yield _written(head, step)
        if ending := choice.ending(target["finish_reason"]):
            yield _written(head, ending)
    if usage:
        yield _written(head | {"usage": body["usage"]})
    yield DONE


def asks_usage(params: Mapping[str, Any]) -> bool:
    """Return whether a request asks for usage at the end of its stream."""
    options = params.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


def asking_usage(body: Body) -> Body:
    """Let a request ask for usage at the end of its stream; the same, if it does so or is none."""
    if asks_usage(body) or not body.get("stream"):
        return body
    options = body.get("stream_options")
    kept = options if isinstance(options, dict) else {}
    return body | {"stream_options": kept | {"include_usage": True}}


def _speaks(chunk: Body) -> bool:
    """Return whether a piece tells anything of an answer."""
    given = chunk.get("choices")
    choices = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    told = [one.get(name) for one in choices for name in ("delta", "message")]
    return any(one[name] for one in told if isinstance(one, dict) for name in one if name != "role")


def _written(head: Body, *choices: Body) -> bytes:
    return event(write_json(head | {"choices": [*choices]}))


def _count(n: Any) -> int:
    return n if isinstance(n, int) and n > 1 else 1
