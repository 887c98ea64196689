"""A Telegram bot against a Bot API on loopback: what comes in, what goes out, what fails."""

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
import traceback

import pytest
from aiohttp import web
from pydantic import ValidationError
from tests.channels.servers.bot_api import (
    BOT,
    TOKEN,
    BotServer,
    fail_as_proxy,
    hang_up,
    too_many_requests,
)

from checkrail.channels.protocol import (
    Address,
    Answer,
    Attachment,
    ChannelError,
    Outbound,
    Question,
    Refused,
    RetryLater,
    Sent,
    Unknown,
    WebRequest,
)
from checkrail.channels.telegram import TelegramChannel, TelegramOptions

CHAT = Address("phone", str(BOT), "42")
APPROVAL = "0199a1b2-c3d4-7e5f-8a6b-c7d8e9f0a1b2"
DIGEST = "sha256:" + "0123456789abcdef" * 4
SECRET = "from-Telegram_1"


class QuickChannel(TelegramChannel):
    first_pause, longest_pause = 0.02, 0.1


class Inbox:
    """What a runtime would store: each message once."""

    def __init__(self):
        self.seen = {}
        self.failures = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Condition()
        self.begun = 0

    async def accept(self, messages):
        async with self._changed:
            self.begun += 1
            self._changed.notify_all()
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")
        async with self._changed:
            for message in messages:
                self.seen.setdefault(message.external_id, message)
            self._changed.notify_all()

    @property
    def messages(self):
        return list(self.seen.values())

    @property
    def texts(self):
        return [message.text for message in self.messages]

    async def until(self, condition):
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(condition)

    async def first(self, count=1):
        await self.until(lambda: len(self.seen) >= count)
        return self.messages[count - 1]


@pytest.fixture
async def server():
    async with BotServer() as running:
        yield running


@pytest.fixture
def inbox():
    return Inbox()


@pytest.fixture
async def make(server):
    """Makes channels, and closes them before the server."""
    made = []

    def make_channel(**options):
        given = {"token": TOKEN, "api_url": server.url, **options}
        made.append(QuickChannel("phone", TelegramOptions(**given)))
        return made[-1]

    yield make_channel
    for channel in made:
        await channel.close()


@pytest.fixture
async def polling(make, inbox):
    channel = make()
    await channel.open(inbox.accept)
    return channel


@pytest.fixture
def channel(make):
    """A channel that nobody opened: it sends all the same."""
    return make()


@pytest.fixture
async def hooked(make, inbox):
    channel = make(mode="webhook", secret_token=SECRET)
    await channel.open(inbox.accept)
    return channel


def show_locals(error):
    """Format an error as a terminal's log does, with the values in all frames but the test's."""
    inner = error.__traceback__.tb_next
    whole = traceback.TracebackException(type(error), error, inner, capture_locals=True)
    return [*whole.format()]


def request(update, secret=SECRET, method="POST"):
    headers = {} if secret is None else {"x-telegram-bot-api-secret-token": secret}
    body = update if isinstance(update, bytes) else json.dumps(update).encode()
    return WebRequest(method, headers, {}, body)


