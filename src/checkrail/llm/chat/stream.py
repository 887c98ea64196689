"""Streams of the chat API: read as they pass, and written on where hooks changed the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.answer_errors import InvalidAnswer
from checkrail.llm.answer_fields import list_in, object_in, text_in
from checkrail.llm.chat.answer_draft import REASONING
from checkrail.llm.chat.response import OF_ANSWER, read_answer, write_answer
from checkrail.llm.chat.tool_calls import LEGACY, TWO_KINDS
from checkrail.llm.json_bytes import read_object, to_json_text, write_json
from checkrail.llm.other_fields import add_earlier
from checkrail.llm.provider_errors import WRONG, describe_error, unreadable_error
from checkrail.llm.request_fields import tool_names
from checkrail.llm.sse import Piece, write_event
from checkrail.llm.stream_reader import BufferedStreamReader, StreamBuffer, merge_pieces
from checkrail.llm.unknown_calls import MARKS, begins_call, has_call
from checkrail.llm.wire_format import Body, Kind, UnreadableError

OF_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})
SPOKEN = ("content", "refusal", "audio", "tool_calls", LEGACY, *REASONING)
OF_CALL = frozenset({"index", "function", "custom"})
Form = Literal["function", "custom"]

TEXTS: dict[Form, str] = {"function": "arguments", "custom": "input"}


class CallDraft(StreamBuffer):
    """A tool call whose arguments are still coming."""

    __slots__ = ("form", "head", "index", "inner")

    def __init__(self, index: int, form: Form) -> None:
        super().__init__()
        self.index = index
        self.form: Form = form
        self.head: Body = {}
        self.inner: Body = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of it."""
        forms: list[Form] = [form for form in TEXTS if piece.get(form)]
        if forms and not (self.inner or self.pieces):
            self.form = forms[0]
        if any(form != self.form for form in forms):
            raise InvalidAnswer(TWO_KINDS)
        for name, value in piece.items():
            if name not in OF_CALL and value is not None:
                self._add_beside(self.head, name, value)
        for name, value in object_in(piece.get(self.form), "the function of a tool call").items():
            if name == TEXTS[self.form]:
                self.pieces.append(value if isinstance(value, str) else _to_text(value))
            elif name == "name":
                self._add_name(text_in(value, "the name of a tool"))
            elif value is not None:
                self._add_beside(self.inner, name, value)

    def _add_beside(self, target: Body, name: str, value: Any) -> None:
        """Add a field that is no part of its name and arguments; the first value stands."""
        known = target.setdefault(name, value)
        if known != value and name not in ("id", "type"):
            add_earlier(target, {name: value})

    def _add_name(self, piece: str) -> None:
        """Add a piece of the name; some endpoints repeat all of it in every piece."""
        known = self.inner.get("name", "")
        if piece != known:
            self.inner["name"] = known + piece

    def to_call(self) -> Body:
        """Return the call as it stands in a whole answer."""
        return {**self.head, self.form: {**self.inner, TEXTS[self.form]: self.text}}


def _field_kind(name: str, value: Any) -> Kind:
    """Return what a field of a piece is about that is no known call."""
    if name in MARKS or (not isinstance(value, str) and begins_call(value)):
        return "tool"
    return "text" if value and name != "role" else "quiet"


def _to_text(value: Any) -> str:
    return "" if value is None else to_json_text(value)


