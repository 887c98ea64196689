"""Parts of the Gemini API, shown as blocks of the messages API, and written back from them.

What has no counterpart there is a block of the name that it has here, with all that it carries.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage
from checkrail.llm.conversation import Message, is_parts, text_of
from checkrail.llm.gemini.names import (
    BLOB,
    CALL,
    DATA,
    PART,
    RESPONSE,
    objects_in,
    rename_fields,
)
from checkrail.llm.other_fields import CALL_FIELDS, call_fields_of
from checkrail.llm.wire_format import Body, UnreadableError

Part = Mapping[str, Any]
Block = dict[str, Any]

MADE = "gemini_"
"""How ids of calls begin that the API gave none."""

SIGNATURE = "thoughtSignature"
RESULT_TEXTS = ("output", "result")
"""Fields of a tool's response that are its text if nothing stands beside them."""

RESPONSE_PART = "response"
"""The type of a part of a result that is no text: all that the tool gave."""

PLAIN_PART = "part"
"""The type of a block that has no data."""


class CallIds:
    """Ids for calls and results of a conversation: a result belongs to the first call of its name.

    An id is made of what is called, so that it is the same when the conversation is sent again.
    """

    def __init__(self) -> None:
        self._alike: Counter[str] = Counter()
        self._waiting: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def begin_turn(self) -> None:
        """Forget the calls of earlier turns, which nobody has answered."""
        self._waiting.clear()

    def id_of_call(self, call: Mapping[str, Any]) -> str:
        """Return the id of a call: its own, or one that is made for it."""
        name = str(call.get("name"))
        own = call.get("id") or self._make_id([name, call.get("args")])
        self._waiting.append((str(own), name))
        self._names[str(own)] = name
        return str(own)

    def id_of_result(self, result: Mapping[str, Any]) -> str:
        """Return the id of the call that a result belongs to."""
        own, name = result.get("id"), str(result.get("name"))
        for place, (known, called) in enumerate(self._waiting):
            if known == own if own else called == name:
                del self._waiting[place]
                return known
        return str(own or self._make_id([name]))

    def name_of(self, id: str) -> str:
        """Return the name of the tool that was called under an id."""
        return self._names.get(id, "")

    def _make_id(self, what: list[Any]) -> str:
        written = json.dumps(what, sort_keys=True, default=str).encode(errors="surrogatepass")
        digest = hashlib.blake2b(written, digest_size=8).hexdigest()
        self._alike[digest] += 1
        return f"{MADE}{digest}_{self._alike[digest]}"


def show_part(given: Part, ids: CallIds) -> Block:
    """Return a part of a request as a block. Raises `UnreadableError`."""
    part = rename_fields(given, PART)
    kinds = [name for name in DATA if part.get(name) is not None]
    if len(kinds) > 1 or "type" in part:
        raise UnreadableError("a part should have one kind of data")
    if not kinds:
        return {"type": PLAIN_PART, **part}
    (kind,) = kinds
    match kind:
        case "text":
            return _show_text(part)
        case "functionCall":
            return _show_call(part, ids)
        case "functionResponse":
            return _show_response(part, ids)
        case "inlineData" | "fileData":
            part[kind] = rename_fields(_object(part, kind), BLOB)
    return _show_image(part) or {"type": kind, **part}


def _object(part: Part, name: str) -> Mapping[str, Any]:
    found = part[name]
    if not isinstance(found, Mapping):
        raise UnreadableError(f"`{name}` should be an object")
    return found


def _show_text(part: Body) -> Block:
    if not isinstance(part["text"], str):
        raise UnreadableError("`text` of a part should be a text")
    if not part.get("thought"):
        return {"type": "text", **part}
    known = ("thought",) if part["thought"] is True else ()
    others = _without_keys(part, "text", *known, SIGNATURE)
    signed = {"signature": part[SIGNATURE]} if part.get(SIGNATURE) else {}
    return {"type": "thinking", "thinking": part["text"], **signed, **others}


def _show_image(part: Body) -> Block | None:
    match part.get("inlineData"):
        case {"mimeType": str(kind), "data": str(data), **rest} if not rest:
            if kind.startswith("image/"):
                source = {"type": "base64", "media_type": kind, "data": data}
                return {"type": "image", "source": source, **_without_keys(part, "inlineData")}
    return None


def _show_call(part: Body, ids: CallIds) -> Block:
    call = rename_fields(_object(part, "functionCall"), CALL)
    if not isinstance(call.get("id"), str | None):
        raise UnreadableError("`id` of a function call should be a text")
    if not isinstance(call.get("args"), Mapping | None):
        raise UnreadableError("`args` of a function call should be an object")
    block = {"type": "tool_use", "id": ids.id_of_call(call), "name": call.get("name")}
    others = _without_keys(call, "id", "name", "args")
    beside = {"functionCall": others} if others else {}
    return {
        **block,
        "input": call.get("args") or {},
        **beside,
        **_without_keys(part, "functionCall"),
    }


