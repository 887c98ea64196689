"""The channel of a Telegram bot: it polls, or Telegram calls its webhook."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

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
    Inbound,
    Outbound,
    Refused,
    Reply,
    RetryLater,
    Sent,
    WebRequest,
)
from checkrail.channels.telegram.errors import BotApiError
from checkrail.channels.telegram.updates import UpdateReader, build_keyboard
from checkrail.extras import needs

if TYPE_CHECKING:
    from checkrail.channels.telegram.bot_api import BotApi

log = logging.getLogger("checkrail.channels.telegram")

TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - a name, no secret
POLL_SECONDS = 50
LATE_SECONDS = 15.0
LONGEST_POPUP = 200
"""How many UTF-16 units fit into what a person is told who pressed a button."""

MOVED_CHATS = 10_000
UpdateKind = Literal["message", "edited_message", "callback_query"]
UPDATES: tuple[UpdateKind, ...] = ("message", "edited_message", "callback_query")


class TelegramOptions(ChannelOptions):
    """What a project's file says of a Telegram bot."""

    token: SecretStr
    """The bot's token, as BotFather gives it."""
    mode: Literal["polling", "webhook"] = "polling"
    """Whether one server polls for updates, or Telegram sends them to `/channels/{name}`."""
    secret_token: SecretStr | None = None
    """What Telegram sends with each request to the webhook: 1–256 of `A-Z a-z 0-9 _ -`."""
    webhook_url: str | None = Field(None, pattern=r"^https://[^/]")
    """The public URL of `/channels/{name}`: given to Telegram whenever the channel is opened."""
    allowed_updates: tuple[UpdateKind, ...] = Field(UPDATES, min_length=1)
    """What Telegram sends: new messages, changed ones, presses of buttons."""
    link_previews: bool = False
    """Whether Telegram fetches the first link of an answer, to show what is there."""
    api_url: str = Field("https://api.telegram.org", pattern=r"^https?://[^/]")
    """Where the Bot API is: another one for a Bot API server of your own."""

    @field_validator("token")
    @classmethod
    def check_token(cls, token: SecretStr) -> SecretStr:
        """Refuse what is no token; the error does not repeat it."""
        if not TOKEN.fullmatch(token.get_secret_value()):
            raise ValueError("a bot's token: a number, a colon and letters, as 123456:ABC-DEF")
        return token

    @field_validator("secret_token")
    @classmethod
    def check_secret_token(cls, secret: SecretStr | None) -> SecretStr | None:
        """Refuse what Telegram would not take."""
        if secret is not None and not re.fullmatch(
            r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()
        ):
            raise ValueError("1 to 256 of A-Z, a-z, 0-9, _ and -")
        return secret

    @model_validator(mode="after")
    def check_mode(self) -> Self:
        """Require what the mode needs, and refuse what belongs to the other one."""
        if self.mode == "webhook" and self.secret_token is None:
            raise ValueError(
                "a secret_token beside mode: webhook, because requests are known by nothing else"
            )
        if self.mode == "polling" and (self.secret_token is not None or self.webhook_url):
            raise ValueError("mode: webhook beside secret_token and webhook_url")
        return self


