"""The channel for services of one's own: signed requests in, signed requests out."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from checkrail.actions.errors import ActionError, OutboundRefused, OutboundUnreachable
from checkrail.actions.outbound import Outbound as GuardedClient
from checkrail.actions.outbound import OutboundAnswer
from checkrail.actions.signatures import SignatureRefused, parse_secret, verify_signature
from checkrail.channels.protocol import (
    Accept,
    Address,
    Attachment,
    Capabilities,
    Channel,
    ChannelOptions,
    IdReused,
    Inbound,
    Outbound,
    Refused,
    Reply,
    RetryLater,
    Sent,
    Unknown,
    WebRequest,
)

SHORTEST_SECRET = 24
"""How many bytes a secret has at least, as Standard Webhooks says."""

MOST_SECRETS = 10
LONGEST_WAIT = 3600.0
"""The longest time in seconds that a service may ask us to wait."""

WITHOUT_NUL = r"^[^\x00]*$"
Id = Annotated[str, Field(min_length=1, max_length=255, pattern=WITHOUT_NUL)]


class WebhookOptions(ChannelOptions):
    """What a project's file says of a service that sends signed requests."""

    secrets: tuple[SecretStr, ...] = Field(min_length=1, max_length=MOST_SECRETS)
    """What the service may sign with: each of them holds, so that one can take another's place."""
    reply_url: str | None = None
    """Where answers are sent; without it there are none."""
    reply_secret: SecretStr | None = None
    """What answers are signed with: the first of `secrets` unless said."""

    @field_validator("secrets")
    @classmethod
    def check_secrets(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        """Refuse secrets that are none, or that can be guessed; the error does not repeat them."""
        for secret in secrets:
            check_secret(secret)
        return secrets

    @field_validator("reply_secret")
    @classmethod
    def check_reply_secret(cls, secret: SecretStr | None) -> SecretStr | None:
        """Refuse a secret that is none, or that can be guessed."""
        return None if secret is None else check_secret(secret)


class WebhookAttachment(BaseModel):
    """A file of a message, which is fetched from where it is."""

    model_config = ConfigDict(frozen=True, strict=True)

    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=WITHOUT_NUL)]
    name: Id = "file"
    content_type: Id = "application/octet-stream"
    size: Annotated[int, Field(ge=0)] | None = None


class WebhookMessage(BaseModel):
    """The body of a request. Other fields are left alone: nothing in it says where answers go."""

    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    user_id: Id
    content: Annotated[str, Field(pattern=WITHOUT_NUL)]
    message_id: Id | None = None
    conversation: Id | None = None
    thread: Id | None = None
    attachments: Annotated[list[WebhookAttachment], Field(max_length=100)] = []
    metadata: dict[str, Any] = {}


