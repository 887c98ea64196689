"""What a model call goes through: its request, the call, its answer, the tools that it names."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from checkrail.adapters.enforcement import enforcing
from checkrail.adapters.langchain.answers import Form, answering, pieces_of, remade
from checkrail.adapters.langchain.endings import ending, failing
from checkrail.adapters.langchain.frames import MODEL, ModelFrame
from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.journal import Slot
from checkrail.adapters.langchain.lanes import (
    Seen,
    first_half,
    second_half,
    transforms,
)
from checkrail.adapters.langchain.model_calls import ModelCall
from checkrail.adapters.langchain.requests import Unfit, applied, request_of, with_messages
from checkrail.adapters.langchain.steps import Act, Fire, Plan
from checkrail.adapters.langchain.usage import used_by
from checkrail.agent.messages import is_call, legal, problems, unparsed_in, user_message
from checkrail.agent.models.langchain_messages import read_answer
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.engine.verdict import Verdict
from checkrail.styles.fluent import DEFAULT_FEEDBACK

log = logging.getLogger("checkrail.langchain")

ENDING = frozenset({Decision.BLOCK, Decision.FAIL, Decision.STOP})


class Hold(Enum):
    """What of an answer has to wait for hooks that may change or refuse it."""

    NOTHING = "it flows"
    TOOLS = "from its first tool call on"
    WHOLE = "all of it"


class Asked(Act):
    """A model that is being asked, and what it has answered so far."""

    def __init__(self, guard: Guard, call: ModelCall, form: Form, hold: Hold) -> None:
        self.guard = guard
        self.call = call if hold is Hold.NOTHING else call.muted()
        self.form = form
        self.frame: ModelFrame = ModelFrame(guard, call.model, call.name, call.messages)
        self.pieces: list[Any] = []
        self.sent = 0
        self._hold = hold

    def take(self, piece: Any) -> bool:
        """Take a piece of the answer; say whether it may go out."""
        self.pieces.append(piece)
        if self._hold is Hold.TOOLS and self.form.calls_tools(piece):
            self._hold = Hold.WHOLE
        flows = self._hold is not Hold.WHOLE
        self.sent += flows
        return flows

    @property
    def held(self) -> list[Any]:
        """What has not gone out yet."""
        return self.pieces[self.sent :] if self.call.streams else self.pieces

    def close(self) -> None:
        """Count what the model has used, also of an answer that was cut off or is refused."""
        for pieces in self.form.answers(self.pieces):
            if (used := used_by(pieces)) is None:
                continue
            told = answering(pieces, self.call.name), used
            if told not in self.frame.told:  # else it is the usage of a model that it asked
                self.guard.used.add(*told)
            if (around := MODEL.get()) is not None and around is not self.frame:
                around.told.append(told)


def holding(scope: Scope) -> Hold:
    """Return what of an answer has to wait."""
    if enforcing(scope, HookPoint.AFTER_LLM_CALL, Lane.TRANSFORM, Lane.GATE):
        return Hold.WHOLE
    changes = enforcing(scope, HookPoint.BEFORE_TOOL_CALL, Lane.TRANSFORM)
    return Hold.TOOLS if changes else Hold.NOTHING


def model_plan(guard: Guard, call: ModelCall, form: Form, slot: Slot | None = None) -> Plan:
    """Ask a model, as often as hooks want it asked, and give what they let pass.

    An answer that came before the run was left, as its `slot` knows, is not asked for again.
    """
    while True:
        guard.check()
        replaced: AssistantMessage | None = None
        if slot is not None and slot.answer is not None:
            asked = Asked(guard, call, form, Hold.WHOLE)
            asked.pieces = pieces_of(form, slot.answer)
        else:
            ready, replaced = yield from _before(guard, call)
            hold = holding(guard.scope) if replaced is None else Hold.WHOLE
            asked = Asked(guard, ready, form, hold)
            if replaced is None:
                yield asked
                guard.check()
                if slot is not None:
                    slot.answer = form.given(asked.pieces)
        again = yield from _after(guard, asked, replaced)
        if slot is not None:
            slot.answer = None
        if not isinstance(again, Verdict):
            return again
        feedback = user_message(again.reason or DEFAULT_FEEDBACK)
        call = with_messages(call, [feedback, *_legal(again.inject)])


def _before(
    guard: Guard, call: ModelCall
) -> Generator[Fire | Act, Any, tuple[ModelCall, AssistantMessage | None]]:
    """Show the request; give the call as hooks want it, and what they answer in its stead."""
    point = HookPoint.BEFORE_LLM_CALL
    call = _with_injected(guard, call)
    if not guard.scope.has(point):
        return call, None
    shown = request_of(call)
    verdict = yield Fire(guard.scope, point, shown, guard.model_ids(call.names()))
    if verdict.decision in ENDING:
        raise guard.end(ending(verdict, point))
    try:
        call = applied(call, shown, verdict.subject)
    except Unfit as unfit:
        raise guard.end(failing(str(unfit), point)) from unfit
    call = with_messages(call, _legal(verdict.inject))
    if verdict.decision is Decision.REPLACE:
        return call, _sound(guard, verdict, point)
    return call, None


def _with_injected(guard: Guard, call: ModelCall) -> ModelCall:
    """Put what hooks said at earlier tool calls behind the results of those."""
    messages: list[Any] = [*call.messages]
    for place in range(len(messages), 0, -1):
        if getattr(messages[place - 1], "type", None) != "tool":
            continue
        found = _legal(guard.injected([messages[place - 1].tool_call_id]))
        if found:
            end = place
            while end < len(messages) and getattr(messages[end], "type", None) == "tool":
                end += 1
            messages[end:end] = with_messages(replace(call, messages=[]), found).messages
    return call if len(messages) == len(call.messages) else replace(call, messages=messages)


def _legal(given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [said for message in given if (said := legal(message)) is not None]


def _after(
    guard: Guard, asked: Asked, replaced: AssistantMessage | None
) -> Generator[Fire | Act, Any, Any]:
    """Show what came; give it as hooks left it, or the verdict that wants it asked again."""
    scope, form = guard.scope, asked.form
    if replaced is None and not scope.has(HookPoint.AFTER_LLM_CALL) and not transforms(scope):
        _note_calls(guard, asked)
        return form.given(asked.held)
    made: dict[int, Any] = {}
    found = [(replaced, [])] if replaced else _read(guard, asked)
    for place, (message, pieces) in enumerate(found):
        passed = yield from _passed(guard, message, asked.call)
        if isinstance(passed, Verdict):
            return passed
        if replaced is not None or not _same(message, passed):
            made[place] = _written(asked, pieces, message, passed)
    return form.changed(asked.held, made) if made else form.given(asked.held)


def _note_calls(guard: Guard, asked: Asked) -> None:
    """Remember which model made the tool calls of an answer that no hook is shown."""
    for pieces in asked.form.answers(asked.pieces):
        names = asked.call.names(answering(pieces, asked.call.name))
        guard.note_model(_call_ids(pieces), names)


def _call_ids(pieces: Sequence[Any]) -> Iterator[str]:
    for piece in pieces:
        for part in (*piece.tool_calls, *getattr(piece, "tool_call_chunks", ())):
            if part["id"] is not None:
                yield part["id"]


def _read(guard: Guard, asked: Asked) -> list[tuple[AssistantMessage, list[Any]]]:
    context = guard.scope.context.run_id or "chat"
    found = []
    for pieces in asked.form.answers(asked.pieces):
        answer = read_answer(pieces, asked.call.name)
        calls = [dataclasses.replace(call, context=context) for call in answer.tool_calls]
        found.append((dataclasses.replace(answer, tool_calls=calls), pieces))
    return found


def _passed(
    guard: Guard, message: AssistantMessage, call: ModelCall
) -> Generator[Fire | Act, Any, AssistantMessage | Verdict]:
    point, names = HookPoint.AFTER_LLM_CALL, call.names(message.model)
    if guard.scope.has(point):
        verdict = yield Fire(guard.scope, point, message, guard.model_ids(call.names()))
        if verdict.decision is Decision.RETRY:
            return verdict  # type: ignore[no-any-return]
        if verdict.decision in ENDING:
            raise guard.end(ending(verdict, point))
        message = _sound(guard, verdict, point)
        guard.inject([made.id for made in message.tool_calls], verdict.inject)
    guard.note_model([made.id for made in message.tool_calls], names)
    if message.tool_calls and transforms(guard.scope):
        calls = yield from _shown(guard, message)
        message = dataclasses.replace(message, tool_calls=calls)
    return message


def _sound(guard: Guard, verdict: Verdict, point: HookPoint) -> AssistantMessage:
    message: AssistantMessage = verdict.value
    if (problem := next(problems(message), None)) is not None:
        raise guard.end(failing(f"the answer that hooks made is none: {problem}", point))
    return message


def _shown(guard: Guard, message: AssistantMessage) -> Generator[Fire | Act, Any, list[ToolCall]]:
    """Show the tool calls of an answer to the hooks that may change them."""
    unread = unparsed_in(message)
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        shown = call
        if call.args or call.id not in unread:
            shown = yield from _shown_call(guard, call)
        calls.append(shown)
    return calls


def _shown_call(guard: Guard, call: ToolCall) -> Generator[Fire | Act, Any, ToolCall]:
    point, hooks, ids = (
        HookPoint.BEFORE_TOOL_CALL,
        transforms(guard.scope),
        guard.tool_ids(call.id),
    )
    verdict = yield Fire(first_half(guard.scope), point, call, ids)
    shown: ToolCall = verdict.subject
    if not is_call(shown):
        problem = "it needs a name and a dict of args"
        raise guard.end(failing(f"hooks made a tool call that is none: {problem}", point))
    if shown.id != call.id:
        shown = dataclasses.replace(shown, id=call.id)
    seen = Seen(hooks, verdict)
    guard.remember(shown, seen)
    guard.inject([call.id], verdict.inject)
    if verdict.decision is Decision.FAIL:
        final = yield Fire(second_half(guard.scope, seen), point, shown, ids)
        raise guard.end(ending(final, point))
    return shown


def _same(ours: AssistantMessage, theirs: AssistantMessage) -> bool:
    if ours is theirs:
        return True
    return ours.content == theirs.content and [_call(c) for c in ours.tool_calls] == [
        _call(c) for c in theirs.tool_calls
    ]


def _call(call: ToolCall) -> tuple[str, str, Any]:
    return call.id, call.name, call.args


def _written(
    asked: Asked, pieces: list[Any], message: AssistantMessage, passed: AssistantMessage
) -> Any:
    """Write an answer anew; of a stream only what has not gone out yet."""
    if not asked.sent or not asked.call.streams:
        return remade(pieces, passed)
    if passed.content != message.content:
        log.error("hooks that came while an answer was streamed changed what was sent already")
    held = pieces[asked.sent :]
    rest = read_answer(held, asked.call.name).content if held else ""
    return remade(held, dataclasses.replace(passed, content=rest))
