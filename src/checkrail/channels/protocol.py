"""What a channel is: something that receives messages of people, and sends them answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound as GuardedClient


@dataclass(frozen=True, slots=True)
class Address:
    """Where an answer goes: enough to send one a week later, from any server."""

    channel: str
    """The name that the project gave the channel."""
    account: str
    """Whose account received it: a Slack team, a Telegram bot."""
    conversation: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; its bytes are fetched after `before_inbound`."""

    name: str
    content_type: str
    size: int | None
    reference: Mapping[str, Any]
    """What the channel needs to fetch it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said to a question of a hook, by a button or a command."""

    approval_id: str
    verdict: Literal["approve", "deny"]
    digest: str
    """Of the value that the person saw, or its beginning, as the channel kept it."""
    message_id: str | None = None
    """The channel's message with the question, to take its buttons away."""
    reply_token: str | None = None
    """What the channel needs to tell the person at once, such as a callback query's id."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """Something that came in."""

    kind: Literal["message", "edit", "delete", "answer", "stop"]
    external_id: str
    """Unique within the channel and the account; the same id twice is the same message."""
    address: Address
    sender: str
    """Who sent it, by ids that cannot be chosen: `slack:T1:U1`, `telegram:<bot>:42`."""
    text: str = ""
    order: str | None = None
    """What sorts the messages of a conversation: a timestamp, a padded number."""
    group: str | None = None
    """What messages have in common that belong together, such as the pictures of an album."""
    attachments: tuple[Attachment, ...] = ()
    answer: Answer | None = None
    target: str | None = None
    """Of an edit or a deletion: the `external_id` of the message that was changed."""
    sent_at: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    """Of all that came, where a sender chooses ids: the same id with another one is `IdReused`."""


@dataclass(frozen=True, slots=True)
class Button:
    """A choice beside a message."""

    label: str
    verdict: Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Question:
    """A hook's question beside a message, which people answer with buttons."""

    approval_id: str
    digest: str
    buttons: tuple[Button, ...] = (Button("Approve", "approve"), Button("Deny", "deny"))


@dataclass(frozen=True, slots=True)
class Outbound:
    """Something to send. A long text comes in parts that the channel's capabilities allow."""

    text: str
    question: Question | None = None
    reply_to: str | None = None
    """The channel's id of the message that this answers."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a channel knows of a message that it sent."""

    message_id: str


@dataclass(frozen=True, slots=True)
class WebRequest:
    """An HTTP request that came to `/channels/{name}`, as it came."""

    method: str
    headers: Mapping[str, str]
    """Their names in lower case."""
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What a channel answers to an HTTP request that came to it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a channel can do, and how much fits in one message."""

    threads: bool = False
    edits: bool = False
    buttons: bool = False
    typing: bool = False
    typing_seconds: float = 4.0
    """For how long the other side shows typing; it is shown again then."""
    attachments: bool = False
    max_text: int = 4000
    measure: Literal["chars", "utf16", "bytes"] = "chars"
    per_second: float | None = 1.0
    """How many messages a second one conversation takes."""


class ChannelError(Exception):
    """A message was not sent."""


class RetryLater(ChannelError):
    """The other side asks to wait: the message is sent again `after` seconds."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Refused(ChannelError):
    """The other side will never take this message."""


class Unknown(ChannelError):
    """Nobody knows whether the message arrived; it is sent again."""


class IdReused(Exception):
    """A message came before with the same id and another digest: this one was not taken."""


Accept = Callable[[Sequence[Inbound]], Awaitable[None]]
"""What takes in messages: it returns when they are stored, and only then they are acknowledged."""


class ChannelOptions(BaseModel):
    """What a project's file may say of a channel; each channel has its own subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


NOT_HERE = Reply(404, b"this channel takes no requests")


class Channel(ABC):
    """A way in which people reach agents. `send` and one of `open` and `answer` suffice."""

    Options: ClassVar[type[ChannelOptions]] = ChannelOptions
    """What its entry in the project's file is checked by, and given as."""
    capabilities = Capabilities()
    singleton = False
    """Whether one process alone may receive, as with polling."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        """What the project calls it."""
        self.options = options
        self.outbound: GuardedClient | None = None
        """The server's client for requests to places that others name; set before `open`."""

    async def open(self, accept: Accept) -> None:
        """Begin to receive, in tasks of its own; called once, before anything else."""
        self.accept = accept

    async def answer(self, request: WebRequest) -> Reply:  # noqa: ARG002
        """Answer an HTTP request: its signature is checked first, and only then it is parsed."""
        return NOT_HERE

    @abstractmethod
    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:
        """Send one message, or raise a `ChannelError`."""

    async def edit(self, to: Address, message_id: str, part: Outbound) -> None:  # noqa: B027 - optional
        """Change a message that was sent: a question that was answered loses its buttons."""

    async def tell(self, answer: Answer, text: str) -> None:  # noqa: B027 - optional
        """Tell the person who pressed a button, and nobody else, what came of it."""

    async def show_typing(self, to: Address) -> None:  # noqa: B027 - optional
        """Show that an answer is being written."""

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:  # noqa: ARG002
        """Return the bytes of a file, or raise `Refused` if there are more than `limit`."""
        raise Refused(f"channel {self.name!r} has no files: {attachment.name!r} cannot be fetched")

    async def close(self) -> None:  # noqa: B027 - optional
        """Stop receiving, and close connections."""
