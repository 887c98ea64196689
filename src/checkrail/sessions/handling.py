"""Handling a message: its hooks and whom they ask, its run, and at the end of that its reply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.builtin.greeting import FIRST_REPLY
from checkrail.channels.text_parts import Measures
from checkrail.config.sessions import SessionsConfig
from checkrail.engine.asks import AnswerLater, Approval, Question
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.values import InboundMessage, OutboundMessage, User
from checkrail.engine.verdict import Verdict
from checkrail.llm.conversation import text_of
from checkrail.runs import jsons
from checkrail.runs.admit.requests import Principal, RunRequest
from checkrail.runs.agents.catalogue import GRAPH, agent_assistant_id
from checkrail.runs.approvals import build_question_row, insert_question, to_approval
from checkrail.runs.errors import ConflictError, InvalidError, RefusedError, RequestError
from checkrail.runs.finish.session_ends import (
    end_session,
    hold_session_start,
    session_scope,
    session_value,
)
from checkrail.runs.run_service import Runs
from checkrail.runs.services import MESSAGE, RunServices
from checkrail.sessions.replies import build_parts
from checkrail.store import approvals, deliveries, messages, records, sessions, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.messages import REPLYING, RUNNING, WAITING, Message
from checkrail.store.runs import Run
from checkrail.store.sessions import Session
from checkrail.store.threads import Thread

log = logging.getLogger("checkrail.sessions")

UNNAMED = (
    "nobody is named to answer this message. Say agent_name, or sessions: {agent: …} in the "
    "project's file"
)
AGENT = "agent"
"""In the metadata of a message: the agent that a hook sends it to."""
REFUSING = (Decision.BLOCK, Decision.FAIL)
ANSWERED, BLOCKED, WITHHELD, FAILED, CANCELLED = (
    "answered",
    "blocked",
    "withheld",
    "failed",
    "cancelled",
)
"""How messages end."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message or a reply went no further, and who said so."""

    reason: str
    status: int
    point: str | None = None
    hook: str | None = None
    code: str | None = None
    retry_after: float | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {name: getattr(self, name) for name in self.__slots__}


class SessionOverError(ConflictError):
    """The session of a message ended before its run was stored."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class MessageTakenError(ConflictError):
    """A message is not held by this process any more."""

    def __init__(self) -> None:
        super().__init__("another process handles this message by now")


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is to be said to the sender of a message, and how the message ends by that."""

    text: str | None
    status: str
    refusal: Refusal | None = None
    error: str | None = None


