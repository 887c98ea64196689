"""The Slack channel: receives over HTTP or a socket, and sends by the Web API."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from checkrail.actions.addresses import is_loopback
from checkrail.channels.protocol import (
    NOT_HERE,
    Accept,
    Address,
    Answer,
    Attachment,
    Capabilities,
    Channel,
    ChannelError,
    ChannelOptions,
    Outbound,
    Refused,
    Reply,
    Sent,
    Unknown,
    WebRequest,
)
from checkrail.channels.slack.api import SlackApi
from checkrail.channels.slack.payloads import Listen, PayloadReader
from checkrail.channels.slack.socket import SocketMode
from checkrail.channels.slack.text import build_blocks, escape

FORM = "application/x-www-form-urlencoded"
FINAL = {"X-Slack-No-Retry": "1"}
"""What tells Slack that another try is in vain."""

_log = logging.getLogger(__name__)

TOLERANCE = 300
"""Seconds that a request may be old, or from the future."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def _strip(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


Secret = Annotated[SecretStr, Field(min_length=1), BeforeValidator(_strip)]
"""A secret as it was copied; an empty one would be known to everybody."""


class SlackOptions(ChannelOptions):
    """What a project's file says of a Slack app."""

    bot_token: Secret
    """The bot's token, `xoxb-...`."""
    signing_secret: Secret | None = None
    """Checks requests of the Events API and of buttons. Without it none is taken."""
    app_token: Secret | None = None
    """A token of the app with `connections:write`, `xapp-...`: turns Socket Mode on."""
    listen: Listen = "mentions"
    """In channels, take messages that mention the bot, or all. Direct messages are always taken."""
    base_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^/?#@]+/")
    """Where the Web API is: GovSlack has another place."""

    @model_validator(mode="after")
    def _require_a_way_in(self) -> Self:
        if self.signing_secret is None and self.app_token is None:
            raise ValueError("signing_secret for the Events API, or app_token for Socket Mode")
        place = urlsplit(self.base_url)
        if place.scheme == "http" and not is_loopback(place.hostname or ""):
            raise ValueError("a base_url that begins with https://, for tokens are sent there")
        return self


