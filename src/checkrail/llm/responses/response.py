"""Answers of the Responses API: what its items say and call, and items that say something else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.values import AssistantMessage, ToolCall, plain
from checkrail.llm.answer_fields import count_in, counts_in
from checkrail.llm.argument_checks import check_arguments
from checkrail.llm.conversation import unparsed_in
from checkrail.llm.diff import match_items
from checkrail.llm.other_fields import (
    CALL_FIELDS,
    ITEM_FIELDS,
    call_fields_of,
    find_item_fields,
    find_other_fields,
    item_fields_of,
    read_other_fields,
    rewrite_fields,
    with_call_fields,
    write_other_fields,
)
from checkrail.llm.provider_errors import describe_error
from checkrail.llm.responses.parts import MESSAGE_PARTS, TEXTS
from checkrail.llm.responses.tool_calls import (
    CallType,
    Item,
    build_call,
    call_id,
    call_type_for,
    find_call_type,
    read_arguments,
    rewrite_call,
)
from checkrail.llm.stop_reasons import counts_differ, read_stop_reason
from checkrail.llm.tool_arguments import read_calls
from checkrail.llm.wire_format import UnreadableError

Spot = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of an answer: the place of its item, its index there, and how hooks see it.

    An item that is no message says one thing, itself, and has no index. `plain` is a mere text.
    """

    place: int
    index: int | None
    part: Mapping[str, Any]
    plain: bool

    @property
    def text(self) -> str:
        """Its text, or an empty one."""
        name = {"text": "text", "refusal": "refusal"}.get(str(self.part.get("type")), "")
        return str(self.part.get(name) or "")


@dataclass(slots=True)
class ContentPlan:
    """Which parts of an answer change (None is left out), and which are added."""

    otherwise: dict[Spot, Any] = field(default_factory=dict)
    _within: dict[Spot, list[Any]] = field(default_factory=dict)
    _before: dict[int, list[Any]] = field(default_factory=dict)

    def changes_item(self, place: int) -> bool:
        """Return whether anything in the item at this place changes."""
        return any(spot[0] == place for spot in (*self.otherwise, *self._within))

    def changed_part(self, place: int, index: int | None, part: Any = None) -> Any:
        """Return the new part there."""
        return self.otherwise.get((place, index), part)

    def parts_behind(self, place: int, index: int) -> list[Any]:
        """Return what is added behind a part, in the same message."""
        return self._within.get((place, index), [])

    def parts_ahead(self, place: int) -> list[Any]:
        """Return what is added ahead of the item at this place."""
        return self._before.get(place, [])

    def add(
        self,
        part: Any,
        behind: OutputPart | None,
        ahead: OutputPart | None,
        gone: Sequence[int],
        had: int,
    ) -> None:
        """Add a part: in the place of a call that is left out, if one was there."""
        place = -1 if behind is None else behind.place
        if behind is not None and ahead is not None and ahead.place == place:
            self._within.setdefault((place, behind.index), []).append(part)
            return
        free = (one for one in gone if one > place and (ahead is None or one < ahead.place))
        self._before.setdefault(max(next(free, place + 1), had), []).append(part)


def build_content_plan(
    said: Sequence[OutputPart], content: Any, gone: Sequence[int], had: int
) -> ContentPlan:
    """Return how these parts of an answer become `content`.

    `gone` are the places of calls that are left out; nothing is put ahead of the place `had`.
    """
    wanted = _split_text(content, said) if isinstance(content, str) else [*content]
    origins = match_items([one.part for one in said], wanted, _same_part)
    plan = ContentPlan()
    kept = {origin for origin in origins if origin is not None}
    for one in (one for place, one in enumerate(said) if place not in kept):
        plan.otherwise[one.place, one.index] = None
    behind: OutputPart | None = None
    for place, (part, origin) in enumerate(zip(wanted, origins, strict=True)):
        if origin is None:
            later = (said[one] for one in origins[place:] if one is not None)
            plan.add(part, behind, next(later, None), gone, had)
            continue
        behind = said[origin]
        if behind.part != part:
            plan.otherwise[behind.place, behind.index] = part
    return plan


