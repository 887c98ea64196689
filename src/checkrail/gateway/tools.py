"""Tool calls in an answer: hooks see each of them, and a blocked one is not left as it was."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult
from checkrail.gateway.hold_policy import is_guarded
from checkrail.gateway.tool_memory import ToolMemory, ToolResultVerdict, result_key
from checkrail.gateway.verdicts import Refused, broken_hook_error, gather_all, value_or_fail
from checkrail.llm.conversation import (
    Message,
    content_of,
    failed_result,
    is_call,
    legal_message,
    text_of,
    tool_message,
    unparsed_in,
)
from checkrail.llm.restoration import RestoredCall, Restorer
from checkrail.llm.stop_reasons import read_stop_reason
from checkrail.llm.unknown_calls import UnknownCall, rewrite_call, without_calls

NOT_MADE = "it was not called, because another call beside it was blocked: call it again if needed"
NOT_JSON = "its arguments are no JSON object, so that no rule can be applied to them"
NOT_RESTORED = (
    "its arguments have a redacted secret that is not known here any more: "
    "read again where it stands, and call it then"
)
NO_STAND_IN = "a hook has a result for it, but a gateway cannot answer in place of a tool"


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call as hooks left it, why it is blocked, if it is, and the messages they inject.

    `shown` is the call as the model may see it, where secrets were put back into it.
    """

    call: ToolCall
    blocked: str | None = None
    inject: Sequence[Message] = ()
    shown: ToolCall | None = None


class RestoredScope(Scope):
    """A scope for a tool call into which secrets were put back.

    Hooks in this process see them, for they judge what will run. Records, errors and requests to
    hooks outside have the placeholders, and what such a hook answers has the secrets put back.
    """

    __slots__ = ("_restored",)

    def __init__(self, scope: Scope, restored: RestoredCall) -> None:
        super().__init__(scope.levels, scope.context, scope.budget, scope.ask_handlers)
        self.accepts = scope.accepts
        self.notes = scope.notes
        self.exclude(scope.excluded)
        self.conceal = restored.conceal
        self._restored = restored

    def check_value(self, point: str, value: Any) -> Any:
        """Return a value that a hook left, with the secrets put back."""
        value = super().check_value(point, value)
        return self._restored.restore(value) if is_call(value) else value


async def check_tool_calls(
    scope: Scope,
    message: AssistantMessage,
    unparsed: Container[str],
    offered: Collection[str],
    restorer: Restorer | None = None,
) -> list[CheckedCall]:
    """Put secrets back into the tool calls of an answer, and fire the hooks on them, concurrently.

    `unparsed` are the calls whose arguments are no JSON. Nobody can judge those, and so they are
    blocked where any hook might have had something to say of them. `offered` are the names of the
    tools that the model was told of.
    """
    texts = unparsed_in(message)
    works = [
        _check_restored_call(
            scope.bind(tool_call_id=call.id),
            None if restorer is None else restorer.restore_call(call, texts.get(call.id, "")),
            call,
            offered,
            readable=bool(call.args) or call.id not in unparsed,
        )
        for call in message.tool_calls
    ]
    return await gather_all(works)


async def _check_under_names(
    at: Scope, call: ToolCall, offered: Collection[str], *, readable: bool
) -> CheckedCall:
    """Fire the hooks on a call, and once more if it might be that of another tool."""
    name = _find_offered_name(call.name, offered)
    checked = await _check_tool_call(at, call, name, readable=readable)
    bare = _find_bare_name(call.name, offered)
    if checked.blocked is not None or bare in (None, name):
        return checked
    again = await _check_tool_call(at, checked.call, bare, readable=readable)
    return dataclasses.replace(again, inject=[*checked.inject, *again.inject])


async def _check_restored_call(
    at: Scope,
    restored: RestoredCall | None,
    call: ToolCall,
    offered: Collection[str],
    *,
    readable: bool,
) -> CheckedCall:
    if restored is None or not (restored.has_secrets or restored.is_lost):
        return await _check_under_names(at, call, offered, readable=readable)
    if restored.is_lost:
        return CheckedCall(call, NOT_RESTORED)
    try:
        checked = await _check_under_names(
            RestoredScope(at, restored), restored.call, offered, readable=readable
        )
    except Refused as refused:
        told = dataclasses.replace(
            refused.refusal, message=restored.conceal(refused.refusal.message)
        )
        raise Refused(told) from None
    return dataclasses.replace(
        checked,
        blocked=restored.conceal(checked.blocked),
        inject=restored.conceal(checked.inject),
        shown=restored.conceal_call(checked.call),
    )