class MessageHandler:
    """Handles the messages that this process holds."""

    def __init__(
        self,
        runs: Runs,
        config: SessionsConfig,
        measures: Measures,
        *,
        on_run: Callable[[Message], None],
    ) -> None:
        self._runs = runs
        self._parts = runs.parts
        self._config = config
        self._measures = measures
        self._on_run = on_run

    async def handle(self, row: Message) -> None:
        """Take a message one stage further: to its run, or from the end of that to its reply."""
        handler = MessageAskHandler(self._parts, row)
        try:
            if row.status == REPLYING:
                await self._reply(row, handler)
            else:
                await self._receive(row, handler)
        except MessageLeft:
            await self._leave(row, handler)

    def can_stream(self, row: Message) -> bool:
        """Return whether a reply may be shown as it is made: no hook may change or refuse it."""
        if not self._parts.has_hooks(HookPoint.BEFORE_OUTBOUND, row.agent_name):
            return True
        hooks = self._scope(row).bound_hooks(HookPoint.BEFORE_OUTBOUND)
        return all(bound.lane is Lane.OBSERVE or bound.shadow for bound in hooks)

    async def _receive(self, row: Message, handler: MessageAskHandler) -> None:
        session, thread = await self._parts.database.read(lambda reads: _place(reads, row))
        if (refusal := await self._begin_session(row, session)) is not None:
            await self._conclude(row, _refused_outcome(refusal))
            return
        outcome, said = await self._fire_inbound(row, handler)
        if outcome is None:
            outcome = await self._start_run(row, thread, said, handler.used)
        if outcome is not None:
            await self._conclude(row, outcome, handler.used)

    async def _fire_inbound(
        self, row: Message, handler: MessageAskHandler
    ) -> tuple[Mapping[str, Any] | None, InboundMessage]:
        """Fire the hooks at the door; return an outcome if they allow no run, and what is said."""
        said = _inbound(row)
        if not self._parts.has_hooks(HookPoint.BEFORE_INBOUND, row.agent_name):
            return None, said
        scope = self._scope(row).with_ask_handler(handler)
        verdict = await scope.fire_detached(HookPoint.BEFORE_INBOUND, said)
        if verdict.decision in REFUSING:
            return _refused_outcome(_refusal(verdict, HookPoint.BEFORE_INBOUND)), said
        if verdict.decision is Decision.STOP:
            answer = thaw(verdict.value)
            return {"status": "success", "phase": "stopped", "output": answer}, said
        return None, verdict.value

    async def _begin_session(self, row: Message, session: Session | None) -> Refusal | None:
        """Let the hooks say whether a session may begin; return why a message has none."""
        if session is None or session.ended_at is not None:
            return _refuse_late(session)
        if session.started_at is not None:
            return None
        if not session_scope(self._parts, session).has(HookPoint.ON_SESSION_START):
            return await self._store_start(session, None)
        async with hold_session_start(self._parts, session.session_id):
            now = await self._parts.database.read(lambda reads: sessions.get(reads, row.session_id))
            if now is None or now.ended_at is not None:
                return _refuse_late(now)
            if now.started_at is not None:  # a run that brought a message was first
                return None
            scope = session_scope(self._parts, now)
            scope = scope.bind(run_id=row.run_id, thread_id=row.thread_id)
            value = session_value(now, [row.thread_id], None)
            verdict = await scope.fire_detached(HookPoint.ON_SESSION_START, value)
            is_refused = verdict.decision in REFUSING
            refusal = _refusal(verdict, HookPoint.ON_SESSION_START) if is_refused else None
            return await self._store_start(now, refusal)

    async def _store_start(self, session: Session, refusal: Refusal | None) -> Refusal | None:
        """Store that a session begins, or that it is refused."""

        def store_start(tx: Tx) -> None:
            if refusal is None:
                sessions.start(tx, session.session_id, tx.time())
            else:
                end_session(tx, self._parts, session.session_id, f"refused: {refusal.reason}")
            tx.publish("messages", "")

        await self._parts.database.write(store_start, patient=True)
        return refusal

    async def _start_run(
        self, row: Message, thread: Thread | None, value: InboundMessage, used: Sequence[str]
    ) -> Mapping[str, Any] | None:
        """Request the run that answers a message, as its sender; return why there is none.

        The run and the message that has it are stored as one, unless its session has ended.
        """

        def mark_running(tx: Tx) -> None:
            now = tx.time()
            if not sessions.hold_open(tx, row.session_id, now):
                raise SessionOverError(_refuse_late(sessions.get(tx, row.session_id)))
            by = {"agent_name": _answering_agent(row, value), "updated_at": now}
            told = {"status": RUNNING, "worker_id": None, **by}
            if not messages.update_owned(tx, row, self._parts.worker_id, **told):
                raise MessageTakenError
            approvals.use_answers(tx, used, now)
            messages.publish_change(tx, row.message_id)

        # Whether its sender may say something there was clear before it was stored.
        sender = Principal(User(**row.user), has_quotas=row.content["has_quotas"])
        try:
            request = await self._build_request(row, thread, value)
            await self._runs.admit([request], sender, confirm=mark_running)
        except MessageTakenError:
            log.info("message %s is handled elsewhere by now", row.message_id)
        except SessionOverError as error:
            return _refused_outcome(error.refusal)
        except RefusedError as error:
            told = error.detail
            by = ("before_run", told["blocked_by"], told["code"], error.retry_after)
            return _refused_outcome(Refusal(str(error), error.status, *by))
        except RequestError as error:
            log.warning("message %s could not be handled: %s", row.message_id, error)
            refusal = Refusal(str(error), error.status, "admission", None, None, error.retry_after)
            failed = {"status": "error", "phase": "rejected", "error": str(error)}
            return failed | {"refusal": refusal.plain()}
        else:
            self._on_run(row)
        return None

    async def _build_request(
        self, row: Message, thread: Thread | None, value: InboundMessage
    ) -> RunRequest:
        name = _answering_agent(row, value)
        if not name:
            raise InvalidError(UNNAMED)
        await self._parts.ensure_known(name)
        agent = self._parts.catalogue.require_runnable(name)
        about: dict[str, Any] = {"message_id": row.message_id, "channel": row.channel}
        attachments, metadata = thaw(value.attachments), thaw(value.metadata)
        metadata.pop(AGENT, None)
        about |= {"attachments": attachments} if attachments else {}
        about |= {"metadata": metadata} if metadata else {}
        asked: dict[str, Any] = {"input": {"prompt": value.content}}
        if thread is not None and thread.interrupts:
            asked = {"command": {"resume": value.content}}  # it waits for what is said next
        elif agent.config.kind == GRAPH:
            asked = {"input": {"messages": [{"role": "user", "content": value.content}]}}
        return RunRequest(
            assistant_id=agent_assistant_id(name),
            thread_id=row.thread_id,
            session_id=row.session_id,
            run_id=row.run_id,
            channel=row.channel,
            origin=MESSAGE,
            resumes=True,
            metadata={"message": about},
            notify_on_end={"message_id": row.message_id},
            **asked,
        )

    async def _reply(self, row: Message, handler: MessageAskHandler) -> None:
        reply = self._build_reply(row.outcome or {})
        if reply.text and self._parts.has_hooks(HookPoint.BEFORE_OUTBOUND, row.agent_name):
            scope = await self._note_first(row, self._scope(row))
            scope = scope.with_ask_handler(handler)
            said = OutboundMessage(row.owner, row.channel, reply.text, row.thread_id)
            verdict = await scope.fire_detached(HookPoint.BEFORE_OUTBOUND, said)
            if verdict.decision in REFUSING:
                refusal = _refusal(verdict, HookPoint.BEFORE_OUTBOUND)
                if reply.status == ANSWERED:
                    reply = _Reply(self._config.withheld_reply or None, WITHHELD, refusal)
                else:
                    reply = _Reply(None, reply.status, reply.refusal, reply.error)
            else:
                text = verdict.value.content
                reply = _Reply(text, reply.status, reply.refusal, reply.error)
        await self._finish(row, reply, handler.used)

    async def _note_first(self, row: Message, scope: Scope) -> Scope:
        """Return a scope whose metadata say so if this is the first reply of its session."""
        if not await self._parts.database.read(lambda reads: messages.is_first_reply(reads, row)):
            return scope
        return scope.bind(metadata={**scope.context.metadata, FIRST_REPLY: True})

    def _build_reply(self, outcome: Mapping[str, Any]) -> _Reply:
        """Return what is said at the end of a run, before any hook has seen it."""
        phase, error = outcome.get("phase"), outcome.get("error")
        if phase == "refused":
            refused = Refusal(**outcome["refusal"])
            return _Reply(refused.reason, BLOCKED, refused)
        if phase == "blocked":
            reason = outcome["block_reason"] or ""
            refused = Refusal(reason, 403, None, outcome["blocked_by"])
            return _Reply(reason, BLOCKED, refused, error)
        if phase == "interrupted":
            return _Reply(_question_text(outcome["interrupts"]), ANSWERED)
        if outcome.get("status") == "success":
            return _Reply(reply_text(outcome.get("output")), ANSWERED)
        if phase == "cancelled":
            return _Reply(None, CANCELLED, None, error)
        told = outcome.get("refusal")
        refusal = None if told is None else Refusal(**told)
        return _Reply(self._config.failed_reply or None, FAILED, refusal, error)

    async def _finish(self, row: Message, reply: _Reply, used: Sequence[str]) -> None:
        """Store a reply with what is owed to the channel for it, in one transaction."""
        now = self._parts.database.time()
        owed = build_parts(row, reply.text, self._measures, now)
        told = {
            "status": reply.status,
            "reply": reply.text,
            "refusal": None if reply.refusal is None else reply.refusal.plain(),
            "error": reply.error,
            "outcome": None,
            "worker_id": None,
            "ended_at": now,
        }
        if await self._store(row, used, parts=owed, **told) and owed:
            log.debug("message %s is answered in %s parts", row.message_id, len(owed))

    async def _conclude(
        self, row: Message, outcome: Mapping[str, Any], used: Sequence[str] = ()
    ) -> None:
        """Let the reply be made of an outcome that no run had."""
        outcome = {"interrupts": [], "blocked_by": None, "block_reason": None, **outcome}
        await self._store(row, used, status=REPLYING, outcome=outcome, worker_id=None)

    async def _leave(self, row: Message, handler: MessageAskHandler) -> None:
        """Leave a message until somebody has answered all that is asked about it."""
        asked = [left.row for left in handler.questions]
        new = [left.row for left in handler.questions if left.is_new]

        def store_questions(tx: Tx) -> None:
            stage = {"status": WAITING, "worker_id": None, "updated_at": tx.time()}
            if not messages.update_owned(tx, row, self._parts.worker_id, **stage):
                return
            for each in new:
                insert_question(tx, each)
            if any(approvals.status_of(tx, each.approval_id) != "open" for each in asked):
                messages.wake(tx, row.message_id, tx.time())
            messages.publish_change(tx, row.message_id)

        await self._parts.database.write(store_questions, patient=True)

    async def _store(
        self,
        row: Message,
        used: Sequence[str],
        *,
        parts: Sequence[deliveries.Delivery] = (),
        **changed: Any,
    ) -> bool:
        """Change a message that this process holds; False: it does not hold it any more."""
        written = self._parts.log.take_records(row.run_id)

        def store_change(tx: Tx) -> bool:
            now = tx.time()
            records.add(tx, written)
            changed["updated_at"] = now
            if not messages.update_owned(tx, row, self._parts.worker_id, **changed):
                return False
            approvals.use_answers(tx, used, now)
            deliveries.add(tx, parts)
            if parts:
                tx.publish("work", "")
            if "ended_at" in changed:
                sessions.hold_open(tx, row.session_id, now)
            messages.publish_change(tx, row.message_id)
            return True

        return await self._parts.database.write(store_change, patient=True)

    def _scope(self, row: Message) -> Scope:
        """Return the scope in which a message's hooks are fired: those of the server, its agent."""
        as_run = Run(
            run_id=row.run_id,
            thread_id=row.thread_id,
            session_id=row.session_id,
            assistant_id=agent_assistant_id(row.agent_name),
            agent_name=row.agent_name,
            metadata={},
            kwargs={},
            user=row.user,
            owner=row.owner,
        )
        return self._parts.scope(as_run, channel=row.channel, message_id=row.message_id)


