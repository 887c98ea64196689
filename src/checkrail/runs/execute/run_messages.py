"""Runs that bring a person's message over the API: hooks on messages and sessions see them too.

Only where the project says `sessions: {from_runs: true}`. What people say on channels is handled
in `checkrail.sessions`, before it becomes a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from checkrail.builtin.greeting import FIRST_REPLY
from checkrail.engine.enforcement import has_enforcing_hooks
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.values import InboundMessage, OutboundMessage
from checkrail.engine.verdict import Verdict
from checkrail.llm.conversation import text_of
from checkrail.runs.approvals import Keep, fire_or_suspend
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.finish.session_ends import (
    end_session,
    hold_session_start,
    prune_sessions,
    session_scope,
    session_value,
)
from checkrail.runs.services import RunServices
from checkrail.store import sessions
from checkrail.store.database import Tx
from checkrail.store.runs import Run
from checkrail.store.sessions import Session

REFUSING = (Decision.BLOCK, Decision.FAIL)


def find_message(parts: RunServices, row: Run, subject: Any) -> str | None:
    """Return what a person says with a run; None if that is not recognisable, or not wanted."""
    return find_said(subject) if parts.settings.brings_message(row) else None


def find_said(subject: Any) -> str | None:
    """Return the text in an input: its prompt, or the last of its messages if a person's."""
    if not isinstance(subject, Mapping):
        return None
    if isinstance(subject.get("prompt"), str):
        return str(subject["prompt"])
    said = subject.get("messages")
    last = said[-1] if isinstance(said, list | tuple) and said else None
    if not isinstance(last, Mapping) or (last.get("type") or last.get("role")) not in _PEOPLE:
        return None
    return text_of(last.get("content") or "") or None


_PEOPLE = ("user", "human")
_AGENTS = ("ai", "AIMessage", "assistant")


def replace_said(subject: Any, text: str) -> Any:
    """Return an input in which a person says another text."""
    if "prompt" in subject:
        return {**subject, "prompt": text}
    *before, last = subject["messages"]
    return {**subject, "messages": [*before, _replace_text(last, text)]}


def find_reply(output: Any) -> str | None:
    """Return what an agent says with its output: a text, or the last message of a graph."""
    if isinstance(output, str):
        return output or None
    at = _last_answer(output)
    return None if at is None else text_of(output["messages"][at].get("content") or "") or None


def replace_reply(output: Any, text: str) -> Any:
    """Return an output with which an agent says another text."""
    at = _last_answer(output)
    if at is None:
        return text
    said = [*output["messages"]]
    said[at] = _replace_text(said[at], text)
    return {**output, "messages": said}


def _last_answer(output: Any) -> int | None:
    """Return where the answer is among the messages of an output, if it ends with one."""
    found = output.get("messages") if isinstance(output, Mapping) else None
    said = found if isinstance(found, list | tuple) else ()
    for at in range(len(said) - 1, -1, -1):
        kind = said[at].get("type") or said[at].get("role") if isinstance(said[at], Mapping) else ""
        if kind in _AGENTS:
            return at
        if kind in _PEOPLE:
            return None
    return None


def _replace_text(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a message with another text; what else is in it stays: pictures, files."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": text}
    others = [part for part in content or () if not (isinstance(part, str) or text_of([part]))]
    return {**message, "content": [{"type": "text", "text": text}, *others]}


async def fire_inbound(
    parts: RunServices, live: LiveRun, scope: Scope, text: str
) -> Verdict | None:
    """Fire the hooks at the beginning of a session and on a message; None: there are none."""
    row = live.row
    session = await parts.database.write(lambda tx: _hold_session(tx, parts, row), patient=True)
    async with contextlib.AsyncExitStack() as stack:
        if session.started_at is None and session_scope(parts, session).has(
            HookPoint.ON_SESSION_START
        ):
            await stack.enter_async_context(hold_session_start(parts, session.session_id))
            session = await parts.database.write(
                lambda tx: _hold_session(tx, parts, row), patient=True
            )
        refused = await _begin_session(parts, live, session)
    if refused is not None or not scope.has(HookPoint.BEFORE_INBOUND):
        return refused
    said = InboundMessage(row.owner, session.channel, text, row.thread_id)
    return await fire_or_suspend(parts, live, scope, HookPoint.BEFORE_INBOUND, said)