class SlackChannel(Channel):
    """A Slack app in a workspace."""

    Options: ClassVar[type[ChannelOptions]] = SlackOptions
    capabilities = Capabilities(
        threads=True,
        edits=True,
        buttons=True,
        typing=True,
        typing_seconds=100.0,  # Slack takes it away after two minutes, or with the answer
        attachments=True,
        max_text=2400,  # five times as much, if all is escaped, fits in a message with buttons
    )

    def __init__(self, name: str, options: SlackOptions) -> None:
        super().__init__(name, options)
        self._secret = _reveal(options.signing_secret)
        self._api = SlackApi(options.bot_token.get_secret_value(), options.base_url)
        self._reader = PayloadReader(name, options.listen)
        app_token = _reveal(options.app_token)
        self._is_open = False
        self._socket = SocketMode(name, self._api, app_token, self._take) if app_token else None

    async def open(self, accept: Accept) -> None:
        """Ask Slack who the bot is, and begin to receive. A wrong token is `Refused`."""
        await super().open(accept)
        try:
            found = await self._api.call(self._api.client.auth_test())
        except Refused:
            await self._api.close()
            raise
        except ChannelError as error:  # events say it too
            _log.warning("channel %s: not known yet who the bot is: %s", self.name, error)
        else:
            self._reader.bot_user = found.get("user_id")
        self._is_open = True
        if self._socket is not None:
            self._socket.start()

    async def answer(self, request: WebRequest) -> Reply:
        """Answer a request of the Events API or of a button."""
        if self._secret is None:
            return NOT_HERE
        if request.method != "POST":
            return Reply(405, headers=FINAL)
        if not is_signed(self._secret, request.headers, request.body, time.time()):
            return Reply(401, b"the signature is not valid", FINAL)
        payload = _read_body(request)
        if payload is None:
            return Reply(400, b"the body is not what Slack sends", FINAL)
        if payload.get("type") == "url_verification":
            return Reply(
                200, str(payload.get("challenge", "")).encode(), {"Content-Type": "text/plain"}
            )
        if not self._is_open:
            return Reply(503, b"the channel is not open")  # Slack sends it again
        await self._take([payload])
        return Reply()

    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:  # noqa: ARG002
        """Post a message. Links in it get no preview, for which Slack would open them."""
        posted = self._api.client.chat_postMessage(
            channel=to.conversation,
            thread_ts=to.thread,
            text=escape(part.text),
            blocks=build_blocks(part) or None,
            unfurl_links=False,
            unfurl_media=False,
        )
        answered = await self._api.call(posted)
        if not answered.get("ts"):
            raise Unknown("Slack does not name the message that it took")
        return Sent(answered["ts"])

    async def edit(self, to: Address, message_id: str, part: Outbound) -> None:
        """Change a message; without a question its buttons go."""
        changed = self._api.client.chat_update(
            channel=to.conversation,
            ts=message_id,
            text=escape(part.text),
            blocks=build_blocks(part),
        )
        await self._api.call(changed)

    async def tell(self, answer: Answer, text: str) -> None:
        """Post what only the person sees who pressed a button."""
        conversation, user, thread = (answer.reply_token or "::").split(":", 2)
        if not conversation or not user:
            raise Refused("the answer does not say who pressed the button")
        posted = self._api.client.chat_postEphemeral(
            channel=conversation, user=user, thread_ts=thread or None, text=escape(text)
        )
        await self._api.call(posted)

    async def show_typing(self, to: Address) -> None:
        """Show in a thread that an answer is being written; the answer ends it."""
        if to.thread is None:
            return
        shown = self._api.client.assistant_threads_setStatus(
            channel_id=to.conversation, thread_ts=to.thread, status="is typing…"
        )
        try:
            await self._api.call(shown)
        except ChannelError as error:
            _log.debug("channel %s: typing is not shown: %s", self.name, error)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the bytes of a file, or raise `Refused` if there are more than `limit`."""
        if (attachment.size or 0) > limit:
            raise Refused(f"the file is larger than {limit} bytes")
        url = attachment.reference.get("url") or await self._find_url(attachment)
        return await self._api.read_file(url, limit)

    async def close(self) -> None:
        """Stop receiving, and close connections."""
        self._is_open = False
        if self._socket is not None:
            await self._socket.close()
        await self._api.close()

    async def _take(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        found = [each for payload in payloads for each in self._reader.read(payload)]
        if found:
            await self.accept(found)

    async def _find_url(self, attachment: Attachment) -> str:
        """Return where a file is of which Slack sent the id alone, as in shared channels."""
        asked = self._api.client.files_info(file=attachment.reference["id"])
        file = (await self._api.call(asked)).get("file")
        url = file.get("url_private") if isinstance(file, dict) else None
        if not isinstance(url, str):
            raise Refused("Slack does not say where the file is")
        return url


def _reveal(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _read_body(request: WebRequest) -> Mapping[str, Any] | None:
    """Return the object in a body, JSON or a form; a form without one says nothing."""
    try:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
            fields = parse_qs(request.body.decode())
            data = json.loads(fields.get("payload", ["{}"])[0])
        else:
            data = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether a request was signed by Slack, and lately. It never raises."""
    sent = headers.get("x-slack-request-timestamp", "")
    if not _TIMESTAMP.fullmatch(sent) or abs(now - int(sent)) > TOLERANCE:
        return False
    signature = headers.get("x-slack-signature", "").encode(errors="replace")
    return hmac.compare_digest(signature, sign_body(secret, sent, body).encode())


def sign_body(secret: str, sent: str, body: bytes) -> str:
    """Return the signature of a body that was sent at a time, in seconds of Unix."""
    signed = b"v0:" + sent.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