class TestMessages:
    async def test_a_message_says_who_sent_it_and_where_the_answer_goes(
        self, server, polling, inbox
    ):
        update = await server.say("hello")
        message = await inbox.first()
        number = update["message"]["message_id"]
        assert message.kind == "message"
        assert message.external_id == f"42:{number}"
        assert message.address == CHAT
        assert message.sender == f"telegram:{BOT}:42"
        assert message.text == "hello"
        assert message.sent_at == 1_800_000_000
        assert message.order == f"{number:020d}"
        assert message.metadata == {
            "chat_type": "private",
            "username": "ann",
            "first_name": "Ann",
        }

    async def test_messages_sort_by_their_order(self, server, polling, inbox):
        for number in (9, 10, 100):
            await server.say("hello", message_id=number)
        await inbox.first(3)
        orders = [message.order for message in inbox.messages]
        assert orders == sorted(orders)
        assert len(set(orders)) == 3

    async def test_a_topic_is_a_thread_and_a_chain_of_replies_is_none(self, server, polling, inbox):
        await server.say("topic", chat=-100, message_thread_id=7, is_topic_message=True)
        await server.say("reply", chat=-100, message_thread_id=8)
        await inbox.first(2)
        assert [m.address.thread for m in inbox.messages] == ["7", None]
        assert {m.address.conversation for m in inbox.messages} == {"-100"}

    async def test_pictures_of_an_album_have_a_group(self, server, polling, inbox):
        for file_id, text in (("one", "two pictures"), ("two", None)):
            sizes = [
                {"file_id": f"{file_id}-{w}", "file_unique_id": f"u{w}", "width": w, "height": w}
                for w in (800, 90)
            ]
            words = {"caption": text} if text else {}
            await server.add(message=server.write(photo=sizes, media_group_id="g1", **words))
        await inbox.first(2)
        assert [m.group for m in inbox.messages] == ["g1", "g1"]
        assert inbox.texts == ["two pictures", ""]
        assert [m.attachments[0].reference["file_id"] for m in inbox.messages] == [
            "one-800",
            "two-800",
        ]
        assert inbox.messages[0].attachments[0].content_type == "image/jpeg"

    async def test_a_file_has_its_name_type_and_size(self, server, polling, inbox):
        file = {"file_id": "f", "file_unique_id": "u", "file_size": 5, "file_name": "bill.pdf"}
        written = server.write(document={**file, "mime_type": "application/pdf"})
        await server.add(message=written)
        message = await inbox.first()
        assert message.attachments == (
            Attachment("bill.pdf", "application/pdf", 5, {"file_id": "f"}),
        )

    async def test_an_animation_is_one_file(self, server, polling, inbox):
        file = {"file_id": "f", "file_unique_id": "u"}
        await server.add(message=server.write(animation=file, document=file))
        message = await inbox.first()
        assert [a.name for a in message.attachments] == ["animation-u.mp4"]

    async def test_an_edit_names_what_it_edits(self, server, polling, inbox):
        update = await server.say("helo")
        edited = {**update["message"], "text": "hello", "edit_date": 1_800_000_009}
        await server.add(edited_message=edited)
        await server.add(edited_message={**edited, "text": "hello!"})
        await inbox.first(3)
        _, first, second = inbox.messages
        assert (first.kind, first.text, first.sent_at) == ("edit", "hello", 1_800_000_009)
        assert first.metadata["edited"] == inbox.messages[0].external_id
        assert first.external_id != second.external_id

    @pytest.mark.parametrize("text", ["/stop", "/stop@test_bot", "/stop "])
    async def test_a_stop_command_stops(self, server, polling, inbox, text):
        await server.say(text)
        assert (await inbox.first()).kind == "stop"

    async def test_a_message_that_begins_with_stop_is_a_message(self, server, polling, inbox):
        await server.say("/stopwatch please")
        assert (await inbox.first()).kind == "message"

    async def test_what_no_person_says_is_left_out_and_confirmed(self, server, polling, inbox):
        bot = {"id": 7, "is_bot": True, "first_name": "Other"}
        await server.say("I am a bot", **{"from": bot})
        await server.say("a post", sender_chat={"id": -5, "type": "channel"})
        await server.add(message=server.write(new_chat_members=[bot]))
        await server.add(message={k: v for k, v in server.write(text="x").items() if k != "from"})
        await server.add(callback_query={"id": "q", "from": bot, "data": f"cr:a:{APPROVAL}:d"})
        await server.add(message={"from": {"is_bot": False}, "text": "no chat"})
        await server.add(edited_message=server.write(text="a post", sender_chat={"id": -5}))
        await server.add(edited_message=server.write(location={}))
        await server.say("a person")
        await inbox.first()
        await server.until(lambda: len(server.confirmed) == 9)
        assert inbox.texts == ["a person"]