def _place(reads: Reads, row: Message) -> tuple[Session | None, Thread | None]:
    return sessions.get(reads, row.session_id), threads.get(reads, row.thread_id)


def _inbound(row: Message) -> InboundMessage:
    """Return a message as hooks are given it; who is to answer is not for its sender to say."""
    content = row.content
    return InboundMessage(
        user_id=row.owner,
        channel=row.channel,
        content=content["text"],
        thread_id=row.thread_id,
        attachments=content["attachments"],
        metadata={key: to for key, to in content["metadata"].items() if key != AGENT},
    )


def _answering_agent(row: Message, value: InboundMessage) -> str:
    """Return the agent that answers a message: the one that a hook sent it to, or its own."""
    routed = value.metadata.get(AGENT)
    return routed if isinstance(routed, str) else row.agent_name


def _refusal(verdict: Verdict, point: HookPoint) -> Refusal:
    status = verdict.status or 500
    return Refusal(
        verdict.reason, status, str(point), verdict.hook, verdict.code, verdict.retry_after
    )


def _refuse_late(session: Session | None) -> Refusal:
    """Return why nothing more is said in a session that has ended."""
    why = "was deleted" if session is None else f"has ended ({session.reason})"
    return Refusal(f"the session of this message {why}", 409)


def _refused_outcome(refusal: Refusal) -> dict[str, Any]:
    return {"status": "error", "phase": "refused", "refusal": refusal.plain()}


