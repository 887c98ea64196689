"""Questions of hooks on channels: posted with buttons, answered by who may, and taken away."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from checkrail.channels.protocol import (
    Address,
    Channel,
    Inbound,
    Outbound,
    Question,
)
from checkrail.config.sessions import ChannelConfig
from checkrail.engine.errors import describe_error
from checkrail.runs import jsons
from checkrail.runs.approvals import Answer, Approver
from checkrail.runs.errors import RequestError
from checkrail.runs.finish.question_ends import take_from_channel
from checkrail.runs.services import RunServices
from checkrail.sessions.replies import ChannelSet, call_channel, plain_address
from checkrail.store import approvals
from checkrail.store.approvals import Approval
from checkrail.store.database import Tx
from checkrail.store.deliveries import Delivery

log = logging.getLogger("checkrail.sessions")

_LONGEST = 1500
"""Letters of a value that a question shows."""

_STATES = {
    "approved": "Approved",
    "denied": "Denied",
    "expired": "Nobody answered in time",
}


class ChannelQuestions:
    """Puts questions to people on channels, and takes their answers."""

    def __init__(
        self,
        parts: RunServices,
        approver: Approver,
        channels: ChannelSet,
        configs: Mapping[str, ChannelConfig],
    ) -> None:
        self._parts = parts
        self._approver = approver
        self._channels = channels
        self._configs = configs

    async def post(self, row: Delivery) -> None:
        """Post an open question where its approvers are, if its channel has any."""
        told: Any = row.payload
        asked = await self._find_question(told["approval_id"])
        address = Address(**told["address"])
        config = self._configs.get(address.channel)
        if config is None or not config.approvers or asked is None or asked.status != "open":
            return
        if config.questions_in is not None:
            address = replace(address, conversation=config.questions_in, thread=None)
        part = Outbound(
            describe_question(asked), question=Question(asked.approval_id, asked.digest)
        )
        async with self._channels.use(address.channel) as channel:
            if not channel.capabilities.buttons:
                return
            sent = await call_channel(channel.send(address, part, delivery_id=row.delivery_id))
        posted = {"address": plain_address(address), "message_id": sent.message_id}

        def store_posted(tx: Tx) -> None:
            if not approvals.note_posted(tx, asked.approval_id, posted):
                now = approvals.get(tx, asked.approval_id) or asked  # answered as it was sent
                take_from_channel(tx, replace(now, posted=posted))

        await self._parts.database.write(store_posted, patient=True)

    async def close(self, row: Delivery) -> None:
        """Take the buttons from a question that is not open any more."""
        told: Any = row.payload
        asked = Approval(**told["approval"])
        address = Address(**asked.posted["address"])
        by = f" by {asked.answered_by}" if asked.answered_by else ""
        state = _STATES.get(asked.status, "Not asked any more")
        text = f"{describe_question(asked)}\n\n{state}{by}."
        async with self._channels.use(address.channel) as channel:
            if channel.capabilities.edits:
                posted = asked.posted["message_id"]
                await call_channel(channel.edit(address, posted, Outbound(text)))

    async def take_answer(self, channel: Channel, inbound: Inbound) -> None:
        """Store the answer of somebody who pressed a button, if they may answer."""
        answer = inbound.answer
        if answer is None:
            return
        said = await self._store_answer(channel, inbound)
        try:
            await call_channel(channel.tell(answer, said))
        except Exception as error:  # noqa: BLE001 - the answer counts all the same
            told = (inbound.sender, said, channel.name, describe_error(error))
            log.warning("%s was not told %r on %s: %s", *told)

    async def _store_answer(self, channel: Channel, inbound: Inbound) -> str:
        """Store an answer, and return what the person is told."""
        answer = inbound.answer
        config = self._configs.get(channel.name)
        allowed = () if config is None else config.approvers
        if answer is None or not any(fnmatchcase(inbound.sender, each) for each in allowed):
            log.warning("%s may not answer questions on %s", inbound.sender, channel.name)
            return "You may not answer this"
        asked = await self._find_question(answer.approval_id)
        if asked is None or asked.posted is None:
            return "This is not asked any more"
        posted = Address(**asked.posted["address"])
        if (posted.channel, posted.account) != (channel.name, inbound.address.account):
            return "This was not asked here"
        if not answer.digest or not asked.digest.startswith(answer.digest):
            return "This answer is to another value than the one that is asked about"
        given = Answer(
            approved=answer.verdict == "approve",
            by=inbound.sender,
            reason=answer.reason or "",
            digest=asked.digest,
        )
        try:
            now = await self._approver.answer(asked.approval_id, given)
        except RequestError as error:
            return str(error)
        return _STATES[now.status]

    async def _find_question(self, approval_id: str) -> Approval | None:
        return await self._parts.database.read(lambda reads: approvals.get(reads, approval_id))


def describe_question(asked: Approval) -> str:
    """Return a question with the value that it is about, as people read it."""
    value = asked.value
    shown = value if isinstance(value, str) else jsons.dumps(value).decode()
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}… ({len(shown)} letters)"
    hook = asked.hook.rpartition("/")[2]
    return f"{asked.question}\n\n{asked.point} · {hook}\n{shown}"
