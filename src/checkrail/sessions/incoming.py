"""Taking in messages: each finds its session and its thread, and is stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from checkrail.channels.protocol import Address
from checkrail.config.sessions import SessionsConfig
from checkrail.engine.values import plain
from checkrail.runs import jsons
from checkrail.runs.admit.admission import new_thread
from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.finish.session_ends import prune_sessions
from checkrail.runs.services import RunServices
from checkrail.sessions.handling import UNNAMED
from checkrail.sessions.message_worker import MESSAGES, MessageWorker
from checkrail.sessions.replies import conversation_key, plain_address
from checkrail.store import messages, sessions, threads
from checkrail.store.database import Tx
from checkrail.store.messages import JOINED, RECEIVED, Message
from checkrail.store.sessions import Session
from checkrail.store.threads import Thread
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.runs.agents.catalogue import Catalogue


_MOST_JOINED = 20
_LONGEST_WAIT = 10
"""How many times its pause a message waits, however much its sender adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message that comes in, from whom, and where it belongs.

    Without a `session_id` it is the one session that its sender has on the channel; without a
    `thread_id`, the thread of its address, or else the session's last one. Without an `address`
    nothing is sent: whoever brought it looks for the reply.
    """

    channel: str
    external_id: str
    sender: Principal
    text: str
    agent_name: str | None = None
    account: str = ""
    session_id: str | None = None
    parent_session_id: str | None = None
    thread_id: str | None = None
    address: Address | None = None
    keeps_unanswered: bool = False
    """Whether a message is stored that no agent answers, for its sender is told of that later."""
    attachments: Sequence[Mapping[str, Any]] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    place_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Of the session and the thread, if they are new."""
    group: str | None = None
    """What messages have in common that are one, such as the pictures of an album."""
    settle: float = 0.0
    """Seconds to wait for what else belongs to it: of its group, or whatever its sender adds."""
    body_digest: str | None = None
    """Of all that came, where the channel says so."""

    def content(self) -> dict[str, Any]:
        """Return what was said, as it is stored."""
        return {
            "text": self.text,
            "has_quotas": self.sender.has_quotas,
            "attachments": [dict(each) for each in self.attachments],
            "metadata": dict(self.metadata),
            **({} if self.group is None else {"group": self.group}),
        }

    def joins(self, row: Message) -> bool:
        """Return whether it belongs to a message that still waits for more."""
        is_full = len(row.content.get("joined", ())) >= _MOST_JOINED
        return not is_full and row.content.get("group") == self.group

    def digest(self) -> str:
        """Return what tells this message from another that has its id."""
        if self.body_digest is not None:
            return self.body_digest
        said = [self.content(), self.sender.owner_of_new, self.session_id, self.thread_id]
        return hashlib.sha256(jsons.dumps([*said, self.agent_name])).hexdigest()


