"""One choice of a chat stream, and its calls: put together piece by piece, and written on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from checkrail.agent.models.checked import list_in, object_in, text_in
from checkrail.agent.models.openai_answer import REASONING
from checkrail.agent.models.sdk_errors import InvalidAnswer
from checkrail.gateway.formats.base import Body, Kind
from checkrail.gateway.formats.chat_calls import LEGACY, TWO_KINDS
from checkrail.gateway.formats.growing import Growing, merged
from checkrail.gateway.formats.json_bytes import write_text

OF_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})
SPOKEN = ("content", "refusal", "audio", "tool_calls", LEGACY, *REASONING)
OF_CALL = frozenset({"index", "function", "custom"})
Form = Literal["function", "custom"]

TEXTS: dict[Form, str] = {"function": "arguments", "custom": "input"}


class CallDraft(Growing):
    """A tool call whose arguments are still coming."""

    __slots__ = ("form", "head", "index", "inner")

    def __init__(self, index: int, form: Form) -> None:
        super().__init__()
        self.index = index
        self.form: Form = form
        self.head: Body = {}
        self.inner: Body = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take a piece of it."""
        forms: list[Form] = [form for form in TEXTS if piece.get(form)]
        if forms and not (self.inner or self.pieces):
            self.form = forms[0]
        if any(form != self.form for form in forms):
            raise InvalidAnswer(TWO_KINDS)
        for name, value in piece.items():
            if name not in OF_CALL and value is not None:
                self.head.setdefault(name, value)
        for name, value in object_in(piece.get(self.form), "the function of a tool call").items():
            if name == TEXTS[self.form]:
                self.pieces.append(value if isinstance(value, str) else _arguments(value))
            elif name == "name":
                self._name(text_in(value, "the name of a tool"))
            elif value is not None:
                self.inner[name] = value

    def _name(self, piece: str) -> None:
        """Take a piece of the name; some endpoints tell all of it again and again."""
        known = self.inner.get("name", "")
        if piece != known:
            self.inner["name"] = known + piece

    def whole(self) -> Body:
        """Return the call as it stands in a whole answer."""
        return {**self.head, self.form: {**self.inner, TEXTS[self.form]: self.text}}


def _arguments(value: Any) -> str:
    return "" if value is None else write_text(value)


