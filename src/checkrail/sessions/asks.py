"""Asking people about messages and replies: a message is left until somebody has answered."""

from __future__ import annotations

from checkrail.engine.asks import AnswerLater, Approval, Question
from checkrail.runs.approvals import build_question_row, to_approval
from checkrail.runs.services import MESSAGE, RunServices
from checkrail.store import approvals
from checkrail.store.messages import Message


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