async def _begin_session(parts: RunServices, live: LiveRun, session: Session) -> Verdict | None:
    """Let the hooks say whether a session may begin; return the verdict if not."""
    if session.started_at is not None:
        return None
    row, verdict = live.row, None
    scope = session_scope(parts, session)
    if scope.has(HookPoint.ON_SESSION_START):
        scope = scope.bind(run_id=row.run_id, thread_id=row.thread_id)
        value = session_value(session, [row.thread_id], None)
        verdict = await scope.fire_detached(HookPoint.ON_SESSION_START, value)
    refused = verdict if verdict is not None and verdict.decision in REFUSING else None

    def store_start(tx: Tx) -> None:
        if refused is None:
            sessions.start(tx, session.session_id, tx.time())
        else:
            end_session(tx, parts, session.session_id, f"refused: {refused.reason}")

    await parts.database.write(store_start, patient=True)
    return refused


def _hold_session(tx: Tx, parts: RunServices, row: Run) -> Session:
    """Return the session of a run, open from now on: one that has ended begins anew."""
    now = tx.time()
    session_id = row.session_id or row.thread_id
    made = Session(
        session_id=session_id,
        channel="api",
        metadata={},
        created_at=now,
        updated_at=now,
        owner=row.owner,
        user=row.user,
    )
    session, is_opened = sessions.hold_for_run(tx, made, now)
    if is_opened:
        prune_sessions(tx, parts, session)
    return session


def has_reply_hooks(parts: RunServices, row: Run, scope: Scope) -> bool:
    """Return whether hooks see a run's output as the reply to a message."""
    return parts.settings.brings_message(row) and scope.has(HookPoint.BEFORE_OUTBOUND)


def reviews_result(parts: RunServices, row: Run, scope: Scope) -> bool:
    """Return whether hooks see the output of a run, as a result or as a reply."""
    return scope.has(HookPoint.ON_RESULT) or has_reply_hooks(parts, row, scope)


def holds_result(parts: RunServices, row: Run, scope: Scope) -> bool:
    """Return whether a hook may change or refuse the output of a run."""
    points = [HookPoint.ON_RESULT]
    points += [HookPoint.BEFORE_OUTBOUND] if has_reply_hooks(parts, row, scope) else []
    return any(has_enforcing_hooks(scope, each, Lane.TRANSFORM, Lane.GATE) for each in points)


async def fire_result(
    parts: RunServices, live: LiveRun, scope: Scope, output: Any, keep: Keep
) -> Verdict | None:
    """Fire the hooks on an output, and on the reply that it is; None: there are none.

    The verdict is on the output in either case.
    """
    verdict = None
    if scope.has(HookPoint.ON_RESULT):
        verdict = await fire_or_suspend(parts, live, scope, HookPoint.ON_RESULT, output, keep=keep)
        if verdict.decision in REFUSING:
            return verdict
        output = thaw(verdict.value)
    row = live.row
    if not has_reply_hooks(parts, row, scope) or (text := find_reply(output)) is None:
        return verdict
    session = await parts.database.read(
        lambda reads: sessions.get(reads, row.session_id or row.thread_id)
    )
    if session is not None and (session.started_at or 0.0) >= row.created_at:
        scope = scope.bind(metadata={**scope.context.metadata, FIRST_REPLY: True})
    channel = "api" if session is None else session.channel
    said = OutboundMessage(row.owner, channel, text, row.thread_id)
    sent = await fire_or_suspend(parts, live, scope, HookPoint.BEFORE_OUTBOUND, said, keep=keep)
    if sent.decision in REFUSING:
        return sent
    if sent.value.content != text:
        output = replace_reply(output, sent.value.content)
    return Verdict(output)