class Inbox:
    """Stores messages."""

    def __init__(self, parts: RunServices, config: SessionsConfig, worker: MessageWorker) -> None:
        self._parts = parts
        self._config = config
        self._worker = worker

    async def accept(self, incoming: Sequence[Incoming]) -> list[Message]:
        """Store messages, all or none, and return them; one that came before is as it is now."""
        agents = [await self._choose_agent(each) for each in incoming]
        stored = await self._parts.database.write(
            lambda tx: [self._store(tx, *each) for each in zip(incoming, agents, strict=True)]
        )
        for row, is_new in stored:
            if is_new and row.worker_id is not None:
                self._worker.take(row)
            elif is_new and row.due_at is not None:
                self._worker.look_after(row.due_at - self._parts.database.time())
        return [row for row, _ in stored]

    async def _choose_agent(self, incoming: Incoming) -> str:
        """Return the agent that answers a message: the one that it names, or the project's."""
        catalogue = self._parts.catalogue
        name = incoming.agent_name or self._config.agent or _only_name(catalogue)
        if incoming.keeps_unanswered:  # a hook may still send it to somebody
            return name or ""
        if not name:
            raise InvalidError(UNNAMED)
        await self._parts.ensure_known(name)
        return catalogue.require_runnable(name).name

    def _store(self, tx: Tx, incoming: Incoming, agent_name: str) -> tuple[Message, bool]:
        """Store one, and return it with whether it is new; one that is next is for us to handle."""
        digest = incoming.digest()
        known = messages.find_external(tx, incoming.channel, incoming.account, incoming.external_id)
        if known is not None:
            if known.digest != digest or known.owner != incoming.sender.owner_of_new:
                raise ConflictError(
                    f"the message id {incoming.external_id!r} was used for another message. "
                    "Use a new one"
                )
            return known, False
        if incoming.sender.has_quotas:
            self._parts.quotas.check_runs(tx, incoming.sender.owner_of_new, 1)
        session, thread = self._find_place(tx, incoming)
        threads.lock_only(tx, thread.thread_id)
        now = tx.time()
        began = session.started_at is not None
        joined_to = None
        if incoming.settle:
            if messages.find_external(
                tx, incoming.channel, incoming.account, incoming.external_id
            ):  # stored while we waited for the thread
                return self._store(tx, incoming, agent_name)
            joined_to = _join(tx, thread.thread_id, incoming, now)
        settles = incoming.settle if joined_to is None else 0.0
        is_next = (
            began
            and not incoming.settle
            and self._worker.room > 0
            and messages.is_thread_free(tx, thread.thread_id)
        )
        row = Message(
            message_id=uuid7(),
            channel=incoming.channel,
            account=incoming.account,
            external_id=incoming.external_id,
            digest=digest,
            session_id=session.session_id,
            thread_id=thread.thread_id,
            run_id=uuid7(),
            agent_name=agent_name,
            owner=incoming.sender.owner_of_new,
            user=plain(incoming.sender.user),
            address=None if incoming.address is None else plain_address(incoming.address),
            content=incoming.content(),
            status=RECEIVED if joined_to is None else JOINED,
            joined_to=None if joined_to is None else joined_to.message_id,
            due_at=now + settles if settles else None,
            ended_at=None if joined_to is None else now,
            worker_id=self._parts.worker_id if is_next else None,
            created_at=now,
            updated_at=now,
        )
        if not messages.add(tx, row):  # somebody else has stored it just now
            return self._store(tx, incoming, agent_name)
        if joined_to is not None:
            return joined_to, True
        if not is_next:
            tx.publish(*MESSAGES)
        return row, True

    def _find_place(self, tx: Tx, incoming: Incoming) -> tuple[Session, Thread]:
        """Return the session and the thread of a message, which are made if need be."""
        sender = incoming.sender
        if incoming.thread_id is not None:
            thread = threads.get(tx, incoming.thread_id)
            if thread is None or sender.owner not in (None, thread.owner):
                raise NotFoundError(f"thread {incoming.thread_id!r} not found")
            session = sessions.get(tx, thread.session_id or "")
            named = incoming.session_id in (None, thread.session_id)
            if session is None or not named:
                told = f"the thread {thread.thread_id!r} is not in that session"
                raise ConflictError(f"{told}. Leave session_id out")
            return _hold_open(tx, session), thread
        session = self._find_session(tx, incoming)
        address = incoming.address
        key = None if address is None else conversation_key(address, sender.owner_of_new)
        if key is not None:
            known = messages.find_conversation(tx, key)
            if known is not None and known[0] == session.session_id:
                found = threads.get(tx, known[1])
                if found is not None:
                    return session, found
        elif (last := sessions.thread_of(tx, session.session_id)) is not None:
            return session, last
        thread = self._add_thread(tx, incoming, session)
        if key is not None:
            messages.set_conversation(tx, key, session.session_id, thread.thread_id)
        return session, thread

    def _find_session(self, tx: Tx, incoming: Incoming) -> Session:
        sender, now = incoming.sender, tx.time()
        key = f"{incoming.channel}\n{incoming.account}\n{sender.owner_of_new}"
        if incoming.session_id is not None:
            known = sessions.get(tx, incoming.session_id)
            if known is not None:
                if sender.owner not in (None, known.owner):
                    raise NotFoundError(f"session {incoming.session_id!r} not found")
                return _hold_open(tx, known)
            key = incoming.session_id
        made = Session(
            session_id=incoming.session_id or uuid7(),
            parent_session_id=incoming.parent_session_id,
            channel=incoming.channel,
            metadata=dict(incoming.place_metadata),
            owner=sender.owner_of_new,
            user=plain(sender.user),
            key=key,
            created_at=now,
            updated_at=now,
            active_at=now,
        )
        session = sessions.open_for_key(tx, made)
        if session is made:
            prune_sessions(tx, self._parts, made)
        return session

    def _add_thread(self, tx: Tx, incoming: Incoming, session: Session) -> Thread:
        owner, now = incoming.sender.owner_of_new, tx.time()
        if incoming.sender.has_quotas:
            self._parts.quotas.check_threads(tx, owner)
        thread = new_thread(
            uuid7(),
            owner,
            now,
            session_id=session.session_id,
            metadata=dict(incoming.place_metadata),
            **self._parts.settings.thread_ttl(now),
        )
        threads.add(tx, thread)
        return thread


def _join(tx: Tx, thread_id: str, incoming: Incoming, now: float) -> Message | None:
    """Add what was said to the message before it, if that waits for more; return it then."""
    first = messages.find_settling(tx, thread_id)
    if first is None or not incoming.joins(first):
        return None
    before, more = first.content, incoming.content()
    content = {
        **before,
        "text": "\n".join(text for text in (before["text"], more["text"]) if text),
        "attachments": [*before["attachments"], *more["attachments"]],
        "joined": [*before.get("joined", ()), incoming.external_id],
    }
    due_at = min(now + incoming.settle, first.created_at + _LONGEST_WAIT * incoming.settle)
    told: dict[str, Any] = {"content": content, "due_at": due_at, "updated_at": now}
    if not messages.update_if(tx, first.message_id, RECEIVED, **told):
        return None  # it is handled by now
    return replace(first, **told)


def _only_name(catalogue: Catalogue) -> str | None:
    """Return the name of the only agent that there is."""
    names = [agent.name for agent in catalogue]
    return names[0] if len(names) == 1 else None


def _hold_open(tx: Tx, session: Session) -> Session:
    """Return a session that stays open while a message is stored in it."""
    if not sessions.hold_open(tx, session.session_id, tx.time()):
        session = sessions.get(tx, session.session_id) or session
        told = f"the session {session.session_id!r} has ended ({session.reason})"
        raise ConflictError(f"{told}. Begin another one")
    return session