class Choice:
    """What has come of a choice, and what of it the caller has.

    `offered` are the names of the tools that the model may call.
    """

    def __init__(self, index: int, offered: Collection[str] = ()) -> None:
        self.index = index
        self._offered = offered
        self._told: list[Mapping[str, Any]] = []
        self.finish = Growing()
        self._fields: dict[str, Growing] = {}
        self._calls: list[CallDraft] = []
        self._by_index: dict[Any, CallDraft] = {}
        self._legacy: CallDraft | None = None
        self._logprobs: dict[str, Growing] = {}
        self._others: Body = {}

    def take(self, choice: Mapping[str, Any], touched: list[Growing]) -> Kind:
        """Take a piece of it, and say what that is about; `touched` is told what has grown."""
        kind: Kind = "quiet"
        for name, value in object_in(choice.get("delta"), "a delta").items():
            if value is None:
                continue
            if name == "tool_calls":
                kind = self._take_calls(value, touched) or kind
            elif name == LEGACY:
                self._legacy = self._legacy or CallDraft(0, "function")
                self._legacy.add({"function": value})
                touched.append(self._legacy)
                kind = "tool"
            else:
                self._grow(self._fields, name, value, touched)
                if kind == "quiet" and value and name != "role":
                    kind = "text"
        if told := object_in(choice.get("message"), "its message"):
            self._told.append(told)
            calls = told.get("tool_calls") or told.get(LEGACY)
            kind = "tool" if calls or kind == "tool" else "text"
        for name in choice.keys() - OF_CHOICE:
            self._others[name] = choice[name]
        for name, value in object_in(choice.get("logprobs"), "its logprobs").items():
            self._grow(self._logprobs, name, value, touched)
        if finish := text_in(choice.get("finish_reason"), "its finish reason"):
            self.finish.pieces.append(finish)
            touched.append(self.finish)
        return kind

    def _take_calls(self, value: Any, touched: list[Growing]) -> Literal["tool"] | None:
        pieces = list_in(value, "its tool calls")
        for position, given in enumerate(pieces):
            piece = object_in(given, "a tool call")
            call = self._call(piece, position)
            call.add(piece)
            touched.append(call)
        return "tool" if pieces else None

    def _call(self, piece: Mapping[str, Any], position: int) -> CallDraft:
        """Find the call that a piece belongs to; not every endpoint numbers them, or rightly."""
        index = piece.get("index")
        index = index if isinstance(index, int) else position
        known = self._by_index.get(index)
        if known is None or self._is_another(known, piece):
            known = self._by_index[index] = CallDraft(len(self._calls), "function")
            self._calls.append(known)
        return known

    def _is_another(self, known: CallDraft, piece: Mapping[str, Any]) -> bool:
        """Say whether a piece begins another call; what names another tool does, whatever its id.

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

    def _grow(
        self, where: dict[str, Growing], name: str, value: Any, touched: list[Growing]
    ) -> None:
        growing = where.get(name)
        if growing is None:
            growing = where[name] = Growing()
        growing.pieces.append(value)
        touched.append(growing)

    def whole(self) -> Body:
        """Return the choice as it stands in a whole answer."""
        message: Body = {"role": "assistant", "content": None}
        message |= {name: _value(name, growing) for name, growing in self._fields.items()}
        if self._calls:
            message["tool_calls"] = [call.whole() for call in self._calls]
        if self._legacy:
            message[LEGACY] = self._legacy.whole()["function"]
        for told in self._told:
            _check_same(message, told)
        logprobs = {name: merged(growing.pieces) for name, growing in self._logprobs.items()}
        whole = {"index": self.index, "message": message, "logprobs": logprobs or None}
        finish = self.finish.pieces[-1] if self.finish.pieces else None
        return whole | {"finish_reason": finish} | self._others

    def steps(self, target: Body) -> Iterator[Body]:
        """Write what the caller lacks of a choice that hooks changed, but for its end."""
        logprobs = self._unsent_logprobs() if target.get("logprobs") else None
        for delta in self._deltas(target["message"]):
            step: Body = {"index": self.index, "delta": delta, "finish_reason": None}
            yield step | ({"logprobs": logprobs} if logprobs and "content" in delta else {})

    def ending(self, finish: str | None) -> Body | None:
        """Write its end, unless the caller has it or never heard of this choice."""
        if self.finish.begun:
            return None
        return {"index": self.index, "delta": {}, "finish_reason": finish or "stop"}

    @property
    def begun(self) -> bool:
        """Whether the caller has something of it."""
        drafts = [*self._fields.values(), *self._calls, *([self._legacy] if self._legacy else [])]
        return any(growing.begun for growing in drafts)

    def _deltas(self, message: Body) -> Iterator[Body]:
        role = self._fields.get("role")
        if role is None or not role.begun:
            opening = "" if isinstance(message.get("content"), str) else None
            yield {"role": message.get("role") or "assistant", "content": opening}
        for name, value in message.items():
            if name not in ("role", "tool_calls", LEGACY) and value:
                missing = self._missing(name, value)
                if missing:
                    yield {name: missing}
        yield from self._call_deltas(message.get("tool_calls") or [])
        if legacy := message.get(LEGACY):
            yield from self._legacy_delta(legacy)

    def _missing(self, name: str, value: Any) -> Any:
        growing = self._fields.get(name)
        if growing is None or not growing.sent:
            return value
        if isinstance(value, str) and all(isinstance(piece, str) for piece in growing.pieces):
            return growing.rest_of(value)
        unsent = growing.pieces[growing.sent :]
        return merged(unsent, name) if value == _value(name, growing) and unsent else None

    def _call_deltas(self, calls: list[Body]) -> Iterator[Body]:
        passed = {call.head.get("id"): call for call in self._calls if call.begun}
        free = max((call.index + 1 for call in passed.values()), default=0)
        for call in calls:
            known = passed.get(call.get("id"))
            if known is None:
                yield {"tool_calls": [{"index": free, **call}]}
                free += 1
            elif more := known.rest_of(str(call[known.form].get(TEXTS[known.form], ""))):
                inner = {known.form: {TEXTS[known.form]: more}}
                yield {"tool_calls": [{"index": known.index, **inner}]}

    def _legacy_delta(self, function: Body) -> Iterator[Body]:
        if self._legacy is None or not self._legacy.begun:
            yield {LEGACY: function}
        elif more := self._legacy.rest_of(str(function.get("arguments", ""))):
            yield {LEGACY: {"arguments": more}}

    def _unsent_logprobs(self) -> Body | None:
        unsent = {
            name: merged(growing.pieces[growing.sent :])
            for name, growing in self._logprobs.items()
            if growing.sent < len(growing.pieces)
        }
        return unsent or None


def _check_same(streamed: Body, told: Mapping[str, Any]) -> None:
    """Refuse a stream that says one thing in pieces and another as a whole, as some do at the end.

    Rules hold for the pieces: a caller who reads the other of the two would get around them.
    """
    for name in SPOKEN:
        now = told.get(name)
        if now and _spoken(name, now) != _spoken(name, streamed.get(name)):
            raise InvalidAnswer("it says one thing in pieces and another as a whole")


def _spoken(name: str, value: Any) -> Any:
    """Return what is said in a field, without what else endpoints write there."""
    if name == LEGACY:
        return _spoken("tool_calls", [{"function": value}])
    if name != "tool_calls":
        return value
    calls = [object_in(call, "a tool call") for call in list_in(value, "its tool calls")]
    inner = [object_in(call.get("function") or call.get("custom"), "a call") for call in calls]
    return [(each.get("name"), each.get("arguments") or each.get("input")) for each in inner]


def _value(name: str, growing: Growing) -> Any:
    pieces = growing.pieces
    if name == "content" and any(isinstance(piece, list) for piece in pieces):
        return _parts(pieces)
    return merged(pieces, name)


def _parts(pieces: list[Any]) -> list[Any]:
    """Put content of parts together; some endpoints send texts between them."""
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