def reply_text(output: Any) -> str | None:
    """Return what an agent says with its output: a text, or the last message of a graph."""
    if output is None or isinstance(output, str):
        return output
    said = output.get("messages") if isinstance(output, Mapping) else None
    if isinstance(said, list):
        return _last_answer(said)
    return jsons.dumps(output).decode()


def _last_answer(said: Sequence[Any]) -> str | None:
    for message in reversed(said):
        if not isinstance(message, Mapping):
            continue
        if message.get("type") in ("ai", "AIMessage") or message.get("role") == "assistant":
            return text_of(message.get("content") or "") or None
        if message.get("type") == "human" or message.get("role") == "user":
            return None
    return None


def _question_text(asked: Sequence[Any]) -> str | None:
    """Return what a graph asks that has interrupted itself."""
    for item in asked:
        value = item.get("value") if isinstance(item, Mapping) else item
        if isinstance(value, str):
            return value
        if value is not None:
            return jsons.dumps(value).decode()
    return None


class MessageLeft(AnswerLater):
    """A message is left until somebody has answered a question about it."""

    def __init__(self, row: approvals.Approval, *, is_new: bool) -> None:
        super().__init__(row.approval_id)
        self.row = row
        self.is_new = is_new


class MessageAskHandler:
    """Returns answers that are there already; for any other question the message is left."""

    keeps_time = True

    def __init__(self, parts: RunServices, message: Message) -> None:
        self._parts = parts
        self._message = message
        self.questions: list[MessageLeft] = []
        self.used: list[str] = []

    async def __call__(self, question: Question) -> Approval:
        """Return the answer to a question, or raise that the message is left for it."""
        asked = self._build_row(question)
        found = await self._parts.database.read(
            lambda reads: approvals.find_same(reads, asked, self.used), patient=True
        )
        if found is None or found.status == "open":
            left = MessageLeft(found or asked, is_new=found is None)
            self.questions.append(left)
            raise left
        self.used.append(found.approval_id)
        return to_approval(found, question)

    def _build_row(self, question: Question) -> approvals.Approval:
        now, message = self._parts.database.time(), self._message
        timeout = self._parts.settings.question_timeout(MESSAGE, question.timeout)
        return build_question_row(
            question,
            now,
            expires_at=None if timeout is None else now + timeout,
            request_id=message.message_id,
            thread_id=message.thread_id,
            session_id=message.session_id,
            agent_name=message.agent_name,
            owner=message.owner,
        )
