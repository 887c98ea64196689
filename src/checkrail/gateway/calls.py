"""Tool calls in an answer: hooks see each of them, and a blocked one is not left as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.agent.exchange import failed
from checkrail.agent.messages import UNPARSED, Message, is_call, tool_message, unparsed_in
from checkrail.agent.models.stop_reasons import read_stop_reason
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.gateway.holding import is_guarded
from checkrail.gateway.verdicts import broken, survived, together

NOT_MADE = "it was not called, because another call beside it was blocked: call it again if needed"
NOT_JSON = "its arguments are no JSON object, so that no rule can be applied to them"
NO_STAND_IN = "a hook has a result for it, but a gateway cannot answer in place of a tool"


@dataclass(frozen=True, slots=True)
class Judged:
    """A call as hooks left it, why it is blocked, if it is, and what they inject after it."""

    call: ToolCall
    blocked: str | None = None
    inject: Sequence[Message] = ()


async def judged(
    scope: Scope, message: AssistantMessage, unparsed: Container[str], offered: Collection[str]
) -> list[Judged]:
    """Show the calls of an answer to hooks, side by side.

    `unparsed` are the calls whose arguments are no JSON. Nobody can judge those, and so they are
    blocked where any hook might have had something to say of them. `offered` are the names of the
    tools that the model was told of.
    """
    works = [
        _judged(
            scope.bind(tool_call_id=call.id),
            call,
            as_offered(call.name, offered),
            readable=bool(call.args) or call.id not in unparsed,
        )
        for call in message.tool_calls
    ]
    return await together(works)


def as_offered(name: str, offered: Collection[str]) -> str:
    """Name a tool as it was offered, if that is what a client might take the name for."""
    if not name or name in offered:
        return name
    return next((one for one in offered if _loosely(one) == _loosely(name)), name)


def _loosely(name: str) -> str:
    return name.strip().casefold()


async def _judged(at: Scope, call: ToolCall, name: str, *, readable: bool) -> Judged:
    named = call if name == call.name else dataclasses.replace(call, name=name)
    if not readable:
        return Judged(call, NOT_JSON if is_guarded(at, named) else None)
    context = at.context.run_id or call.context
    shown = named if context == call.context else dataclasses.replace(named, context=context)
    verdict = await at.fire(HookPoint.BEFORE_TOOL_CALL, shown)
    left: ToolCall = verdict.subject
    if not is_call(left):
        raise broken("hooks made a tool call that is none: it needs a name and a dict of args")
    survived(verdict)
    if left is not shown:
        left = dataclasses.replace(left, id=call.id, context=call.context)
    left = call if left is shown or left == call else left
    if verdict.decision is Decision.BLOCK:
        return Judged(left, verdict.reason)
    if verdict.decision is Decision.REPLACE:
        return Judged(left, NO_STAND_IN)
    return Judged(left, None, verdict.inject)


def applied(message: AssistantMessage, calls: Sequence[Judged], *, told: bool) -> AssistantMessage:
    """Give an answer without its blocked calls; if it is `told`, a text says why."""
    left = [each.call for each in calls if each.blocked is None]
    same = len(left) == len(message.tool_calls)
    if same and all(new is old for new, old in zip(left, message.tool_calls, strict=True)):
        return message
    notes = [f"{each.call.name} was not called: {each.blocked}" for each in calls if each.blocked]
    return dataclasses.replace(
        message,
        content=_noted(message.content, notes) if told and notes else message.content,
        tool_calls=left,
        stop_reason=message.stop_reason if left else plain_stop(message),
        metadata=_metadata(message, left),
    )


def plain_stop(message: AssistantMessage) -> str | None:
    """Return the stop reason of an answer that calls no tool any more."""
    return read_stop_reason(message.stop_reason, calls=False)


def error_results(calls: Sequence[Judged]) -> list[dict[str, Any]]:
    """Tell a model that its calls were not made, and why."""
    return [tool_message(failed(each.call, each.blocked or NOT_MADE)) for each in calls]


def _noted(content: str | Sequence[Any], notes: list[str]) -> str | list[Any]:
    if isinstance(content, str):
        return "\n\n".join([content, *notes] if content else notes)
    return [*content, *({"type": "text", "text": note} for note in notes)]


def _metadata(message: AssistantMessage, left: list[ToolCall]) -> dict[str, Any]:
    """Forget the arguments of calls that are gone."""
    ids = {call.id for call in left}
    texts = {name: text for name, text in unparsed_in(message).items() if name in ids}
    kept = {key: value for key, value in message.metadata.items() if key != UNPARSED}
    return kept | ({UNPARSED: texts} if texts else {})
