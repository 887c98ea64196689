"""What a model call goes through: its request, the call, its answer, the tools that it names."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from checkrail.adapters.langchain.answers import Form, answering_model, pieces_of, rebuild_message
from checkrail.adapters.langchain.frames import MODEL, ModelFrame
from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.journal import JournalEntry
from checkrail.adapters.langchain.model_calls import ModelCall
from checkrail.adapters.langchain.plans import CallStep, FireStep, Plan
from checkrail.adapters.langchain.requests import (
    UnfitRequest,
    apply_changes,
    request_of,
    with_messages,
)
from checkrail.adapters.langchain.run_endings import build_ending, failure_ending
from checkrail.adapters.langchain.tool_call_hooks import (
    FIRST_HALF,
    ReviewedToolCall,
    second_half,
    transform_hooks,
)
from checkrail.adapters.langchain.usage import sum_usage, used_by
from checkrail.agent.models.langchain_messages import read_answer
from checkrail.engine.enforcement import has_enforcing_hooks
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.engine.verdict import Verdict
from checkrail.llm.conversation import (
    is_call,
    legal_message,
    unparsed_in,
    user_message,
)
from checkrail.llm.verdicts import invalid_answer_reason
from checkrail.styles.fluent import DEFAULT_FEEDBACK
from checkrail.times import uuid7

log = logging.getLogger("checkrail.langchain")

ENDING = frozenset({Decision.BLOCK, Decision.FAIL, Decision.STOP})


class Hold(Enum):
    """What of an answer has to wait for hooks that may change or refuse it."""

    NOTHING = "it flows"
    TOOLS = "from its first tool call on"
    WHOLE = "all of it"


class ModelCallStep(CallStep):
    """A model call under way, and what it has answered so far."""

    def __init__(self, guard: Guard, call: ModelCall, form: Form, hold: Hold) -> None:
        self.guard = guard
        self.call = call if hold is Hold.NOTHING else call.without_callbacks()
        self.form = form
        self.frame: ModelFrame = ModelFrame(guard, call.model, call.name, call.messages)
        self.pieces: list[Any] = []
        self.sent = 0
        self._hold = hold
        self._about: dict[str, Any] | None = None

    def begin(self) -> None:
        """Mark that the model is called now."""
        if self.guard.mark is not None:
            self._about = {
                "call": uuid7(),
                "model": self.call.name,
                "provider": self.call.provider,
                "agent_name": self.guard.scope.context.agent_name,
            }
            self.guard.mark("model_started", self._about)

    def accept_piece(self, piece: Any) -> bool:
        """Take a piece of the answer, and return whether it may go out."""
        self.pieces.append(piece)
        if self._hold is Hold.TOOLS and self.form.calls_tools(piece):
            self._hold = Hold.WHOLE
        flows = self._hold is not Hold.WHOLE
        self.sent += flows
        return flows

    @property
    def held_pieces(self) -> list[Any]:
        """The pieces that have not gone out yet."""
        return self.pieces[self.sent :] if self.call.streams else self.pieces

    def close(self) -> None:
        """Count what the model has used, also of an answer that was cut off or is refused."""
        error = sys.exc_info()[0]
        total: dict[str, Any] | None = None
        for pieces in self.form.split_answers(self.pieces):
            if (used := used_by(pieces)) is None:
                continue
            total = sum_usage(total, used)
            told = answering_model(pieces, self.call.name), used
            if told not in self.frame.told:  # else it is the usage of a model that it asked
                self.guard.used.add(*told)
            if (around := MODEL.get()) is not None and around is not self.frame:
                around.told.append(told)
        if self._about is not None and self.guard.mark is not None:
            ended = {} if error is None else {"error": error.__name__}
            self.guard.mark("model_finished", {**self._about, "usage": total, **ended})


def find_hold(scope: Scope) -> Hold:
    """Return what part of an answer has to wait for hooks."""
    if has_enforcing_hooks(scope, HookPoint.AFTER_LLM_CALL, Lane.TRANSFORM, Lane.GATE):
        return Hold.WHOLE
    changes = has_enforcing_hooks(scope, HookPoint.BEFORE_TOOL_CALL, Lane.TRANSFORM)
    return Hold.TOOLS if changes else Hold.NOTHING


def model_plan(guard: Guard, call: ModelCall, form: Form, slot: JournalEntry | None = None) -> Plan:
    """Call a model, as often as hooks retry it, and return what they let pass.

    An answer that came before the run was left, as its `slot` knows, is not asked for again.
    """
    while True:
        guard.check_running()
        replaced: AssistantMessage | None = None
        if slot is not None and slot.answer is not None:
            asked = ModelCallStep(guard, call, form, Hold.WHOLE)
            asked.pieces = pieces_of(form, slot.answer)
        else:
            ready, replaced = yield from _fire_request(guard, call)
            hold = find_hold(guard.scope) if replaced is None else Hold.WHOLE
            asked = ModelCallStep(guard, ready, form, hold)
            if replaced is None:
                asked.begin()
                yield asked
                guard.check_running()
                if slot is not None:
                    slot.answer = form.to_output(asked.pieces)
        again = yield from _review_answers(guard, asked, replaced)
        if slot is not None:
            slot.answer = None
        if not isinstance(again, Verdict):
            return again
        feedback = user_message(again.reason or DEFAULT_FEEDBACK)
        call = with_messages(call, [feedback, *_legal_messages(again.inject)])


def _fire_request(
    guard: Guard, call: ModelCall
) -> Generator[FireStep | CallStep, Any, tuple[ModelCall, AssistantMessage | None]]:
    """Fire `before_llm_call`; return the call as hooks left it, and an answer in its place."""
    point = HookPoint.BEFORE_LLM_CALL
    call = _with_injected(guard, call)
    if not guard.scope.has(point):
        return call, None
    shown = request_of(call)
    verdict = yield FireStep(guard.scope, point, shown, guard.model_ids(call.model_names()))
    if verdict.decision in ENDING:
        raise guard.end_run(build_ending(verdict, point))
    try:
        call = apply_changes(call, shown, verdict.subject)
    except UnfitRequest as unfit:
        raise guard.end_run(failure_ending(str(unfit), point)) from unfit
    call = with_messages(call, _legal_messages(verdict.inject))
    if verdict.decision is Decision.REPLACE:
        return call, _valid_answer(guard, verdict, point)
    return call, None


def _with_injected(guard: Guard, call: ModelCall) -> ModelCall:
    """Put what hooks said at earlier tool calls behind the results of those."""
    messages: list[Any] = [*call.messages]
    for place in range(len(messages), 0, -1):
        if getattr(messages[place - 1], "type", None) != "tool":
            continue
        found = _legal_messages(guard.injected_messages([messages[place - 1].tool_call_id]))
        if found:
            end = place
            while end < len(messages) and getattr(messages[end], "type", None) == "tool":
                end += 1
            messages[end:end] = with_messages(replace(call, messages=[]), found).messages
    return call if len(messages) == len(call.messages) else replace(call, messages=messages)


def _legal_messages(given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [said for message in given if (said := legal_message(message)) is not None]


def _review_answers(
    guard: Guard, asked: ModelCallStep, replaced: AssistantMessage | None
) -> Generator[FireStep | CallStep, Any, Any]:
    """Show the answers to hooks; return them as hooks left them, or the verdict that retries."""
    scope, form = guard.scope, asked.form
    if replaced is None and not scope.has(HookPoint.AFTER_LLM_CALL) and not transform_hooks(scope):
        _note_calls(guard, asked)
        return form.to_output(asked.held_pieces)
    made: dict[int, Any] = {}
    found = [(replaced, [])] if replaced else _read_answers(guard, asked)
    for place, (message, pieces) in enumerate(found):
        passed = yield from _review_answer(guard, message, asked.call)
        if isinstance(passed, Verdict):
            return passed
        if replaced is not None or not _is_same_answer(message, passed):
            made[place] = _rewrite_answer(asked, pieces, message, passed)
    return (
        form.rewrite_answers(asked.held_pieces, made) if made else form.to_output(asked.held_pieces)
    )


def _note_calls(guard: Guard, asked: ModelCallStep) -> None:
    """Remember which model made the tool calls of an answer that no hook is shown."""
    for pieces in asked.form.split_answers(asked.pieces):
        names = asked.call.model_names(answering_model(pieces, asked.call.name))
        guard.note_model(_call_ids(pieces), names)


def _call_ids(pieces: Sequence[Any]) -> Iterator[str]:
    for piece in pieces:
        for part in (*piece.tool_calls, *getattr(piece, "tool_call_chunks", ())):
            if part["id"] is not None:
                yield part["id"]


def _read_answers(guard: Guard, asked: ModelCallStep) -> list[tuple[AssistantMessage, list[Any]]]:
    context = guard.scope.context.run_id or "chat"
    found = []
    for pieces in asked.form.split_answers(asked.pieces):
        answer = read_answer(pieces, asked.call.name)
        calls = [dataclasses.replace(call, context=context) for call in answer.tool_calls]
        found.append((dataclasses.replace(answer, tool_calls=calls), pieces))
    return found


def _review_answer(
    guard: Guard, message: AssistantMessage, call: ModelCall
) -> Generator[FireStep | CallStep, Any, AssistantMessage | Verdict]:
    point, names = HookPoint.AFTER_LLM_CALL, call.model_names(message.model)
    if guard.scope.has(point):
        verdict = yield FireStep(guard.scope, point, message, guard.model_ids(call.model_names()))
        if verdict.decision is Decision.RETRY:
            return verdict  # type: ignore[no-any-return]
        if verdict.decision in ENDING:
            raise guard.end_run(build_ending(verdict, point))
        message = _valid_answer(guard, verdict, point)
        guard.store_injected([made.id for made in message.tool_calls], verdict.inject)
    guard.note_model([made.id for made in message.tool_calls], names)
    if message.tool_calls and transform_hooks(guard.scope):
        calls = yield from _review_tool_calls(guard, message)
        message = dataclasses.replace(message, tool_calls=calls)
    return message


def _valid_answer(guard: Guard, verdict: Verdict, point: HookPoint) -> AssistantMessage:
    message: AssistantMessage = verdict.value
    if (reason := invalid_answer_reason(verdict)) is not None:
        raise guard.end_run(failure_ending(reason, point))
    return message


def _review_tool_calls(
    guard: Guard, message: AssistantMessage
) -> Generator[FireStep | CallStep, Any, list[ToolCall]]:
    """Show the tool calls of an answer to the hooks that may change them."""
    unread = unparsed_in(message)
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        shown = call
        if call.args or call.id not in unread:
            shown = yield from _review_tool_call(guard, call)
        calls.append(shown)
    return calls


def _review_tool_call(
    guard: Guard, call: ToolCall
) -> Generator[FireStep | CallStep, Any, ToolCall]:
    point, hooks, ids = (
        HookPoint.BEFORE_TOOL_CALL,
        transform_hooks(guard.scope),
        guard.tool_ids(call.id),
    )
    verdict = yield FireStep(guard.scope, point, call, {**ids, **FIRST_HALF})
    shown: ToolCall = verdict.subject
    if not is_call(shown):
        problem = "it needs a name and a dict of args"
        raise guard.end_run(
            failure_ending(f"hooks left a tool call that cannot be made: {problem}", point)
        )
    if shown.id != call.id:
        shown = dataclasses.replace(shown, id=call.id)
    seen = ReviewedToolCall(hooks, verdict)
    guard.store_reviewed_call(shown, seen)
    guard.store_injected([call.id], verdict.inject)
    if verdict.decision is Decision.FAIL:
        options = {**ids, **second_half(guard.scope, seen)}
        final = yield FireStep(guard.scope, point, shown, options)
        raise guard.end_run(build_ending(final, point))
    return shown


def _is_same_answer(ours: AssistantMessage, theirs: AssistantMessage) -> bool:
    if ours is theirs:
        return True
    said = ours.metadata.items()  # what hooks add to it is for other hooks
    if any(theirs.metadata.get(name) != found for name, found in said):
        return False
    return ours.content == theirs.content and [_call_key(c) for c in ours.tool_calls] == [
        _call_key(c) for c in theirs.tool_calls
    ]


def _call_key(call: ToolCall) -> tuple[str, str, Any]:
    return call.id, call.name, call.args


def _rewrite_answer(
    asked: ModelCallStep, pieces: list[Any], message: AssistantMessage, passed: AssistantMessage
) -> Any:
    """Write an answer anew; of a stream only what has not gone out yet."""
    if not asked.sent or not asked.call.streams:
        return rebuild_message(pieces, passed)
    if passed.content != message.content:
        log.error("hooks that came while an answer was streamed changed what was sent already")
    held = pieces[asked.sent :]
    rest = read_answer(held, asked.call.name).content if held else ""
    return rebuild_message(held, dataclasses.replace(passed, content=rest))