class ChoiceDraft:
    """What has come of a choice, and what of it the caller has.

    `offered` are the names of the tools that the model may call.
    """

    def __init__(self, index: int, offered: Collection[str] = ()) -> None:
        self.index = index
        self._offered = offered
        self._told: list[Mapping[str, Any]] = []
        self.finish = StreamBuffer()
        self._fields: dict[str, StreamBuffer] = {}
        self._calls: list[CallDraft] = []
        self._by_index: dict[Any, CallDraft] = {}
        self._legacy: CallDraft | None = None
        self._logprobs: dict[str, StreamBuffer] = {}
        self._others: Body = {}

    def add_piece(self, choice: Mapping[str, Any], touched: list[StreamBuffer]) -> Kind:
        """Add a piece, and return what it is about; what has grown is added to `touched`."""
        kind: Kind = "quiet"
        for name, value in object_in(choice.get("delta"), "a delta").items():
            if value is None:
                continue
            if name == "tool_calls":
                kind = self._add_calls(value, touched) or kind
            elif name == LEGACY:
                self._legacy = self._legacy or CallDraft(0, "function")
                self._legacy.add({"function": value})
                touched.append(self._legacy)
                kind = "tool"
            else:
                self._add_to_buffer(self._fields, name, value, touched)
                about = _field_kind(name, value)
                kind = about if kind == "quiet" or about == "tool" else kind
        if told := object_in(choice.get("message"), "its message"):
            self._told.append(told)
            calls = told.get("tool_calls") or told.get(LEGACY)
            kind = "tool" if calls or kind == "tool" or has_call(told) else "text"
        for name in choice.keys() - OF_CHOICE:
            kind = "tool" if self._add_other(name, choice[name]) else kind
        for name, value in object_in(choice.get("logprobs"), "its logprobs").items():
            self._add_to_buffer(self._logprobs, name, value, touched)
        if finish := text_in(choice.get("finish_reason"), "its finish reason"):
            self.finish.pieces.append(finish)
            touched.append(self.finish)
        return kind

    def _add_other(self, name: str, value: Any) -> bool:
        """Add a field that nobody knows, and return whether it may be a call."""
        known = self._others.get(name, value)
        if known != value:
            add_earlier(self._others, {name: known})
        self._others[name] = value
        return begins_call({name: value})

    def _add_calls(self, value: Any, touched: list[StreamBuffer]) -> Literal["tool"] | None:
        pieces = list_in(value, "its tool calls")
        for position, given in enumerate(pieces):
            piece = object_in(given, "a tool call")
            call = self._find_call(piece, position)
            call.add(piece)
            touched.append(call)
        return "tool" if pieces else None

    def _find_call(self, piece: Mapping[str, Any], position: int) -> CallDraft:
        """Return the call that a piece belongs to; some endpoints number them wrongly."""
        index = piece.get("index")
        index = index if isinstance(index, int) else position
        known = self._by_index.get(index)
        if known is None or self._starts_another_call(known, piece):
            known = self._by_index[index] = CallDraft(len(self._calls), "function")
            self._calls.append(known)
        return known

    def _starts_another_call(self, known: CallDraft, piece: Mapping[str, Any]) -> bool:
        """Return whether a piece begins another call, as one with another tool's name does.

        A piece may as well go on with a name, if that becomes the name of a tool.
        """
        if piece.get("id") not in (None, "", known.head.get("id")):
            return True
        inner = object_in(piece.get("function") or piece.get("custom"), "a tool call")
        had, more = known.inner.get("name", ""), inner.get("name")
        if not had or not more or more == had:
            return False
        longer = f"{had}{more}"
        fits = not self._offered or any(name.startswith(longer) for name in self._offered)
        return any(known.pieces) or not fits

    def _add_to_buffer(
        self, where: dict[str, StreamBuffer], name: str, value: Any, touched: list[StreamBuffer]
    ) -> None:
        growing = where.get(name)
        if growing is None:
            growing = where[name] = StreamBuffer()
        growing.pieces.append(value)
        touched.append(growing)

    def to_choice(self) -> Body:
        """Return the choice as it stands in a whole answer."""
        message: Body = {"role": "assistant", "content": None}
        message |= {name: _join_pieces(name, growing) for name, growing in self._fields.items()}
        if self._calls:
            message["tool_calls"] = [call.to_call() for call in self._calls]
        if self._legacy:
            message[LEGACY] = self._legacy.to_call()["function"]
        for told in self._told:
            _check_agreement(message, told)
        logprobs = {name: merge_pieces(growing.pieces) for name, growing in self._logprobs.items()}
        whole = {"index": self.index, "message": message, "logprobs": logprobs or None}
        finish = self.finish.pieces[-1] if self.finish.pieces else None
        return whole | {"finish_reason": finish} | self._others

    def write_missing(self, target: Body) -> Iterator[Body]:
        """Write what the caller lacks of a choice that hooks changed, except for its end."""
        logprobs = self._unsent_logprobs() if target.get("logprobs") else None
        for delta in self._write_deltas(target["message"]):
            step: Body = {"index": self.index, "delta": delta, "finish_reason": None}
            yield step | ({"logprobs": logprobs} if logprobs and "content" in delta else {})

    def write_end(self, finish: str | None) -> Body | None:
        """Write its end, unless the caller has it or has nothing of this choice."""
        if self.finish.begun:
            return None
        return {"index": self.index, "delta": {}, "finish_reason": finish or "stop"}

    @property
    def has_been_sent(self) -> bool:
        """Whether the caller has something of it."""
        drafts = [*self._fields.values(), *self._calls, *([self._legacy] if self._legacy else [])]
        return any(growing.begun for growing in drafts)

    def _write_deltas(self, message: Body) -> Iterator[Body]:
        role = self._fields.get("role")
        if role is None or not role.begun:
            opening = "" if isinstance(message.get("content"), str) else None
            yield {"role": message.get("role") or "assistant", "content": opening}
        for name, value in message.items():
            if name not in ("role", "tool_calls", LEGACY) and value:
                missing = self._missing_part(name, value)
                if missing:
                    yield {name: missing}
        yield from self._call_deltas(message.get("tool_calls") or [])
        if legacy := message.get(LEGACY):
            yield from self._legacy_delta(legacy)

    def _missing_part(self, name: str, value: Any) -> Any:
        growing = self._fields.get(name)
        if growing is None or not growing.sent:
            return value
        if isinstance(value, str) and all(isinstance(piece, str) for piece in growing.pieces):
            return growing.missing_text(value)
        unsent = growing.pieces[growing.sent :]
        return (
            merge_pieces(unsent, name) if value == _join_pieces(name, growing) and unsent else None
        )

    def _call_deltas(self, calls: list[Body]) -> Iterator[Body]:
        passed = {call.head.get("id"): call for call in self._calls if call.begun}
        free = max((call.index + 1 for call in passed.values()), default=0)
        for call in calls:
            known = passed.get(call.get("id"))
            if known is None:
                yield {"tool_calls": [{"index": free, **call}]}
                free += 1
            elif more := known.missing_text(str(call[known.form].get(TEXTS[known.form], ""))):
                inner = {known.form: {TEXTS[known.form]: more}}
                yield {"tool_calls": [{"index": known.index, **inner}]}

    def _legacy_delta(self, function: Body) -> Iterator[Body]:
        if self._legacy is None or not self._legacy.begun:
            yield {LEGACY: function}
        elif more := self._legacy.missing_text(str(function.get("arguments", ""))):
            yield {LEGACY: {"arguments": more}}

    def _unsent_logprobs(self) -> Body | None:
        unsent = {
            name: merge_pieces(growing.pieces[growing.sent :])
            for name, growing in self._logprobs.items()
            if growing.sent < len(growing.pieces)
        }
        return unsent or None


