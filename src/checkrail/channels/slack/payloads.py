"""What Slack sends, over HTTP and Socket Mode alike, and what of it comes in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from checkrail.channels.protocol import Address, Answer, Attachment, Inbound
from checkrail.channels.slack.text import ACTION, spell_out

Timestamp = Annotated[str, Field(pattern=r"^[0-9]{1,12}\.[0-9]{1,6}$")]
"""When a message was sent, which is also its id in a conversation."""
Listen = Literal["mentions", "all"]

_EVENTS = ("message", "app_mention")
_WRITTEN = (None, "file_share", "thread_broadcast")
_GONE = ("tombstone", "hidden_by_limit")
_VERDICTS: dict[str, Literal["approve", "deny"]] = {
    f"{ACTION}approve": "approve",
    f"{ACTION}deny": "deny",
}

_log = logging.getLogger(__name__)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class _File(_Part):
    id: str
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    url_private: str | None = None
    mode: str | None = None


class _Edited(_Part):
    ts: Timestamp


class _Message(_Part):
    ts: Timestamp
    subtype: str | None = None
    user: str | None = None
    user_team: str | None = None
    bot_id: str | None = None
    text: str | None = None
    thread_ts: Timestamp | None = None
    edited: _Edited | None = None
    files: tuple[_File, ...] | None = None


class _Event(_Part):
    """What is said of a message around it; a new message is its own event."""

    type: str
    channel: str
    channel_type: str | None = None
    subtype: str | None = None
    event_ts: Timestamp | None = None
    message: _Message | None = None
    previous_message: _Message | None = None

    @property
    def is_direct(self) -> bool:
        """Whether nobody else is in the conversation."""
        return self.channel_type == "im" or self.channel.startswith("D")


class _Authorization(_Part):
    team_id: str | None = None
    user_id: str | None = None
    is_bot: bool = False


class _Envelope(_Part):
    team_id: str
    event: dict[str, Any]
    authorizations: tuple[_Authorization, ...] = ()


class _Named(_Part):
    id: str
    team_id: str | None = None


class _Container(_Part):
    channel_id: str
    message_ts: Timestamp
    thread_ts: Timestamp | None = None


class _Action(_Part):
    action_id: str
    action_ts: Timestamp
    block_id: str
    value: str = ""


class _Interaction(_Part):
    user: _Named
    team: _Named | None = None
    container: _Container
    message: _Message | None = None
    actions: tuple[_Action, ...]


class PayloadReader:
    """Reads payloads for one channel."""

    def __init__(self, channel: str, listen: Listen) -> None:
        self.channel = channel
        self.listen = listen
        self.bot_user: str | None = None
        """The bot's own user, where a payload does not name it."""

    def read(self, payload: Mapping[str, Any]) -> list[Inbound]:
        """Return what came in. Bots, and what is said without the bot, are left out."""
        kind = payload.get("type")
        try:
            if kind == "event_callback":
                return self._read_envelope(_Envelope.model_validate(payload))
            if kind == "block_actions":
                return self._read_interaction(payload)
        except ValidationError as error:
            fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
            _log.warning("channel %s: %s with unknown %s", self.channel, kind, ", ".join(fields))
        if kind == "app_rate_limited":
            _log.warning(
                "channel %s: Slack leaves out events, for there are too many", self.channel
            )
        return []

    def _read_envelope(self, envelope: _Envelope) -> list[Inbound]:
        if envelope.event.get("type") not in _EVENTS:
            return []
        event = _Event.model_validate(envelope.event)
        own = next(iter(envelope.authorizations), _Authorization())
        account = own.team_id or envelope.team_id
        bot_user = own.user_id if own.is_bot else self.bot_user
        if event.subtype == "message_deleted":
            found = self._read_deletion(account, event, event.previous_message, bot_user)
        elif event.subtype == "message_changed":
            found = self._read_change(account, event, bot_user)
        elif event.subtype in _WRITTEN:
            message = _Message.model_validate(envelope.event)
            found = self._read_message(account, event, message, bot_user)
        else:
            found = None
        return [found] if found else []

    def _read_change(self, account: str, event: _Event, bot_user: str | None) -> Inbound | None:
        """Return an edit by a person, or a deletion; a preview that Slack adds is neither."""
        message = event.message
        if message is not None and message.subtype == "tombstone":  # it has replies, so it stays
            return self._read_deletion(account, event, event.previous_message, bot_user)
        if message is None or message.edited is None or message.subtype not in _WRITTEN:
            return None
        return self._read_message(account, event, message, bot_user)

    def _read_message(
        self, account: str, event: _Event, message: _Message, bot_user: str | None
    ) -> Inbound | None:
        if not self._is_for_us(event, message, bot_user):
            return None
        written = f"{event.channel}:{message.ts}"
        edited = message.edited.ts if message.edited else None
        return Inbound(
            kind="edit" if edited else "message",
            external_id=f"{written}:{edited}" if edited else written,
            address=self._find_address(account, event, message),
            sender=f"slack:{account}:{message.user}",
            text=spell_out(message.text or "", bot_user),
            order=edited or message.ts,
            attachments=tuple(_read_file(each) for each in message.files or () if _is_there(each)),
            target=written if edited else None,
            sent_at=float(edited or message.ts),
            metadata=_read_metadata(account, event, message, bot_user),
        )

    def _read_deletion(
        self, account: str, event: _Event, message: _Message | None, bot_user: str | None
    ) -> Inbound | None:
        if message is None or not self._is_for_us(event, message, bot_user):
            return None
        written = f"{event.channel}:{message.ts}"
        deleted = event.event_ts or message.ts
        return Inbound(
            kind="delete",
            external_id=f"{written}:deleted",
            address=self._find_address(account, event, message),
            sender=f"slack:{account}:{message.user}",
            order=deleted,
            target=written,
            sent_at=float(deleted),
            metadata=_read_metadata(account, event, message, bot_user),
        )

    def _is_for_us(self, event: _Event, message: _Message, bot_user: str | None) -> bool:
        """Return whether a person wrote this, and to the bot."""
        if message.bot_id or message.user in (None, bot_user, "USLACKBOT"):
            return False
        everything = event.is_direct or self.listen == "all"
        return everything or _is_mentioned(event, message, bot_user)

    def _find_address(self, account: str, event: _Event, message: _Message) -> Address:
        """Return the thread of a message: in a channel each message begins one."""
        thread = message.thread_ts or (None if event.is_direct else message.ts)
        return Address(self.channel, account, event.channel, thread)

    def _read_interaction(self, payload: Mapping[str, Any]) -> list[Inbound]:
        """Return the answers that were given by buttons of ours; other buttons are not for us."""
        actions = payload.get("actions")
        ours = [each for each in actions if _is_ours(each)] if isinstance(actions, list) else []
        if not ours:
            return []
        click = _Interaction.model_validate({**payload, "actions": ours})
        return [self._read_click(click, each) for each in click.actions]

    def _read_click(self, click: _Interaction, action: _Action) -> Inbound:
        place = click.container
        thread = place.thread_ts or (click.message.thread_ts if click.message else None)
        account = (click.team.id if click.team else click.user.team_id) or ""
        said = Answer(
            approval_id=action.block_id,
            verdict=_VERDICTS[action.action_id],
            digest=action.value,
            message_id=place.message_ts,
            reply_token=f"{place.channel_id}:{click.user.id}:{thread or ''}",
        )
        return Inbound(
            kind="answer",
            external_id=f"{place.channel_id}:{place.message_ts}:{click.user.id}:{action.action_ts}",
            address=Address(self.channel, account, place.channel_id, thread),
            sender=f"slack:{account}:{click.user.id}",
            order=action.action_ts,
            answer=said,
            sent_at=float(action.action_ts),
        )


def _is_ours(action: Any) -> bool:
    return isinstance(action, dict) and action.get("action_id") in _VERDICTS


def _is_mentioned(event: _Event, message: _Message, bot_user: str | None) -> bool:
    text = message.text or ""
    named = bot_user is not None and (f"<@{bot_user}>" in text or f"<@{bot_user}|" in text)
    return named or event.type == "app_mention"


def _read_metadata(
    account: str, event: _Event, message: _Message, bot_user: str | None
) -> dict[str, Any]:
    """Return what hooks may want to know of a message beside its text."""
    found: dict[str, Any] = {"mentioned": _is_mentioned(event, message, bot_user)}
    if event.is_direct or event.channel_type:
        found["channel_type"] = "im" if event.is_direct else event.channel_type
    if message.user_team and message.user_team != account:
        found["user_team"] = message.user_team  # somebody from another organization
    return found


def _is_there(file: _File) -> bool:
    return file.mode not in _GONE


def _read_file(file: _File) -> Attachment:
    reference = {"id": file.id, "url": file.url_private}
    kind = file.mimetype or "application/octet-stream"
    return Attachment(file.name or file.id, kind, file.size, reference)