class TestPolling:
    async def test_nothing_is_confirmed_before_it_is_stored(self, server, polling, inbox):
        inbox.gate.clear()
        update = await server.say("hello")
        await inbox.until(lambda: inbox.begun)
        polls = len(server.called("getUpdates"))
        assert server.queue == [update]
        assert server.confirmed == []
        assert inbox.messages == []
        inbox.gate.set()
        await server.until(lambda: server.confirmed == [update])
        assert inbox.texts == ["hello"]
        assert len(server.called("getUpdates")) == polls + 1

    async def test_what_could_not_be_stored_comes_again(self, server, polling, inbox, caplog):
        inbox.failures = 3
        await server.say("hello")
        await inbox.first()
        await server.until(lambda: len(server.confirmed) == 1)
        assert inbox.begun == 4
        told = [r for r in caplog.records if "could not be stored (ConnectionError)" in r.message]
        assert len(told) == 1

    async def test_what_was_not_confirmed_comes_again_after_a_restart(
        self, server, make, inbox, polling
    ):
        inbox.gate.clear()
        await server.say("hello")
        await inbox.until(lambda: inbox.begun)
        await polling.close()
        inbox.gate.set()
        assert inbox.messages == []
        await make().open(inbox.accept)
        assert (await inbox.first()).text == "hello"

    async def test_a_channel_opens_again_after_it_was_closed(self, server, polling, inbox):
        await polling.close()
        await polling.open(inbox.accept)
        await server.say("hello")
        assert (await inbox.first()).text == "hello"

    async def test_updates_that_are_numbered_anew_arrive(self, server, polling, inbox):
        async def end_the_silence(request):
            server.next_update -= 5
            server.queue.append({"update_id": 996, "message": server.write(text="after it")})
            return web.json_response({"ok": True, "result": []})  # it came a moment too late

        server.longest_wait = 0.05
        await server.say("before the silence")
        await server.until(lambda: server.confirmed)
        polls = len(server.called("getUpdates"))
        await server.until(lambda: len(server.called("getUpdates")) > polls + 2)
        server.faults["getUpdates"] = [end_the_silence]
        await inbox.first(2)
        assert inbox.texts == ["before the silence", "after it"]

    async def test_more_than_a_hundred_updates_all_arrive_in_order(self, server, make, inbox):
        for number in range(250):
            await server.say(str(number))
        await make().open(inbox.accept)
        await inbox.first(250)
        assert inbox.texts == [str(number) for number in range(250)]

    async def test_only_what_is_of_use_is_requested(self, server, polling):
        await server.until(lambda: server.called("getUpdates"))
        assert server.called("getUpdates")[0] == {
            "timeout": 50,
            "allowed_updates": ["message", "edited_message", "callback_query"],
        }

    async def test_a_poller_that_another_one_ended_waits_and_goes_on(
        self, server, polling, inbox, make, caplog
    ):
        await server.until(lambda: server.called("getUpdates"))
        other = make()
        await other.open(inbox.accept)  # for a while both poll, and end each other's polls
        await server.until(lambda: len(server.called("getUpdates")) > 6)
        await other.close()
        await server.say("hello")
        assert (await inbox.first()).text == "hello"
        assert "terminated by other getUpdates request" in caplog.text

    async def test_a_webhook_of_another_place_is_left_alone(self, server, make, inbox, caplog):
        server.webhook = {"url": "https://elsewhere.example"}
        await make().open(inbox.accept)
        await server.say("hello")
        await server.until(lambda: len(server.called("getUpdates")) > 2)
        assert server.webhook is not None
        assert caplog.text.count("webhook is active") == 1
        server.webhook = None
        assert (await inbox.first()).text == "hello"

    async def test_polling_outlasts_faults(self, server, polling, inbox):
        await server.until(lambda: server.called("getUpdates"))
        server.faults["getUpdates"] = [hang_up, fail_as_proxy, {"ok": True, "result": []}]
        await server.say("hello")
        assert (await inbox.first()).text == "hello"

    def test_one_process_alone_may_poll(self, make):
        assert make().singleton
        assert not make(mode="webhook", secret_token=SECRET).singleton

    async def test_a_polling_channel_takes_no_requests(self, polling, inbox):
        assert (await polling.answer(request({}))).status == 404