def _show_response(part: Body, ids: CallIds) -> Block:
    result = rename_fields(_object(part, "functionResponse"), RESPONSE)
    response = result.get("response") or {}
    if not isinstance(response, Mapping):
        raise UnreadableError("`response` of a function response should be an object")
    content: Any = _show_content(response)
    if result.get("parts") is not None:
        shown = [show_part(each, ids) for each in objects_in(result["parts"], "parts")]
        said = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [*said, *shown]
    block = {"type": "tool_result", "tool_use_id": ids.id_of_result(result), "content": content}
    failed = {"is_error": True} if response.get("error") else {}
    others = _without_keys(result, "id", "name", "response", "parts")
    beside = {"functionResponse": others} if others else {}
    named = {"name": result.get("name")}
    return {**block, **failed, **named, **beside, **_without_keys(part, "functionResponse")}


def _show_content(response: Mapping[str, Any]) -> str | list[Block]:
    """Return a tool's response as hooks see it: its one text, or all that is in it."""
    if not response:
        return ""
    if len(response) == 1:
        ((name, value),) = response.items()
        if name in (*RESULT_TEXTS, "error") and isinstance(value, str):
            return value
    return [{"type": RESPONSE_PART, RESPONSE_PART: response}]


def write_part(block: Mapping[str, Any]) -> Body | None:
    """Write a block as a part; None if it has no counterpart."""
    match block.get("type"):
        case "text":
            return _without_keys(block, "type", "citations")
        case "thinking":
            signed = {SIGNATURE: block["signature"]} if block.get("signature") else {}
            others = _without_keys(block, "type", "thinking", "signature")
            return {"text": block.get("thinking") or "", "thought": True, **signed, **others}
        case "image":
            return _write_image(block)
        case "tool_use":
            return _write_call(block)
        case str(kind) if kind in block or kind == PLAIN_PART:
            return _without_keys(block, "type")
    return None


def _write_image(block: Mapping[str, Any]) -> Body:
    source = block["source"]
    others = _without_keys(block, "type", "source")
    if source.get("type") == "base64":
        data = {"mimeType": source["media_type"], "data": source["data"]}
        return {"inlineData": data, **others}
    return {"fileData": {"fileUri": source.get("url")}, **others}


def _write_call(block: Mapping[str, Any]) -> Body:
    given = str(block.get("id") or MADE)
    own = {} if given.startswith(MADE) else {"id": given}
    call = {**own, "name": block.get("name"), "args": thaw(block.get("input") or {})}
    others = _without_keys(block, "type", "id", "name", "input", "functionCall")
    return {"functionCall": call | (block.get("functionCall") or {}), **others}


def write_response(block: Mapping[str, Any], was: Part | None, name: str) -> Body:
    """Write a tool's result as a part; `was` is the part that it was changed from."""
    came = rename_fields(was["functionResponse"], RESPONSE) if was else {}
    given = str(block.get("tool_use_id") or MADE)
    made = {"id": given} if not was and not given.startswith(MADE) else {}
    known = {key: came[key] for key in ("id", "name") if key in came}
    result = {"name": name, **made, **known, **(block.get("functionResponse") or {})}
    content: Any = block.get("content") or ""
    parts: Sequence[Any] = content if is_parts(content) else []
    response = next((part[RESPONSE_PART] for part in parts if RESPONSE_PART in part), None)
    if response is None:
        text, failed = text_of(content), bool(block.get("is_error"))
        response = _write_text(text, came.get("response") or {}, failed=failed)
    result["response"] = response
    media = (part for part in parts if part["type"] not in ("text", RESPONSE_PART))
    if written := [part for each in media if (part := write_part(each)) is not None]:
        result["parts"] = written
    apart = ("type", "tool_use_id", "name", "content", "is_error", "functionResponse")
    return thaw({**_without_keys(block, *apart), "functionResponse": result})  # type: ignore[no-any-return]


def _write_text(text: str, before: Mapping[str, Any], *, failed: bool) -> Body:
    if failed:
        return {"error": text}
    known = (name for name in RESULT_TEXTS if isinstance(before.get(name), str))
    return {next(known, RESULT_TEXTS[0]): text}


def with_signatures(said: Message, answer: AssistantMessage) -> Message:
    """Return an answer as a message whose calls have the signatures that the answer's have.

    The model's API refuses a conversation without them.
    """
    if not answer.metadata.get(CALL_FIELDS):
        return said
    calls = []
    for call in said.get("tool_calls") or ():
        signature = call_fields_of(answer, call["id"]).get(SIGNATURE)
        calls.append(call if signature is None else {**call, SIGNATURE: signature})
    return {**said, "tool_calls": calls} if calls else said


def merge_texts(blocks: Sequence[Block]) -> list[Block]:
    """Join texts that follow each other, as their reader does; thoughts are joined as well."""
    found: list[Block] = []
    for block in blocks:
        last: Block = found[-1] if found else {}
        kind = block["type"]
        same = last.get("type") == kind and last.get("choice") == block.get("choice")
        if same and kind in ("text", "thinking"):
            found[-1] = {**last, **block, kind: last[kind] + block[kind]}
        else:
            found.append(block)
    return found


def _without_keys(given: Mapping[str, Any], *names: str) -> Body:
    return {name: value for name, value in given.items() if name not in names}
