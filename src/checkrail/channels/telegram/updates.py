"""What the Bot API sends, as what channels receive; and the data that its buttons bring back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from checkrail.channels.protocol import Address, Answer, Attachment, Inbound, Question, Refused

Json = Mapping[str, Any]

LONGEST_DATA = 64
"""How many bytes a button brings back."""

SHORTEST_DIGEST = 15
VERDICTS: Mapping[str, Literal["approve", "deny"]] = {"a": "approve", "d": "deny"}
STOP_COMMAND = "/stop"

FILES = {
    "animation": ("mp4", "video/mp4"),
    "audio": ("mp3", "audio/mpeg"),
    "document": ("bin", "application/octet-stream"),
    "sticker": ("webp", "image/webp"),
    "video": ("mp4", "video/mp4"),
    "video_note": ("mp4", "video/mp4"),
    "voice": ("ogg", "audio/ogg"),
}
"""The fields of a message that hold a file: how it is named and typed where nothing says so."""


@dataclass(frozen=True, slots=True)
class UpdateReader:
    """Reads the updates of one bot."""

    channel: str
    bot: str
    """The bot's id."""

    def read_update(self, update: Json) -> Inbound | None:
        """Return what an update brings, or None if it is nothing of a person's."""
        match update:
            case {"message": {"from": {"is_bot": False}} as message}:
                return self._read_message(message)
            case {"edited_message": {"from": {"is_bot": False}} as message}:
                return self._read_edit(message, update["update_id"])
            case {"callback_query": {"from": {"is_bot": False}} as query}:
                return self._read_answer(query)
        return None

    def _read_message(self, message: Json) -> Inbound | None:
        text = read_text(message)
        attachments = tuple(find_attachments(message))
        if "sender_chat" in message or not (text or attachments):
            return None  # sent in a chat's name, or no words: somebody joined, a title changed
        return Inbound(
            kind="stop" if is_stop_command(text) else "message",
            external_id=message_key(message),
            address=self._read_address(message),
            sender=self._read_sender(message),
            text=text,
            order=f"{message['message_id']:020d}",
            group=message.get("media_group_id"),
            attachments=attachments,
            sent_at=float(message["date"]),
            metadata=read_metadata(message),
        )

    def _read_edit(self, message: Json, update_id: int) -> Inbound | None:
        text = read_text(message)
        if "sender_chat" in message or not text:
            return None
        key = message_key(message)
        return Inbound(
            kind="edit",
            external_id=f"edit:{update_id}:{key}",
            address=self._read_address(message),
            sender=self._read_sender(message),
            text=text,
            order=f"{message['message_id']:020d}",
            sent_at=float(message.get("edit_date", message["date"])),
            metadata={**read_metadata(message), "edited": key},
        )

    def _read_answer(self, query: Json) -> Inbound | None:
        message, found = query.get("message"), parse_button_data(query.get("data"))
        if message is None or found is None:
            return None
        verdict, approval_id, digest = found
        return Inbound(
            kind="answer",
            external_id=f"callback:{query['id']}",
            address=self._read_address(message),
            sender=self._read_sender(query),
            answer=Answer(
                approval_id=approval_id,
                verdict=verdict,
                digest=digest,
                message_id=str(message["message_id"]),
                reply_token=query["id"],
            ),
        )

    def _read_address(self, message: Json) -> Address:
        # Beside topics, what is a reply to another message has a thread id too, and takes none.
        thread = message.get("message_thread_id") if message.get("is_topic_message") else None
        return Address(
            channel=self.channel,
            account=self.bot,
            conversation=str(message["chat"]["id"]),
            thread=None if thread is None else str(thread),
        )

    def _read_sender(self, what: Json) -> str:
        return f"telegram:{self.bot}:{what['from']['id']}"


def message_key(message: Json) -> str:
    """Return what names a message among all that the bot receives."""
    return f"{message['chat']['id']}:{message['message_id']}"


def read_text(message: Json) -> str:
    """Return the words of a message, or those beside its picture or file."""
    text: str = message.get("text") or message.get("caption") or ""
    return text


def is_stop_command(text: str) -> bool:
    """Return whether a text is `/stop`, or `/stop@bot` as in groups."""
    word, _, _ = text.partition("@")
    return word.strip() == STOP_COMMAND


def read_metadata(message: Json) -> dict[str, Any]:
    """Return what a hook may like to know, and what people choose themselves."""
    who, chat = message["from"], message["chat"]
    found = {
        "chat_type": chat.get("type"),
        "username": who.get("username"),
        "first_name": who.get("first_name"),
        "language": who.get("language_code"),
    }
    return {name: value for name, value in found.items() if value is not None}


def find_attachments(message: Json) -> Iterator[Attachment]:
    """Yield the files of a message: of a photo, its largest size."""
    if photo := message.get("photo"):
        largest = max(photo, key=lambda size: size["width"] * size["height"])
        yield build_attachment("photo", largest, "jpg", "image/jpeg")
    for kind, (extension, content_type) in FILES.items():
        if kind == "document" and "animation" in message:
            continue  # the same file, for clients that know no animations
        if kind in message:
            yield build_attachment(kind, message[kind], extension, content_type)


def build_attachment(kind: str, file: Json, extension: str, content_type: str) -> Attachment:
    """Return a file of a message as channels know one."""
    return Attachment(
        name=file.get("file_name") or f"{kind}-{file['file_unique_id']}.{extension}",
        content_type=file.get("mime_type") or content_type,
        size=file.get("file_size"),
        reference={"file_id": file["file_id"]},
    )


def build_keyboard(question: Question) -> dict[str, Any]:
    """Return the buttons of a question, in one row."""
    row = [
        {"text": button.label, "callback_data": build_button_data(button.verdict, question)}
        for button in question.buttons
    ]
    return {"inline_keyboard": [row]}


def build_button_data(verdict: str, question: Question) -> str:
    """Return what a button brings back: its verdict, the question, and the digest's beginning."""
    beginning = f"cr:{verdict[0]}:{question.approval_id}:"
    room = LONGEST_DATA - len(beginning.encode())
    if question.approval_id.count(":") or room < SHORTEST_DIGEST:
        raise Refused(f"the approval id {question.approval_id!r} does not fit into a button")
    return beginning + question.digest[:room]


def parse_button_data(data: object) -> tuple[Literal["approve", "deny"], str, str] | None:
    """Return verdict, approval id and digest of a button of ours, or None of another's."""
    match data.split(":", 3) if isinstance(data, str) else []:
        case ["cr", ("a" | "d") as verdict, str(approval_id), str(digest)]:
            return VERDICTS[verdict], approval_id, digest
    return None