def _check_agreement(streamed: Body, told: Mapping[str, Any]) -> None:
    """Refuse a stream whose pieces and whole differ, as some do at the end.

    Rules hold for the pieces: a caller who reads the other of the two would get around them.
    """
    for name in SPOKEN:
        now = told.get(name)
        if now and _field_text(name, now) != _field_text(name, streamed.get(name)):
            raise InvalidAnswer("it says one thing in pieces and another as a whole")


def _field_text(name: str, value: Any) -> Any:
    """Return the text of a field, without what else endpoints write there."""
    if name == LEGACY:
        return _field_text("tool_calls", [{"function": value}])
    if name != "tool_calls":
        return value
    calls = [object_in(call, "a tool call") for call in list_in(value, "its tool calls")]
    inner = [object_in(call.get("function") or call.get("custom"), "a call") for call in calls]
    return [(each.get("name"), each.get("arguments") or each.get("input")) for each in inner]


def _join_pieces(name: str, growing: StreamBuffer) -> Any:
    pieces = growing.pieces
    if name == "content" and any(isinstance(piece, list) for piece in pieces):
        return _join_parts(pieces)
    return merge_pieces(pieces, name)


def _join_parts(pieces: list[Any]) -> list[Any]:
    """Return content of parts as one list; some endpoints send texts between them."""
    parts: list[Any] = []
    for piece in pieces:
        given = [{"type": "text", "text": piece}] if isinstance(piece, str) else piece
        for part in given if isinstance(given, list) else []:
            last: Any = parts[-1] if parts else None
            if _is_text(part) and _is_text(last):
                parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
            else:
                parts.append(part)
    return parts


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


DONE = b"data: [DONE]\n\n"
OF_CHUNK = frozenset({"choices", "usage", "obfuscation"})