def _same_part(was: Mapping[str, Any], part: Any) -> bool:
    if isinstance(part, str):
        return was.get("type") == "text"
    return (was.get("type"), was.get("id")) == (part.get("type"), part.get("id"))


def _split_text(text: str, said: Sequence[OutputPart]) -> list[Any]:
    """Split a text into the parts that it had before, as long as they begin it."""
    parts: list[Any] = []
    for one in said:
        if not one.text or not text:
            continue
        if text.startswith(one.text):
            parts.append(one.part if one.plain else {"type": "text", "text": one.text})
            text = text[len(one.text) :]
            continue
        refusal = one.plain and one.part.get("type") == "refusal"
        name = "refusal" if refusal else "text"
        return [*parts, {"type": name, name: text}]
    return [*parts, {"type": "text", "text": text}] if text else parts


CUT_SHORT = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
"""What other APIs call the reasons for which an answer ends too early."""

OF_ANSWER = frozenset(
    {"id", "object", "created_at", "completed_at", "model", "status", "output", "output_text"}
    | {"usage", "error", "incomplete_details", "background", "billing", "conversation"}
    | {"instructions", "max_output_tokens", "max_tool_calls", "metadata", "moderation"}
    | {"parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key"}
    | {"prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store"}
    | {"temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation"}
    | {"user", "frequency_penalty", "presence_penalty", "include"}
)
"""What the API says of an answer; much of it repeats the request."""

OF_CALL = frozenset({"type", "id", "call_id", "name", "status"})
OF_MESSAGE = frozenset({"type", "id", "status", "role", "content"})

INCOMPLETE = frozenset({"max_output_tokens", "max_messages", "content_filter", *CUT_SHORT})


def new_id(prefix: str) -> str:
    """Make an id as the API makes them."""
    return f"{prefix}_{secrets.token_hex(24)}"


def find_output_parts(items: Sequence[Item]) -> list[OutputPart]:
    """Return the parts of an answer; reasoning that nobody can read has none."""
    return [said for position, item in enumerate(items) for said in _item_parts(position, item)]


def _item_parts(position: int, item: Item) -> Iterator[OutputPart]:
    if find_call_type(item) is not None or _is_unreadable(item):
        return
    if item.get("type") != "message":
        yield OutputPart(position, None, item, plain=False)
        return
    content = item.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        shown = _show_part(part)
        if shown not in ({"type": "text", "text": ""}, {"type": "refusal", "refusal": ""}):
            simple = shown.keys() in ({"type", "text"}, {"type", "refusal"})
            yield OutputPart(position, index, shown, plain=simple)


def _is_unreadable(item: Item) -> bool:
    readable = item.get("summary") or item.get("content")
    return item.get("type") == "reasoning" and not readable


def _show_part(part: Any) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        raise UnreadableError("a part of a message in the answer should be an object")
    if part.get("type") not in TEXTS:
        return part
    hidden = {"logprobs"} if part.get("annotations") else {"logprobs", "annotations"}
    seen = {name: value for name, value in part.items() if name not in hidden}
    return {**seen, "type": "text", "text": part.get("text") or ""}


def read_message(response: Mapping[str, Any], items: Sequence[Item]) -> AssistantMessage:
    """Read an answer. Raises `UnreadableError`."""
    if response.get("error") or response.get("status") == "failed":
        raise UnreadableError(describe_error(response.get("error")))
    said = find_output_parts(items)
    content: Any = [one.part for one in said]
    if all(one.plain for one in said):
        content = "".join(one.text for one in said)
    called = [*_read_calls(items)]
    calls, metadata = read_calls(called)
    refused = any(one.part.get("type") == "refusal" for one in said)
    model = response.get("model")
    answer = AssistantMessage(
        content,
        calls,
        model if isinstance(model, str) else None,
        read_usage(response.get("usage")),
        read_stop_reason(_read_stop_reason(response, refused=refused), calls=bool(calls)),
        {
            **metadata,
            **find_other_fields(response, OF_ANSWER),
            **find_item_fields(items, OF_MESSAGE),
        },
    )
    answer = with_call_fields(answer, _call_fields(items))
    return check_arguments(answer, [arguments for _, _, arguments in called])