async def _check_tool_call(at: Scope, call: ToolCall, name: str, *, readable: bool) -> CheckedCall:
    named = call if name == call.name else dataclasses.replace(call, name=name)
    if not readable:
        return CheckedCall(call, NOT_JSON if is_guarded(at, named) else None)
    context = at.context.run_id or call.context
    shown = named if context == call.context else dataclasses.replace(named, context=context)
    verdict = await at.fire_detached(HookPoint.BEFORE_TOOL_CALL, shown)
    left: ToolCall = verdict.subject
    if not is_call(left):
        raise broken_hook_error(
            "hooks left a tool call that cannot be made: it needs a name and a dict of args"
        )
    value_or_fail(verdict)
    if left is not shown:
        left = dataclasses.replace(left, id=call.id, context=call.context)
    left = call if left is shown or left == call else left
    if verdict.decision is Decision.BLOCK:
        return CheckedCall(left, verdict.reason)
    if verdict.decision is Decision.REPLACE:
        return CheckedCall(left, NO_STAND_IN)
    return CheckedCall(left, None, verdict.inject)


def apply_unknown_calls(
    message: AssistantMessage, found: Sequence[UnknownCall], checked: Sequence[CheckedCall]
) -> AssistantMessage:
    """Return an answer with its unknown calls as hooks left them, without those they blocked."""
    pairs = [*zip(found, checked, strict=True)]
    for was, now in pairs:
        if now.blocked is None and now.call != was.call:
            message = rewrite_call(message, was, now.call)
    return without_calls(message, [was for was, now in pairs if now.blocked is not None])


def remove_blocked_calls(
    message: AssistantMessage,
    calls: Sequence[CheckedCall],
    *,
    told: bool,
    unknown: Sequence[CheckedCall] = (),
) -> AssistantMessage:
    """Return an answer without its blocked calls; with `told`, a text says why.

    `unknown` are calls that are not among its tool calls, and are gone from it if they are blocked.
    """
    left = [each.call for each in calls if each.blocked is None]
    same = not any(each.blocked for each in unknown) and len(left) == len(message.tool_calls)
    if same and all(new is old for new, old in zip(left, message.tool_calls, strict=True)):
        return message
    blocked = [each for each in (*calls, *unknown) if each.blocked]
    notes = [f"{each.call.name} was not called: {each.blocked}" for each in blocked]
    return dataclasses.replace(
        message,
        content=_append_notes(message.content, notes) if told and notes else message.content,
        tool_calls=left,
        stop_reason=message.stop_reason if left else plain_stop_reason(message),
        metadata=_drop_arguments(message, left),
    )


def plain_stop_reason(message: AssistantMessage) -> str | None:
    """Return the stop reason of an answer that calls no tool any more."""
    return read_stop_reason(message.stop_reason, calls=False)


def build_error_results(calls: Sequence[CheckedCall]) -> list[dict[str, Any]]:
    """Return results that tell a model that its calls were not made, and why."""
    return [tool_message(failed_result(each.call, each.blocked or NOT_MADE)) for each in calls]


def _append_notes(content: str | Sequence[Any], notes: list[str]) -> str | list[Any]:
    if isinstance(content, str):
        return "\n\n".join([content, *notes] if content else notes)
    return [*content, *({"type": "text", "text": note} for note in notes)]


def _drop_arguments(message: AssistantMessage, left: list[ToolCall]) -> dict[str, Any]:
    """Return the metadata without the arguments of removed calls."""
    ids = {call.id for call in left}
    texts = {name: text for name, text in unparsed_in(message).items() if name in ids}
    kept = {key: value for key, value in message.metadata.items() if key != UNPARSED}
    return kept | ({UNPARSED: texts} if texts else {})


Call = Mapping[str, Any]

POINTS = (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)

UNOBSERVED = (Lane.TRANSFORM, Lane.GATE)
"""The lanes for what observers have seen before."""


class ToolResultHooks:
    """Fires hooks on the tool results of a conversation, or repeats their earlier verdicts.

    `offered` are the names of the tools that the model is told of.
    """

    def __init__(self, scope: Scope, memory: ToolMemory) -> None:
        self._scope = scope
        self._memory = memory
        self.offered: Collection[str] = ()

    async def check_messages(
        self, messages: Sequence[Message], calling: Sequence[Message] = ()
    ) -> Sequence[Message]:
        """Return messages with the results as hooks left them; the very same if nothing changed.

        What hooks inject stands behind the results of the same turn. `calling` is what was said
        before, where the calls may be found.
        """
        if not any(self._scope.has(point) for point in POINTS):
            return messages
        calls = CallHistory(calling)
        alike: Counter[bytes] = Counter()
        told: list[Message] = []
        for results, group in groupby(messages, lambda message: message.get("role") == "tool"):
            turn = [*group]
            if not results:
                calls.add(turn)
            told += await self._check_turn(turn, calls, alike) if results else turn
        same = len(told) == len(messages) and all(
            new is old for new, old in zip(told, messages, strict=True)
        )
        return messages if same else told

    async def _check_turn(
        self, turn: list[Message], calls: CallHistory, alike: Counter[bytes]
    ) -> list[Message]:
        works = []
        for message in turn:
            call = calls.take_call(_call_id(message))
            result = self._read_result(message, call)
            key = result_key(self._scope.context, result, call)
            works.append(self._check_result(result, key + bytes([min(alike[key], 255)])))
            alike[key] += 1
        settled = await gather_all(works)
        changed = [_write_result(old, new.result) for old, new in zip(turn, settled, strict=True)]
        injected = [legal_message(message) for found in settled for message in found.inject]
        return [*changed, *filter(None, injected)]

    def store_tool_names(self, calls: Sequence[ToolCall]) -> None:
        """Remember which tools were called: some APIs are sent the results alone."""
        if calls and any(self._scope.has(point) for point in POINTS):
            self._memory.store_tool_names(self._scope.context, calls)

    def _read_result(self, message: Message, call: Call | None) -> ToolResult:
        own = _call_id(message)
        content: Any = message.get("content") or ""
        is_error = bool(message.get("is_error"))
        named = (call or {}).get("name") or message.get("name")
        name = _find_offered_name(
            str(named or self._memory.find_tool_name(self._scope.context, own)), self.offered
        )
        return ToolResult(own, name, content, is_error, text_of(content) if is_error else None)

    async def _check_result(self, result: ToolResult, key: bytes) -> ToolResultVerdict:
        hooks = tuple(level.plan[point] for level in self._scope.levels for point in POINTS)
        known = self._memory.find_verdict(key, hooks)
        if known is not None:
            return known
        at = self._scope.bind(tool_call_id=result.id)
        first = self._memory.mark_seen(key)
        over = False
        try:
            settled, lasting = await _fire_result(at, result, None if first else UNOBSERVED)
            over = True
        finally:
            if first and not over:
                self._memory.mark_unseen(key)
        if lasting:
            self._memory.store_verdict(key, hooks, settled)
        return settled