class TestWebhook:
    async def test_an_update_is_accepted_with_the_secret(self, server, hooked, inbox):
        update = await server.say("hello")
        assert (await hooked.answer(request(update))).status == 200
        assert (await hooked.answer(request(update))).status == 200
        assert inbox.texts == ["hello"]
        assert server.called("getUpdates") == []

    @pytest.mark.parametrize(
        "secret", [None, "", "wrong", SECRET[:-1], SECRET + "x", "\xe9\udcff", SECRET.upper()]
    )
    async def test_without_the_secret_nothing_is_parsed(self, hooked, inbox, secret):
        for body in (b"not json", b"\xff", b"{}"):
            assert (await hooked.answer(request(body, secret))).status == 401
        assert inbox.begun == 0

    async def test_what_is_no_update_is_no_failure_of_ours(self, hooked, inbox):
        assert (await hooked.answer(request(b"not json"))).status == 400
        assert (await hooked.answer(request(b"\xff"))).status == 400
        assert (await hooked.answer(request(b"[" * 100_000))).status == 400
        for odd in ([], 1, None, {"message": 1}, {"message": {"from": {"is_bot": False}}}):
            assert (await hooked.answer(request(odd))).status == 200
        assert (await hooked.answer(request({}, method="GET"))).status == 405
        assert inbox.begun == 0

    async def test_what_could_not_be_stored_is_not_acknowledged(self, server, hooked, inbox):
        inbox.failures = 1
        update = await server.say("hello")
        with pytest.raises(ConnectionError):
            await hooked.answer(request(update))
        assert (await hooked.answer(request(update))).status == 200
        assert inbox.texts == ["hello"]

    async def test_the_webhook_is_registered(self, server, make, inbox):
        server.faults["setWebhook"] = [fail_as_proxy, hang_up]
        url = "https://bots.example/channels/phone"
        channel = make(mode="webhook", secret_token=SECRET, webhook_url=url)
        await channel.open(inbox.accept)
        await server.until(lambda: server.webhook)
        allowed = ["message", "edited_message", "callback_query"]
        assert server.webhook == {"url": url, "secret_token": SECRET, "allowed": allowed}