def _read_calls(items: Sequence[Item]) -> Iterator[tuple[str, str, Any]]:
    for item in items:
        calling = find_call_type(item)
        if calling is None:
            continue
        name = calling.tool or item.get("name")
        if not isinstance(name, str) or not name:
            raise UnreadableError("the answer calls a tool without a name")
        yield call_id(item, calling), name, plain(read_arguments(item, calling))


def _call_fields(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    for item in items:
        calling = find_call_type(item)
        if calling is not None:
            known = {*OF_CALL, calling.field}
            is_args = calling.style == "fields"
            yield {} if is_args else {name: item[name] for name in item if name not in known}


def read_usage(given: Any) -> dict[str, Any] | None:
    """Return token counts under the names that every model here uses."""
    given = given if isinstance(given, Mapping) else {}
    sent, answered = (count_in(given.get(f"{name}_tokens")) for name in ("input", "output"))
    total = count_in(given.get("total_tokens")) or sent + answered
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": total}
    names = ("input_tokens_details", "output_tokens_details")
    details = {name: counts_in(given.get(name)) for name in names}
    return counted | {name: found for name, found in details.items() if found} if total else None


def write_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write usage as the API does."""
    told = usage or {}
    sent, answered = (count_in(told.get(f"{name}_tokens")) for name in ("input", "output"))
    cached = {"cached_tokens": 0} | dict(told.get("input_tokens_details") or {})
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cache_write_tokens": 0} | cached,
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0}
        | dict(told.get("output_tokens_details") or {}),
        "total_tokens": count_in(told.get("total_tokens")) or sent + answered,
    }


def _read_stop_reason(response: Mapping[str, Any], *, refused: bool) -> str | None:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    found = "refusal" if refused else reason or response.get("status")
    return found if isinstance(found, str) else None


def is_same_answer(before: AssistantMessage, after: AssistantMessage) -> bool:
    """Return whether a caller would get the same."""
    counted = counts_differ(before.usage, after.usage)
    return not counted and _visible_fields(before) == _visible_fields(after)


def _visible_fields(message: AssistantMessage) -> tuple[Any, ...]:
    calls = [(call.id, call.name, call.args) for call in message.tool_calls]
    others = read_other_fields(message), *map(message.metadata.get, (CALL_FIELDS, ITEM_FIELDS))
    return message.content, calls, unparsed_in(message), message.model, message.stop_reason, others


@dataclass(frozen=True, slots=True)
class OutputChange:
    """An answer that hooks changed: its items, what was read from them, and what is to be sent.

    `had` are items as the caller has them already, in their places: they stay there.
    """

    items: Sequence[Item]
    before: AssistantMessage
    after: AssistantMessage
    tools: Sequence[Any] = ()
    had: Sequence[Item] = ()

    def write_items(self) -> list[Item | None]:
        """Write the items; None is a call that the caller has begun to get and must not have."""
        left = [*self._remaining_items()]
        gone = [place for place, item in enumerate(left) if item is None]
        plan = self._plan_content(gone)
        written: list[Item | None] = []
        for place, item in enumerate(left):
            written += build_items(plan.parts_ahead(place))
            now = None if item is None else self._rewrite_item(place, item, plan)
            if now is not None or place < len(self.had):
                written.append(now)
        written += build_items(plan.parts_ahead(len(left)))
        return [*written, *self._build_calls()]

    def _plan_content(self, gone: Sequence[int]) -> ContentPlan:
        if self.before.content == self.after.content:
            return ContentPlan()
        return build_content_plan(
            find_output_parts(self.items), self.after.content, gone, len(self.had)
        )

    def _remaining_items(self) -> Iterator[Item | None]:
        """Yield the items with the calls as they are to be, None for those that are left out."""
        read = iter(self.before.tool_calls)
        wanted = {call.id: call for call in self.after.tool_calls}
        then, now_texts = unparsed_in(self.before), unparsed_in(self.after)
        for place, came in enumerate(self.items):
            calling = find_call_type(came)
            was = next(read, None) if calling is not None else None
            if calling is None or was is None:
                fields = (item_fields_of(message, place) for message in (self.before, self.after))
                yield rewrite_fields(came, *fields)
                continue
            fields = (call_fields_of(message, was.id) for message in (self.before, self.after))
            item = rewrite_fields(came, *fields)
            if (now := wanted.get(was.id)) is None:
                yield None
            elif (now.name, now.args, now_texts.get(was.id)) == (
                was.name,
                was.args,
                then.get(was.id),
            ):
                yield item
            else:
                args = self._changed_arguments(item, calling, was, now)
                yield rewrite_call(item, calling, now.name, args)

    def _changed_arguments(
        self, item: Item, calling: CallType, was: ToolCall, now: ToolCall
    ) -> Any:
        """Return the arguments of a call as they are to be; they may be a text that is not JSON."""
        if now.args != was.args:
            return now.args
        then, text = (unparsed_in(each).get(was.id) for each in (self.before, self.after))
        return read_arguments(item, calling) if then == text else now.args if text is None else text

    def _build_calls(self) -> Iterator[Item]:
        known = {call.id for call in self.before.tool_calls}
        return (self._build_call(call) for call in self.after.tool_calls if call.id not in known)

    def _build_call(self, call: ToolCall) -> Item:
        calling = call_type_for(call.id, call.name, self.tools)
        item = build_call(calling, call.id, call.name, call.args)
        return {"id": new_id("fc"), **item, "status": "completed"}

    def _rewrite_item(self, place: int, item: Item, plan: ContentPlan) -> Item | None:
        """Write the new content of an item; None if it has none."""
        if not plan.changes_item(place):
            return item
        if item.get("type") != "message":
            return plan.changed_part(place, None) or (item if place < len(self.had) else None)
        content: list[Any] = []
        for index, part in enumerate(item.get("content") or ()):
            new = plan.changed_part(place, index, part)
            if new is None:
                content += self._sent_part(place, index)
            else:
                content.append(part if new is part else write_output_part(new, part))
            content += [write_output_part(more) for more in plan.parts_behind(place, index)]
        return {**item, "content": content} if content or place < len(self.had) else None

    def _sent_part(self, place: int, index: int) -> list[Any]:
        had = self.had[place].get("content") if place < len(self.had) else None
        return [had[index]] if isinstance(had, list) and index < len(had) else []


def write_output_part(part: Any, came: Any = None) -> dict[str, Any]:
    """Write something as a part of an answer; annotations of the old text are dropped."""
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    given = plain(part)
    if given.get("type") not in TEXTS:
        return dict(given)
    written: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": []} | given
    if came is not None and "logprobs" not in came:
        del written["logprobs"]
    return {**written, "type": "output_text"}


def build_items(parts: Sequence[Any]) -> list[Item]:
    """Write parts as items: texts are a message, what is an item already stays one."""
    items: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Mapping) and part.get("type") not in MESSAGE_PARTS:
            items.append(plain(part))
        elif items and items[-1].get("type") == "message":
            items[-1]["content"].append(write_output_part(part))
        else:
            items.append(_build_message([write_output_part(part)]))
    return [*items]


def _build_message(content: list[Any]) -> dict[str, Any]:
    about = {"id": new_id("msg"), "type": "message", "status": "completed", "role": "assistant"}
    return {**about, "content": content}


def write_response(
    response: Mapping[str, Any], change: OutputChange, output: Sequence[Item]
) -> dict[str, Any]:
    """Write the fields of an answer as a whole, with these items."""
    written = write_other_fields(response, change.before, change.after)
    written["output"] = [plain(item) for item in output]
    if change.after.model != change.before.model:
        written["model"] = change.after.model
    if counts_differ(change.before.usage, change.after.usage):
        written["usage"] = write_usage(change.after.usage)
    if "output_text" in response:  # some endpoints give the text a second time
        written["output_text"] = "".join(one.text for one in find_output_parts(output))
    if change.after.stop_reason != change.before.stop_reason:
        written |= end_fields(change.after)
    return written


def end_fields(message: AssistantMessage) -> dict[str, Any]:
    """Return the fields for the end of an answer that hooks changed or supplied."""
    reason = message.stop_reason
    if reason not in INCOMPLETE:
        return {"status": "completed", "error": None, "incomplete_details": None}
    details = {"reason": CUT_SHORT.get(str(reason), reason)}
    return {"status": "incomplete", "error": None, "incomplete_details": details}