class WebhookChannel(Channel):
    """A service of one's own, which speaks for its users.

    Where nobody gives it a client, it makes one that goes to public places only.
    """

    Options = WebhookOptions
    options: WebhookOptions
    capabilities = Capabilities(threads=True, attachments=True, max_text=100_000, per_second=None)

    def __init__(self, name: str, options: WebhookOptions) -> None:
        super().__init__(name, options)
        self._own: GuardedClient | None = None

    async def open(self, accept: Accept) -> None:
        """Begin to receive; a `reply_url` that no request may go to is refused."""
        await super().open(accept)
        if self.options.reply_url is not None:
            self._find_client().check(self.options.reply_url)

    async def answer(self, request: WebRequest) -> Reply:
        """Take one message, if one of the secrets signed it."""
        if request.method != "POST":
            return Reply(405, b"messages are sent with POST", {"allow": "POST"})
        secrets = [secret.get_secret_value() for secret in self.options.secrets]
        try:
            message_id = verify_signature(secrets, request.headers, request.body, time.time())
        except SignatureRefused as refused:
            return Reply(401, refused.problem.encode())
        try:
            message = WebhookMessage.model_validate_json(request.body)
        except ValidationError as error:
            return Reply(400, describe_problems(error).encode())
        try:
            await self.accept([self._read_message(message_id, message, request.body)])
        except IdReused:
            return Reply(409, b"another message came with this webhook-id")
        return Reply()

    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:
        """Send an answer to the service, signed; its id is the same each time it is sent."""
        if self.options.reply_url is None:
            raise Refused(f"channel {self.name!r} has no reply_url: set it, or send no answers")
        secret = self.options.reply_secret or self.options.secrets[0]
        answer = await self._request(
            "POST",
            self.options.reply_url,
            headers={"content-type": "application/json"},
            content=json.dumps(write_reply(to, part)).encode(),
            sign_with=secret.get_secret_value(),
            message_id=delivery_id,
        )
        check_answer(answer)
        return Sent(delivery_id)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the bytes of a file, from a place where requests may go."""
        too_large = f"{attachment.name!r} has more bytes than are taken"
        if (attachment.size or 0) > limit:
            raise Refused(too_large)
        answer = await self._request("GET", attachment.reference["url"])
        check_answer(answer)
        if answer.cut or len(answer.content) > limit:
            raise Refused(too_large)
        return answer.content

    async def close(self) -> None:
        """Close the connections of a client that the channel made itself."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    def _read_message(self, message_id: str, message: WebhookMessage, body: bytes) -> Inbound:
        metadata = dict(message.metadata)
        if message.message_id is not None:
            metadata["message_id"] = message.message_id
        return Inbound(
            kind="message",
            external_id=message_id,
            address=Address(
                channel=self.name,
                account=self.name,
                conversation=message.conversation or message.user_id,
                thread=message.thread,
            ),
            sender=f"webhook:{self.name}:{message.user_id}",
            text=message.content,
            attachments=tuple(
                Attachment(file.name, file.content_type, file.size, {"url": file.url})
                for file in message.attachments
            ),
            metadata=metadata,
            digest=hashlib.sha256(body).hexdigest(),
        )

    async def _request(self, method: str, url: str, **options: Any) -> OutboundAnswer:
        try:
            return await self._find_client().send(method, url, **options)
        except OutboundRefused as refused:
            raise Refused(str(refused)) from None
        except OutboundUnreachable as error:
            raise Unknown(str(error)) from None

    def _find_client(self) -> GuardedClient:
        if self.outbound is not None:
            return self.outbound
        if self._own is None:
            self._own = GuardedClient()
        return self._own


def check_secret(secret: SecretStr) -> SecretStr:
    """Return a secret, or raise `ValueError` if it is none, or can be guessed."""
    try:
        found = parse_secret(secret.get_secret_value())
    except ActionError:
        raise ValueError("a signing secret: base64 after whsec_, or another text") from None
    if len(found) < SHORTEST_SECRET:
        raise ValueError(f"signing secrets of at least {SHORTEST_SECRET} bytes")
    return secret


def describe_problems(error: ValidationError) -> str:
    """Return what is wrong with a body, field by field, without its values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'the body'}: {problem['msg']}"
        for problem in problems[:10]
    )


def write_reply(to: Address, part: Outbound) -> dict[str, Any]:
    """Return an answer as it is sent."""
    reply: dict[str, Any] = {
        "conversation": to.conversation,
        "thread": to.thread,
        "reply_to": part.reply_to,
        "content": part.text,
    }
    if part.question is not None:
        asked = {"approval_id": part.question.approval_id, "digest": part.question.digest}
        reply["question"] = asked
    return reply


def check_answer(answer: OutboundAnswer) -> None:
    """Raise a `ChannelError` unless the status says that it went well."""
    if 200 <= answer.status < 300:
        return
    why = f"the service answered with {answer.status}"
    if answer.status == 429 or answer.status >= 500:
        raise RetryLater(why, parse_retry_after(answer.headers))
    raise Refused(why)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a service asks us to wait: it says them, or a date."""
    said = headers.get("retry-after", "").strip()
    try:
        seconds = float(said) if said.isdecimal() else _seconds_until(said)
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _seconds_until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()