class TestSending:
    async def test_a_message_is_sent_as_it_is(self, server, channel):
        text = "*no* <b>markup</b> _here_ & \U0001f600"
        sent = await channel.send(CHAT, Outbound(text), delivery_id="d1")
        assert isinstance(sent, Sent)
        assert server.messages[int(sent.message_id)]["text"] == text
        assert server.called("sendMessage") == [
            {"chat_id": 42, "text": text, "link_preview_options": {"is_disabled": True}}
        ]

    async def test_links_are_previewed_if_the_project_says_so(self, server, make):
        await make(link_previews=True).send(CHAT, Outbound("https://x.example"), delivery_id="d1")
        assert server.called("sendMessage") == [{"chat_id": 42, "text": "https://x.example"}]

    async def test_an_answer_goes_to_its_topic_and_its_message(self, server, channel):
        to = Address("phone", str(BOT), "-100", "7")
        await channel.send(to, Outbound("hi", reply_to="-100:31"), delivery_id="d1")
        await channel.show_typing(to)
        sent = server.called("sendMessage")[0]
        assert (sent["chat_id"], sent["message_thread_id"]) == (-100, 7)
        assert sent["reply_parameters"] == {"message_id": 31, "allow_sending_without_reply": True}
        shown = {"chat_id": -100, "action": "typing", "message_thread_id": 7}
        assert server.called("sendChatAction") == [shown]

    async def test_the_longest_text_fits_and_is_counted_as_telegram_counts(self, server, channel):
        assert channel.capabilities.measure == "utf16"
        longest = "\U0001f600" * (channel.capabilities.max_text // 2)
        await channel.send(CHAT, Outbound(longest), delivery_id="d1")
        with pytest.raises(Refused, match="too long"):
            await channel.send(CHAT, Outbound(longest + "x"), delivery_id="d2")

    async def test_a_text_is_changed_once_and_the_second_time_too(self, server, channel):
        sent = await channel.send(CHAT, Outbound("one"), delivery_id="d1")
        for _ in range(2):
            await channel.edit(CHAT, sent.message_id, Outbound("two"))
        assert server.messages[int(sent.message_id)]["text"] == "two"
        with pytest.raises(Refused, match="not found"):
            await channel.edit(CHAT, "999", Outbound("three"))

    async def test_a_group_that_moved_is_followed(self, server, channel):
        server.moved[-5] = -1005
        group = Address("phone", str(BOT), "-5")
        for text in ("one", "two"):
            await channel.send(group, Outbound(text), delivery_id=text)
        await channel.show_typing(group)
        assert [m["chat"]["id"] for m in server.messages.values()] == [-1005, -1005]
        assert [call["chat_id"] for call in server.called("sendMessage")] == [-5, -1005, -1005]

    async def test_what_is_remembered_of_moves_is_bounded(self, server, channel, monkeypatch):
        monkeypatch.setattr("checkrail.channels.telegram.channel.MOVED_CHATS", 2)
        server.moved = {-number: -1000 - number for number in range(1, 5)}
        for number in (1, 2, 3, 4, 1):
            group = Address("phone", str(BOT), str(-number))
            await channel.send(group, Outbound("hi"), delivery_id="d")
        assert [m["chat"]["id"] for m in server.messages.values()] == [
            -1001,
            -1002,
            -1003,
            -1004,
            -1001,
        ]
        assert len(channel._moved) == 2

    async def test_typing_that_cannot_be_shown_is_no_failure(self, server, channel):
        server.blocked.add(42)
        await channel.show_typing(CHAT)
        server.faults["sendChatAction"] = [hang_up, too_many_requests(9)]
        await channel.show_typing(CHAT)
        await channel.show_typing(CHAT)

    @pytest.mark.parametrize(
        ("fault", "error", "after"),
        [
            (too_many_requests(7), RetryLater, 7.0),
            ({"ok": False, "error_code": 429, "description": "slower"}, RetryLater, None),
            ({"ok": False, "error_code": 401, "description": "Unauthorized"}, RetryLater, 60.0),
            ({"ok": False, "error_code": 500, "description": "Internal"}, Unknown, None),
            ({"ok": False, "error_code": 400, "description": "chat not found"}, Refused, None),
            ({"ok": False, "error_code": 403, "description": "kicked"}, Refused, None),
            ({"ok": "yes"}, Unknown, None),
            ({"result": {}}, Unknown, None),
            (fail_as_proxy, Unknown, None),
            (hang_up, Unknown, None),
        ],
    )
    async def test_a_failure_says_whether_to_send_again(self, server, channel, fault, error, after):
        server.faults["sendMessage"] = [fault]
        with pytest.raises(error) as caught:
            await channel.send(CHAT, Outbound("hi"), delivery_id="d1")
        assert getattr(caught.value, "after", None) == after
        await channel.send(CHAT, Outbound("hi"), delivery_id="d1")

    async def test_who_blocked_the_bot_is_not_written_to_again(self, server, channel):
        server.blocked.add(42)
        with pytest.raises(Refused, match="blocked by the user"):
            await channel.send(CHAT, Outbound("hi"), delivery_id="d1")

    async def test_where_nobody_listens_nothing_was_sent(self, server, channel):
        await server.__aexit__()
        with pytest.raises(RetryLater, match="cannot be reached"):
            await channel.send(CHAT, Outbound("hi"), delivery_id="d1")


class TestButtons:
    async def ask(self, channel, approval_id=APPROVAL, digest=DIGEST):
        part = Outbound("May I?", Question(approval_id, digest))
        return int((await channel.send(CHAT, part, delivery_id="d1")).message_id)

    @pytest.mark.parametrize(("label", "verdict"), [("Approve", "approve"), ("Deny", "deny")])
    async def test_a_button_brings_the_answer_and_loses_its_keyboard(
        self, server, polling, inbox, label, verdict
    ):
        number = await self.ask(polling)
        update = await server.press(number, label, user=77)
        message = await inbox.first()
        query = update["callback_query"]["id"]
        assert (message.kind, message.sender) == ("answer", f"telegram:{BOT}:77")
        assert message.external_id == f"callback:{query}"
        assert message.address == CHAT
        answer = message.answer
        assert (answer.approval_id, answer.verdict) == (APPROVAL, verdict)
        assert DIGEST.startswith(answer.digest)
        assert len(answer.digest) >= 15
        await polling.tell(answer, "It was approved. " * 20)
        text, alert = server.answered_queries[query]
        assert alert
        assert text.startswith("It was approved.")
        await polling.edit(CHAT, answer.message_id, Outbound("May I? Yes."))
        assert server.messages[number]["text"] == "May I? Yes."
        assert server.messages[number]["reply_markup"] == {"inline_keyboard": []}

    async def test_a_button_below_a_message_that_is_gone_still_answers(
        self, server, polling, inbox
    ):
        gone = {"message_id": 5, "chat": {"id": 42, "type": "private"}, "date": 0}
        await server.press_data(f"cr:d:{APPROVAL}:sha256:ab", message=gone)
        message = await inbox.first()
        assert message.answer.message_id == "5"
        assert (message.answer.verdict, message.answer.digest) == ("deny", "sha256:ab")

    @pytest.mark.parametrize("data", ["other", "", "cr:x:1:2", "cr:a:1", None, "cr"])
    async def test_a_button_of_another_bot_is_answered_with_nothing(
        self, server, polling, inbox, data
    ):
        message = server.write(text="old")
        update = await server.press_data(data, message=message)
        query = update["callback_query"]["id"]
        await server.until(lambda: query in server.answered_queries)
        assert server.answered_queries[query] == ("", False)
        assert inbox.messages == []

    async def test_what_came_of_an_old_press_is_told_to_nobody(self, server, channel):
        answer = Answer(APPROVAL, "approve", "sha256:ab", "5", "long-ago")
        await channel.tell(answer, "too late")
        assert len(server.called("answerCallbackQuery")) == 1
        await channel.tell(Answer(APPROVAL, "approve", "sha256:ab"), "nobody")
        assert len(server.called("answerCallbackQuery")) == 1

    @pytest.mark.parametrize("approval_id", ["x" * 50, "a:b"])
    async def test_an_id_that_does_not_fit_is_refused(self, server, channel, approval_id):
        with pytest.raises(Refused, match="does not fit"):
            await self.ask(channel, approval_id)
        assert server.called("sendMessage") == []


class TestFiles:
    FILE = Attachment("bill.pdf", "application/pdf", None, {"file_id": "f"})

    async def test_a_file_is_fetched(self, server, channel):
        server.files["f"] = b"x" * 1000
        assert await channel.fetch(self.FILE, 1000) == b"x" * 1000

    async def test_more_bytes_than_are_wanted_are_refused(self, server, channel):
        server.files["f"] = b"x" * 1000
        large = Attachment("bill.pdf", "application/pdf", 1000, {"file_id": "f"})
        for attachment in (self.FILE, large):
            with pytest.raises(Refused, match="more than 999 bytes"):
                await channel.fetch(attachment, 999)
        assert len(server.called("getFile")) == 1

    async def test_a_file_that_is_larger_than_announced_is_refused(self, server, channel):
        server.files["f"] = b"x" * 100_000
        server.faults["getFile"] = [{"ok": True, "result": {"file_path": "docs/f 1.pdf"}}]
        with pytest.raises(Refused, match="more than 999 bytes"):
            await channel.fetch(self.FILE, 999)

    async def test_what_telegram_does_not_give_is_refused(self, server, channel):
        with pytest.raises(Refused, match="wrong file_id"):
            await channel.fetch(self.FILE, 10)
        server.files["f"] = b"x" * (21 << 20)
        with pytest.raises(Refused, match="too big"):
            await channel.fetch(self.FILE, 1 << 30)
        server.faults["getFile"] = [{"ok": True, "result": {}}]
        with pytest.raises(Refused, match="does not say where"):
            await channel.fetch(self.FILE, 10)
        server.faults["getFile"] = [{"ok": True, "result": {"file_path": "docs/gone 1.pdf"}}]
        with pytest.raises(Refused, match="404"):
            await channel.fetch(self.FILE, 10)

    async def test_a_broken_download_may_be_tried_again(self, server, channel):
        server.files["f"] = b"x"
        server.faults["file"] = [hang_up, fail_as_proxy]
        for _ in range(2):
            with pytest.raises(RetryLater):
                await channel.fetch(self.FILE, 10)
        assert await channel.fetch(self.FILE, 10) == b"x"


class TestToken:
    async def test_no_log_error_or_repr_has_the_token(self, server, make, inbox, caplog):
        caplog.set_level(logging.DEBUG)
        echo = {"ok": False, "error_code": 400, "description": f"no {TOKEN} here"}
        elsewhere = make(api_url="http://127.0.0.1:1")
        redirect = {"ok": False, "error_code": 302, "description": f"/bot{TOKEN}/"}
        channel = make()
        file = TestFiles.FILE
        server.files["f"] = b"x"
        faults = [hang_up, fail_as_proxy, echo, redirect, too_many_requests(1), {"ok": 1}]
        server.faults = {
            "sendMessage": [*faults],
            "getUpdates": [*faults],
            "getFile": [*faults],
            "file": [hang_up, fail_as_proxy],
        }
        told = [repr(channel), repr(channel.options), repr(channel.api), repr(vars(channel.api))]
        await channel.open(inbox.accept)
        await server.say("hello")
        await inbox.first()
        for _ in range(len(faults) + 3):
            for call in (
                channel.send(CHAT, Outbound("hi"), delivery_id="d"),
                channel.fetch(file, 10),
                elsewhere.send(CHAT, Outbound("hi"), delivery_id="d"),
            ):
                try:
                    await call
                except ChannelError as error:
                    logging.getLogger("test").exception("it failed")
                    told += [repr(error), *show_locals(error)]
        await channel.close()
        assert len(told) > 50
        said = "\n".join([*told, caplog.text, *(str(r.__dict__) for r in caplog.records)])
        assert "httpx2" in {record.name for record in caplog.records}
        secret = TOKEN.partition(":")[2]
        assert secret not in said
        assert f"bot{TOKEN}" not in said

    @pytest.mark.parametrize(
        "options",
        [
            {"token": "not-a-Token"},
            {"token": "not-a-Token", "mode": "webhook", "secret_token": "also/a-Token"},
            {"token": TOKEN, "secret_token": "unused-Token"},
            {"token": TOKEN, "webhook_url": "https://x.example"},
            {"token": TOKEN, "mode": "webhook"},
            {"token": TOKEN, "mode": "webhook", "secret_token": ""},
            {"token": TOKEN, "mode": "webhook", "secret_token": "b\nad-Token"},
            {"token": TOKEN + "\n"},
            {"token": TOKEN, "api_url": "ftp://x"},
            {"token": TOKEN, "allowed_updates": []},
            {"token": TOKEN, "allowed_updates": ["channel_post"]},
            {"token": TOKEN, "tokens": 1},
        ],
    )
    def test_options_that_cannot_be_are_refused_and_not_shown(self, options):
        with pytest.raises(ValidationError) as caught:
            TelegramOptions(**options)
        assert TOKEN not in str(caught.value)
        assert "-Token" not in str(caught.value)


WITHOUT_HTTPX2 = """
import sys
sys.modules["httpx2"] = None  # as if it were not installed
from checkrail.channels.telegram import TelegramChannel, TelegramOptions
TelegramChannel("phone", TelegramOptions(token="1:a"))
"""


def test_what_is_missing_is_told_before_anything_is_received():
    command = [sys.executable, "-c", WITHOUT_HTTPX2]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 'a Telegram channel needs httpx2: pip install "checkrail[telegram]"' in done.stderr


async def test_a_poll_is_cancelled_at_once_when_the_channel_closes(server, polling):
    await server.until(lambda: server.called("getUpdates"))
    async with asyncio.timeout(30):
        await polling.close()
    with contextlib.suppress(ChannelError):
        await polling.close()