class TelegramChannel(Channel):
    """A Telegram bot. With `mode: polling` one process alone may receive."""

    Options = TelegramOptions
    options: TelegramOptions
    capabilities = Capabilities(
        threads=True,
        edits=True,
        buttons=True,
        typing=True,
        attachments=True,
        max_text=4096,
        measure="utf16",
        per_second=1.0,
    )
    first_pause, longest_pause = 1.0, 30.0
    """Seconds to wait after a failure, and after many."""

    def __init__(self, name: str, options: TelegramOptions) -> None:
        with needs("httpx2", "a Telegram channel", "telegram"):
            import httpx2  # noqa: F401 - what is missing is told before anything is received
        super().__init__(name, options)
        self.singleton = options.mode == "polling"
        self.bot = options.token.get_secret_value().partition(":")[0]
        self._reader = UpdateReader(name, self.bot)
        self._moved: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._api: BotApi | None = None

    @property
    def api(self) -> BotApi:
        """The calls of the bot: also where nobody opened the channel, who may send all the same."""
        if self._api is None:
            from checkrail.channels.telegram.bot_api import BotApi

            self._api = BotApi(self.options.token, self.options.api_url)
        return self._api

    async def open(self, accept: Accept) -> None:
        """Begin to poll, or register the webhook."""
        await super().open(accept)
        if self.options.mode == "polling":
            self._start(self._keep_polling())
        elif self.options.webhook_url:
            self._start(self._register_webhook(self.options.webhook_url))

    async def close(self) -> None:
        """Stop polling, and close connections."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    async def answer(self, request: WebRequest) -> Reply:
        """Take one update, if Telegram's secret is with it."""
        if self.options.secret_token is None:
            return NOT_HERE
        if not self._is_from_telegram(request):
            return Reply(401, b"the secret token is wrong")
        if request.method != "POST":
            return Reply(405, b"updates are sent with POST", {"allow": "POST"})
        try:
            update = json.loads(request.body)
        except (ValueError, RecursionError):
            return Reply(400, b"an update is JSON")
        await self._take([update])
        return Reply()

    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:  # noqa: ARG002
        """Send a message; Telegram knows no key by which it could tell a repeat."""
        parameters = self._write_message(part)
        if to.thread is not None:
            parameters["message_thread_id"] = int(to.thread)
        answered = (part.reply_to or "").rpartition(":")[2]
        if answered.isdecimal():
            reply = {"message_id": int(answered), "allow_sending_without_reply": True}
            parameters["reply_parameters"] = reply
        sent = await self._call_in_chat("sendMessage", to, parameters)
        return Sent(str(sent["message_id"]))

    async def edit(self, to: Address, message_id: str, part: Outbound) -> None:
        """Change a message's text and buttons; without a question, its buttons go."""
        parameters = {"message_id": int(message_id), **self._write_message(part)}
        parameters.setdefault("reply_markup", {"inline_keyboard": []})
        try:
            await self._call_in_chat("editMessageText", to, parameters)
        except BotApiError as error:
            if "message is not modified" not in error.description:
                raise

    async def tell(self, answer: Answer, text: str) -> None:
        """Show a text to the person who pressed a button; none if they pressed it long ago."""
        if answer.reply_token is not None:
            await self._answer_button(answer.reply_token, text)

    async def show_typing(self, to: Address) -> None:
        """Show for five seconds that the bot is typing, if Telegram takes that now."""
        parameters: dict[str, Any] = {"action": "typing"}
        if to.thread is not None:
            parameters["message_thread_id"] = int(to.thread)
        with suppress(ChannelError):
            await self._call_in_chat("sendChatAction", to, parameters)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the bytes of a file, of which Telegram gives bots 20 MB at most."""
        too_large = f"{attachment.name!r} has more than {limit} bytes"
        if (attachment.size or 0) > limit:
            raise Refused(too_large)
        found = await self.api.call("getFile", {"file_id": attachment.reference["file_id"]})
        if found.get("file_size", 0) > limit:
            raise Refused(too_large)
        if "file_path" not in found:
            raise Refused(f"Telegram does not say where {attachment.name!r} is")
        return await self.api.download(found["file_path"], limit)

    def _write_message(self, part: Outbound) -> dict[str, Any]:
        """Return the text as it is, without entities, and the buttons if there is a question."""
        parameters: dict[str, Any] = {"text": part.text}
        if not self.options.link_previews:
            parameters["link_preview_options"] = {"is_disabled": True}
        if part.question is not None:
            parameters["reply_markup"] = build_keyboard(part.question)
        return parameters

    async def _call_in_chat(self, method: str, to: Address, parameters: Mapping[str, Any]) -> Any:
        """Call a method for a chat, under its new id if it became a supergroup."""
        chat = self._moved.get(to.conversation, to.conversation)
        try:
            return await self.api.call(method, {"chat_id": int(chat), **parameters})
        except BotApiError as error:
            if error.moved_to is None:
                raise
            moved_to = error.moved_to
        self._remember_move(to.conversation, moved_to)
        return await self.api.call(method, {"chat_id": moved_to, **parameters})

    def _remember_move(self, old: str, new: int) -> None:
        if len(self._moved) >= MOVED_CHATS:
            del self._moved[next(iter(self._moved))]
        self._moved[old] = str(new)

    def _is_from_telegram(self, request: WebRequest) -> bool:
        came = request.headers.get(SECRET_HEADER, "").encode("utf-8", "replace")
        secret = self.options.secret_token
        expected = secret.get_secret_value().encode() if secret else b""
        return bool(expected) and hmac.compare_digest(came, expected)

    async def _take(self, updates: list[Any]) -> None:
        """Hand on what people sent, and return when it is stored."""
        found = [inbound for update in updates if (inbound := self._read_update(update))]
        if found:
            await self.accept(found)

    def _read_update(self, update: Any) -> Inbound | None:
        """Read an update; what nobody can read is left out, or it would come again for ever."""
        try:
            inbound = self._reader.read_update(update)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            log.warning(
                "channel %s: an update is not readable (%s)", self.name, type(error).__name__
            )
            return None
        if inbound is None:
            self._answer_unknown_button(update)
        return inbound

    def _answer_unknown_button(self, update: Any) -> None:
        """End the wait of who pressed a button that means nothing to us."""
        query = update.get("callback_query") if isinstance(update, dict) else None
        if isinstance(query, dict) and "id" in query:
            self._start(self._answer_button(query["id"], ""))

    async def _answer_button(self, query_id: str, text: str) -> None:
        fitting = text.encode("utf-16-le")[: 2 * LONGEST_POPUP].decode("utf-16-le", "ignore")
        shown = {"text": fitting, "show_alert": True} if text else {}
        try:
            await self.api.call("answerCallbackQuery", {"callback_query_id": query_id, **shown})
        except ChannelError as error:  # a query that is minutes old takes no answer
            log.info("channel %s: nobody saw the answer to a button: %s", self.name, error)

    async def _keep_polling(self) -> None:
        """Poll until the channel is closed: what came is stored before more is requested."""
        offset: int | None = None

        async def poll() -> None:
            nonlocal offset
            updates = await self._get_updates(offset)
            await self._take(updates)
            # What is confirmed needs no offset any more; a number kept for a week would hide
            # updates, because Telegram then numbers them anew.
            offset = max(update["update_id"] for update in updates) + 1 if updates else None

        while True:
            await self._try_until_done(poll, "polls")

    async def _get_updates(self, offset: int | None) -> list[Any]:
        parameters: dict[str, Any] = {
            "timeout": POLL_SECONDS,
            "allowed_updates": self.options.allowed_updates,
        }
        if offset is not None:
            parameters["offset"] = offset
        seconds = POLL_SECONDS + LATE_SECONDS
        updates: list[Any] = await self.api.call("getUpdates", parameters, seconds)
        return updates

    async def _register_webhook(self, url: str) -> None:
        secret = self.options.secret_token
        parameters = {
            "url": url,
            "secret_token": secret.get_secret_value() if secret else "",
            "allowed_updates": self.options.allowed_updates,
        }

        async def register() -> None:
            await self.api.call("setWebhook", parameters)

        await self._try_until_done(register, "registers its webhook")

    async def _try_until_done(self, attempt: Callable[[], Awaitable[None]], what: str) -> None:
        """Try until it succeeds, with longer and longer pauses; what fails is logged once."""
        pause, seen = self.first_pause, ""
        while True:
            try:
                return await attempt()
            except Exception as error:  # noqa: BLE001 - whatever failed, messages wait at Telegram
                why = self._describe_failure(error)
                wait = (isinstance(error, RetryLater) and error.after) or pause
            if why != seen:
                log.warning("channel %s does not get on as it %s: %s", self.name, what, why)
                seen = why
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 - not for secrets
            pause = min(pause * 2, self.longest_pause)

    def _describe_failure(self, error: Exception) -> str:
        if isinstance(error, ChannelError):
            return str(error)
        return f"messages could not be stored ({type(error).__name__})"

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"channel {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