class ChatStreamReader(BufferedStreamReader):
    """A streamed answer. It has ended when all its choices have, or at the `[DONE]` event.

    A piece is about the end if nothing can follow it: usage comes after the end of the last choice.
    Usage that the request did not ask for is hidden.
    """

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(read_answer)
        self._usage_asked = requests_usage(request.params)
        self._expected = _choice_count(request.params.get("n"))
        self._offered = tool_names(request.tools)
        self._head: Body = {}
        self._earlier: Body = {}
        self._choices: dict[int, ChoiceDraft] = {}
        self._usage = StreamBuffer()
        self._usage_apart = True
        self._done = StreamBuffer()

    @property
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""
        if self._done.pieces or self._error is not None:
            return self._error is None
        choices = self._choices.values()
        return len(choices) >= self._expected and all(one.finish.pieces for one in choices)

    def read_piece(self, piece: Piece) -> Kind:
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
            if _has_content(chunk):  # it is passed on unseen, and so must not be an answer as well
                raise UnreadableError(describe_error(self._error))
            return "error"
        try:
            return self._read_chunk(chunk)
        except WRONG as error:
            raise unreadable_error("stream", error) from error

    def _read_chunk(self, chunk: Body) -> Kind:
        kind: Kind = "quiet"
        for name, value in chunk.items():
            if name not in OF_CHUNK and value is not None:
                self._store_field(name, value)
                if name not in OF_ANSWER and begins_call({name: value}):
                    kind = "tool"
        choices = list_in(chunk.get("choices"), "its choices")
        for given in choices:
            choice = object_in(given, "a choice")
            index = choice.get("index") or 0
            if not isinstance(index, int):
                raise InvalidAnswer("the index of a choice should be a number")
            known = self._choices.get(index) or self._open_choice(index)
            about = known.add_piece(choice, self._touched)
            if about == "tool" or kind == "quiet":
                kind = about
        if chunk.get("usage"):
            self._usage.pieces.append(chunk["usage"])
            self._usage_apart = not choices
            if self._usage_apart and not self._usage_asked:
                return "hidden"
            self._touched.append(self._usage)
        return kind

    def _store_field(self, name: str, value: Any) -> None:
        """Keep a field of a piece; of an unknown one, its earlier values as well."""
        known = self._head.get(name, value)
        if known != value and name not in OF_ANSWER:
            add_earlier(self._earlier, {name: known})
        self._head[name] = value

    def _open_choice(self, index: int) -> ChoiceDraft:
        self._choices[index] = choice = ChoiceDraft(index, self._offered)
        return choice

    def _build_body(self) -> Body:
        choices = [self._choices[index].to_choice() for index in sorted(self._choices)]
        usage = {"usage": self._usage.pieces[-1]} if self._usage.pieces else {}
        return self._head | self._earlier | {"choices": choices} | usage

    def write_rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was sent."""
        body, before = self._read_answer()
        written = write_answer(body, before, after)
        targets = {target["index"]: target for target in written["choices"]}
        head = {name: written[name] for name in self._head if name in written}
        usage = {"usage": written["usage"]} if written.get("usage") else {}
        riding = {} if self._usage_apart or self._usage.begun else usage
        for index, choice in self._choices.items():
            target = targets.get(index)
            for step in choice.write_missing(target) if target else ():
                yield _write_chunk(head, step)
            finish = target["finish_reason"] if target else None
            ending = choice.write_end(finish) if target or choice.has_been_sent else None
            if ending is not None:
                yield _write_chunk(head | riding, ending)
        if usage and self._usage_apart and self._usage_asked and not self._usage.begun:
            yield _write_chunk(head | usage)
        if not self._done.begun:
            yield DONE


def write_stream(body: Body, *, usage: bool) -> Iterator[bytes]:
    """Write a whole answer as a stream."""
    head = {name: body[name] for name in body if name not in OF_CHUNK}
    head["object"] = "chat.completion.chunk"
    for target in body["choices"]:
        choice = ChoiceDraft(target["index"])
        for step in choice.write_missing(target):
            yield _write_chunk(head, step)
        if ending := choice.write_end(target["finish_reason"]):
            yield _write_chunk(head, ending)
    if usage:
        yield _write_chunk(head | {"usage": body["usage"]})
    yield DONE


def requests_usage(params: Mapping[str, Any]) -> bool:
    """Return whether a request wants usage at the end of its stream."""
    options = params.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


def request_usage(body: Body) -> Body:
    """Return a request for usage at the end of its stream; the same, if it is or cannot be one."""
    if requests_usage(body) or not body.get("stream"):
        return body
    options = body.get("stream_options")
    kept = options if isinstance(options, dict) else {}
    return body | {"stream_options": kept | {"include_usage": True}}


def _has_content(chunk: Body) -> bool:
    """Return whether a piece has anything of an answer."""
    given = chunk.get("choices")
    choices = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    told = [one.get(name) for one in choices for name in ("delta", "message")]
    return any(one[name] for one in told if isinstance(one, dict) for name in one if name != "role")


def _write_chunk(head: Body, *choices: Body) -> bytes:
    return write_event(write_json(head | {"choices": [*choices]}))


def _choice_count(n: Any) -> int:
    return n if isinstance(n, int) and n > 1 else 1
