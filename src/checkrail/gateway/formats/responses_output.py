"""Answers of the Responses API: what its items say and call, and items that say something else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.agent.messages import unparsed_in
from checkrail.agent.models.arguments import read_calls
from checkrail.agent.models.checked import count_in, counts_in
from checkrail.agent.models.stop_reasons import read_stop_reason
from checkrail.engine.values import AssistantMessage, ToolCall, plain
from checkrail.gateway.formats.arguments import in_one_way
from checkrail.gateway.formats.base import UnreadableError
from checkrail.gateway.formats.endings import counts_differ
from checkrail.gateway.formats.other_fields import find_others, others_of, with_others
from checkrail.gateway.formats.provider_errors import reported
from checkrail.gateway.formats.responses_calls import (
    Calling,
    Item,
    arguments_of,
    call_id,
    calling_for,
    calling_of,
    new_call,
    rewritten,
    tool_of,
)
from checkrail.gateway.formats.responses_parts import MESSAGE_PARTS, TEXTS
from checkrail.gateway.formats.responses_plan import Plan, Said, new_plan

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

INCOMPLETE = frozenset({"max_output_tokens", "max_messages", "content_filter", *CUT_SHORT})


def new_id(prefix: str) -> str:
    """Make an id as the API makes them."""
    return f"{prefix}_{secrets.token_hex(24)}"


def said_in(items: Sequence[Item]) -> list[Said]:
    """Find what an answer says; reasoning that nobody can read says nothing."""
    return [said for position, item in enumerate(items) for said in _said(position, item)]


def _said(position: int, item: Item) -> Iterator[Said]:
    if calling_of(item) is not None or _is_silent(item):
        return
    if item.get("type") != "message":
        yield Said(position, None, item, plain=False)
        return
    content = item.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        shown = _shown(part)
        if shown not in ({"type": "text", "text": ""}, {"type": "refusal", "refusal": ""}):
            simple = shown.keys() in ({"type", "text"}, {"type", "refusal"})
            yield Said(position, index, shown, plain=simple)


def _is_silent(item: Item) -> bool:
    readable = item.get("summary") or item.get("content")
    return item.get("type") == "reasoning" and not readable


def _shown(part: Any) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        raise UnreadableError("a part of a message in the answer should be an object")
    if part.get("type") not in TEXTS:
        return part
    hidden = {"logprobs"} if part.get("annotations") else {"logprobs", "annotations"}
    seen = {name: value for name, value in part.items() if name not in hidden}
    return {**seen, "type": "text", "text": part.get("text") or ""}


def message_of(response: Mapping[str, Any], items: Sequence[Item]) -> AssistantMessage:
    """Read an answer. Raises `UnreadableError`."""
    if response.get("error") or response.get("status") == "failed":
        raise UnreadableError(reported(response.get("error")))
    said = said_in(items)
    content: Any = [one.part for one in said]
    if all(one.plain for one in said):
        content = "".join(one.text for one in said)
    called = [*_calls(items)]
    calls, metadata = read_calls(called)
    refused = any(one.part.get("type") == "refusal" for one in said)
    model = response.get("model")
    answer = AssistantMessage(
        content,
        calls,
        model if isinstance(model, str) else None,
        usage_of(response.get("usage")),
        read_stop_reason(_stop(response, refused=refused), calls=bool(calls)),
        {**metadata, **find_others(response, OF_ANSWER)},
    )
    return in_one_way(answer, [arguments for _, _, arguments in called])


def _calls(items: Sequence[Item]) -> Iterator[tuple[str, str, Any]]:
    for item in items:
        calling = calling_of(item)
        if calling is None:
            continue
        name = tool_of(item, calling)
        if not name:
            raise UnreadableError("the answer calls a tool without a name")
        yield call_id(item, calling), name, plain(arguments_of(item, calling))


def usage_of(given: Any) -> dict[str, Any] | None:
    """Count tokens as every model here does."""
    given = given if isinstance(given, Mapping) else {}
    sent, answered = (count_in(given.get(f"{name}_tokens")) for name in ("input", "output"))
    total = count_in(given.get("total_tokens")) or sent + answered
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": total}
    names = ("input_tokens_details", "output_tokens_details")
    details = {name: counts_in(given.get(name)) for name in names}
    return counted | {name: found for name, found in details.items() if found} if total else None


def written_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
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


def _stop(response: Mapping[str, Any], *, refused: bool) -> str | None:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    found = "refusal" if refused else reason or response.get("status")
    return found if isinstance(found, str) else None


def same(before: AssistantMessage, after: AssistantMessage) -> bool:
    """Return whether a caller would be told the same."""
    return _told(before) == _told(after)


def _told(message: AssistantMessage) -> tuple[Any, ...]:
    calls = [(call.id, call.name, call.args) for call in message.tool_calls]
    texts, others = unparsed_in(message), others_of(message)
    return message.content, calls, texts, message.model, message.stop_reason, others


@dataclass(frozen=True, slots=True)
class Changing:
    """An answer that hooks changed: its items, what was read from them, and what is to be told.

    `had` are items as the caller has them already, in their places: they stay there.
    """

    items: Sequence[Item]
    before: AssistantMessage
    after: AssistantMessage
    tools: Sequence[Any] = ()
    had: Sequence[Item] = ()

    def output(self) -> list[Item | None]:
        """Write the items; None is a call that the caller has begun to get and must not have."""
        left = [*self._left()]
        gone = [place for place, item in enumerate(left) if item is None]
        plan = self._plan(gone)
        written: list[Item | None] = []
        for place, item in enumerate(left):
            written += new_items(plan.before(place))
            now = None if item is None else self._resaid(place, item, plan)
            if now is not None or place < len(self.had):
                written.append(now)
        written += new_items(plan.before(len(left)))
        return [*written, *self._new_calls()]

    def _plan(self, gone: Sequence[int]) -> Plan:
        if self.before.content == self.after.content:
            return Plan()
        return new_plan(said_in(self.items), self.after.content, gone, len(self.had))

    def _left(self) -> Iterator[Item | None]:
        """Yield the items with the calls as they are to be, None for those that are left out."""
        read = iter(self.before.tool_calls)
        wanted = {call.id: call for call in self.after.tool_calls}
        then, now_texts = unparsed_in(self.before), unparsed_in(self.after)
        for item in self.items:
            calling = calling_of(item)
            was = next(read, None) if calling is not None else None
            if calling is None or was is None:
                yield item
            elif (now := wanted.get(was.id)) is None:
                yield None
            elif (now.name, now.args, now_texts.get(was.id)) == (
                was.name,
                was.args,
                then.get(was.id),
            ):
                yield item
            else:
                args = self._arguments(item, calling, was, now)
                yield rewritten(item, calling, now.name, args)

    def _arguments(self, item: Item, calling: Calling, was: ToolCall, now: ToolCall) -> Any:
        """Return the arguments of a call as they are to be; they may be a text that is no JSON."""
        if now.args != was.args:
            return now.args
        then, text = (unparsed_in(each).get(was.id) for each in (self.before, self.after))
        return arguments_of(item, calling) if then == text else now.args if text is None else text

    def _new_calls(self) -> Iterator[Item]:
        known = {call.id for call in self.before.tool_calls}
        return (self._new_call(call) for call in self.after.tool_calls if call.id not in known)

    def _new_call(self, call: ToolCall) -> Item:
        calling = calling_for(call.id, call.name, self.tools)
        item = new_call(calling, call.id, call.name, call.args)
        return {"id": new_id("fc"), **item, "status": "completed"}

    def _resaid(self, place: int, item: Item, plan: Plan) -> Item | None:
        """Write what an item is to say now; None if that is nothing."""
        if not plan.touches(place):
            return item
        if item.get("type") != "message":
            return plan.instead(place, None) or (item if place < len(self.had) else None)
        content: list[Any] = []
        for index, part in enumerate(item.get("content") or ()):
            new = plan.instead(place, index, part)
            if new is None:
                content += self._part_had(place, index)
            else:
                content.append(part if new is part else out_part(new, part))
            content += [out_part(more) for more in plan.within(place, index)]
        return {**item, "content": content} if content or place < len(self.had) else None

    def _part_had(self, place: int, index: int) -> list[Any]:
        had = self.had[place].get("content") if place < len(self.had) else None
        return [had[index]] if isinstance(had, list) and index < len(had) else []


def out_part(part: Any, came: Any = None) -> dict[str, Any]:
    """Write something said as a part of an answer; what was known of the old words is not kept."""
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    given = plain(part)
    if given.get("type") not in TEXTS:
        return dict(given)
    written: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": []} | given
    if came is not None and "logprobs" not in came:
        del written["logprobs"]
    return {**written, "type": "output_text"}


def new_items(parts: Sequence[Any]) -> list[Item]:
    """Write parts as items: texts are a message, what is an item already stays one."""
    items: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Mapping) and part.get("type") not in MESSAGE_PARTS:
            items.append(plain(part))
        elif items and items[-1].get("type") == "message":
            items[-1]["content"].append(out_part(part))
        else:
            items.append(_new_message([out_part(part)]))
    return [*items]


def _new_message(content: list[Any]) -> dict[str, Any]:
    about = {"id": new_id("msg"), "type": "message", "status": "completed", "role": "assistant"}
    return {**about, "content": content}


def written_response(
    response: Mapping[str, Any], change: Changing, output: Sequence[Item]
) -> dict[str, Any]:
    """Write what is said of an answer as a whole, with these items."""
    written = with_others(response, change.before, change.after)
    written["output"] = [plain(item) for item in output]
    if change.after.model != change.before.model:
        written["model"] = change.after.model
    if counts_differ(change.before.usage, change.after.usage):
        written["usage"] = written_usage(change.after.usage)
    if "output_text" in response:  # some endpoints give the text a second time
        written["output_text"] = "".join(one.text for one in said_in(output))
    if change.after.stop_reason != change.before.stop_reason:
        written |= ending(change.after)
    return written


def ending(message: AssistantMessage) -> dict[str, Any]:
    """Return how an answer ended that hooks changed, or gave."""
    reason = message.stop_reason
    if reason not in INCOMPLETE:
        return {"status": "completed", "error": None, "incomplete_details": None}
    details = {"reason": CUT_SHORT.get(str(reason), reason)}
    return {"status": "incomplete", "error": None, "incomplete_details": details}