class CallHistory:
    """The tool calls of a conversation, as far as it has been read.

    Not every model gives each call an id of its own: a result belongs to the first call of its id
    that was made last and has no result yet.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._last: dict[str, Call] = {}
        self._waiting: dict[str, list[Call]] = {}
        self.add(messages)

    def add(self, messages: Sequence[Message]) -> None:
        """Add messages that are not results."""
        for message in messages:
            if message.get("role") != "assistant":
                self._waiting.clear()
            for call in message.get("tool_calls") or ():
                own, function = str(call.get("id") or ""), call.get("function")
                self._last[own] = function if isinstance(function, Mapping) else {}
                self._waiting.setdefault(own, []).append(self._last[own])

    def take_call(self, id: str) -> Call | None:
        """Return the call that a result of this id belongs to."""
        waiting = self._waiting.get(id)
        return waiting.pop(0) if waiting else self._last.get(id)


async def _fire_result(
    at: Scope, result: ToolResult, lanes: Collection[Lane] | None
) -> tuple[ToolResultVerdict, bool]:
    """Fire the hooks on a result; return their verdict, and whether it would be the same again.

    A hook that failed may not fail the next time, so what came of that is not lasting.
    """
    call = ToolCall(result.id, result.name)
    left, lasting = result, True
    inject: list[Message] = []
    for point in POINTS:
        if point is HookPoint.ON_TOOL_ERROR and not left.is_error:
            break
        verdict = await at.fire_detached(point, left, lanes=lanes)
        value_or_fail(verdict)
        lasting = lasting and not any(record.failure for record in verdict.records)
        inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            left = failed_result(call, verdict.reason)
        elif verdict.value is not left:
            left = dataclasses.replace(verdict.value, id=call.id, name=call.name)
    same = (left.content, left.is_error) == (result.content, result.is_error)
    return ToolResultVerdict(None if same else left, tuple(inject)), lasting


def _call_id(message: Message) -> str:
    return str(message.get("tool_call_id") or "")


def _write_result(message: Message, result: ToolResult | None) -> Message:
    """Write a result that hooks changed; what else the message carries stays."""
    if result is None:
        return message
    kept = {key: value for key, value in message.items() if key != "is_error"}
    error = {"is_error": True} if result.is_error else {}
    return {**kept, "content": content_of(result), **error}


_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝкмтвнгпιοανρτυκχɑɡıⅼ",
    "aeopcyxijshdqwkmtbhrnioavptukxagil",
)
"""Letters of other alphabets, and the Latin ones that they are taken for."""

_BETWEEN = re.compile(r"[.:/\\|#>]+|__+")
"""What stands between the name of a tool and the names of whose it is."""

_APART = re.compile(r"[\W_]+")


def _find_offered_name(name: str, offered: Collection[str]) -> str:
    """Return a tool's name as it was offered, if a client might take the given name for it."""
    if not name or name in offered:
        return name
    return _find_alike(name, offered) or name


def _find_bare_name(name: str, offered: Collection[str]) -> str | None:
    """Return the offered tool that a name is without whose it is, as in `functions.search`."""
    if name in offered:
        return None
    parts = list(filter(None, _BETWEEN.split(name)))
    return _find_alike(parts[-1], offered) if len(parts) > 1 else None


def _find_alike(name: str, offered: Collection[str]) -> str | None:
    folded = _fold(name)
    return next((one for one in offered if folded and _fold(one) == folded), None)


def _fold(name: str) -> str:
    """Return what is left of a name for those who look at its letters only."""
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_LOOKALIKES)
    letters = (each for each in plain if unicodedata.category(each) not in ("Mn", "Cf"))
    return _APART.sub("", "".join(letters))
