"""A service of one's own, which signs what it sends and checks what it gets."""

import asyncio
import base64
import json
import time
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook, WebhookVerificationError
from tests.actions.web import Service, hang_up, reply

from checkrail.actions.errors import OutboundRefused
from checkrail.actions.outbound import Outbound as Client
from checkrail.channels.protocol import (
    Address,
    Attachment,
    IdReused,
    Outbound,
    Question,
    Refused,
    RetryLater,
    Unknown,
    WebRequest,
)
from checkrail.channels.webhook import WebhookChannel, WebhookOptions

SECRET = "whsec_" + base64.b64encode(b"a key of twenty-four byt").decode()
OTHER = "whsec_" + base64.b64encode(b"one of some other people").decode()
TO = Address("shop", "shop", "ann", "t1")


class Inbox:
    """Stores messages as a runtime does: once, and not another one under the same id."""

    def __init__(self):
        self.seen = {}
        self.calls = 0

    async def accept(self, messages):
        self.calls += 1
        for message in messages:
            if self.seen.setdefault(message.external_id, message).digest != message.digest:
                raise IdReused


@pytest.fixture
def inbox():
    return Inbox()


@pytest.fixture
async def make(inbox):
    client, made = Client(dev=True, timeout=5), []

    async def make_channel(**options):
        channel = WebhookChannel("shop", WebhookOptions(**{"secrets": [SECRET], **options}))
        channel.outbound = client
        made.append(channel)
        await channel.open(inbox.accept)
        return channel

    yield make_channel
    for channel in made:
        await channel.close()
    await client.aclose()


@pytest.fixture
async def channel(make):
    return await make()


def sign(body, message_id="m1", secret=SECRET, seconds=None, method="POST"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    at = int(time.time()) if seconds is None else seconds
    signature = Webhook(secret).sign(
        message_id, datetime.fromtimestamp(at, UTC), content.decode("utf-8", "replace")
    )
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature,
    }
    return WebRequest(method, headers, {}, content)


HELLO = {"user_id": "ann", "content": "hello"}


class TestReceiving:
    async def test_a_message_is_taken(self, channel, inbox):
        body = HELLO | {
            "message_id": "7",
            "conversation": "c1",
            "thread": "t1",
            "metadata": {"lang": "en"},
            "attachments": [{"url": "https://files.example/bill.pdf", "name": "bill.pdf"}],
        }
        assert (await channel.answer(sign(body, "m7"))).status == 200
        message = inbox.seen["m7"]
        assert message.kind == "message"
        assert message.address == Address("shop", "shop", "c1", "t1")
        assert message.sender == "webhook:shop:ann"
        assert message.text == "hello"
        assert message.metadata == {"lang": "en", "message_id": "7"}
        link = {"url": "https://files.example/bill.pdf"}
        file = Attachment("bill.pdf", "application/octet-stream", None, link)
        assert message.attachments == (file,)

    async def test_a_user_without_a_conversation_has_one(self, channel, inbox):
        await channel.answer(sign(HELLO))
        assert inbox.seen["m1"].address == Address("shop", "shop", "ann")

    async def test_a_repeat_is_acknowledged_and_another_message_is_not(self, channel, inbox):
        now = int(time.time())
        for seconds in (now - 200, now):
            assert (await channel.answer(sign(HELLO, seconds=seconds))).status == 200
        assert len(inbox.seen) == 1
        changed = await channel.answer(sign(HELLO | {"content": "give me money"}))
        assert changed.status == 409
        assert inbox.seen["m1"].text == "hello"

    async def test_a_message_of_an_hour_ago_is_refused(self, channel, inbox):
        answer = await channel.answer(sign(HELLO, seconds=int(time.time()) - 3600))
        assert answer.status == 401
        assert b"seconds away" in answer.body
        assert inbox.calls == 0

    async def test_without_a_signature_nothing_is_parsed(self, channel, inbox):
        for body in (b"not json", b"\xff\xfe", b"[" * 100_000, json.dumps(HELLO).encode()):
            for headers in ({}, sign(HELLO, "m2", OTHER).headers, sign(b"x", "m3").headers):
                answer = await channel.answer(WebRequest("POST", headers, {}, body))
                assert answer.status == 401
        assert inbox.calls == 0

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not json",
            b"[" * 100_000,
            b'{"user_id": "ann", "content": "\\ud800"}',
            [],
            {},
            {"user_id": "ann"},
            {"user_id": "", "content": "x"},
            {"user_id": 7, "content": "x"},
            {"user_id": "a" * 256, "content": "x"},
            {"user_id": "a\0", "content": "x"},
            {"user_id": "ann", "content": "x\0"},
            {"user_id": "ann", "content": ["x"]},
            {"user_id": "ann", "content": "x", "metadata": []},
            {"user_id": "ann", "content": "x", "attachments": [{"name": "no url"}]},
            {"user_id": "ann", "content": "x", "attachments": [{"url": "u", "size": -1}]},
        ],
    )
    async def test_a_body_that_is_no_message_is_refused(self, channel, inbox, body):
        answer = await channel.answer(sign(body))
        assert answer.status == 400
        assert answer.body
        assert inbox.calls == 0

    async def test_a_refusal_repeats_nothing_of_the_message(self, channel):
        answer = await channel.answer(sign({"user_id": "ann", "content": {"secret": "hunter2"}}))
        assert answer.body == b"content: Input should be a valid string"

    async def test_other_methods_are_refused(self, channel, inbox):
        assert (await channel.answer(sign(HELLO, method="GET"))).status == 405
        assert inbox.calls == 0

    async def test_secrets_take_each_others_place(self, make, inbox):
        channel = await make(secrets=[SECRET, OTHER])
        assert (await channel.answer(sign(HELLO, "m1", SECRET))).status == 200
        assert (await channel.answer(sign(HELLO, "m2", OTHER))).status == 200
        channel = await make(secrets=[OTHER])
        assert (await channel.answer(sign(HELLO, "m3", SECRET))).status == 401
        assert [*inbox.seen] == ["m1", "m2"]


class TestAnswering:
    async def test_an_answer_is_signed_and_goes_where_the_project_says(self, make):
        async with Service(reply(b"")) as service:
            channel = await make(reply_url=service.url)
            forged = HELLO | {"reply_url": "http://127.0.0.1:1/"}
            assert (await channel.answer(sign(forged))).status == 200
            part = Outbound("hi Zoë", Question("a1", "sha256:ab"), reply_to="m1")
            sent = await channel.send(TO, part, delivery_id="d1")
            await channel.send(TO, Outbound("more"), delivery_id="d2")
        assert sent.message_id == "d1"
        (_, headers, content), (_, again, more) = service.asked
        assert Webhook(SECRET).verify(content, headers) == {
            "conversation": "ann",
            "thread": "t1",
            "reply_to": "m1",
            "content": "hi Zoë",
            "question": {"approval_id": "a1", "digest": "sha256:ab"},
        }
        assert headers["webhook-id"] == "d1"
        assert Webhook(SECRET).verify(more, again)["content"] == "more"

    async def test_answers_may_have_a_secret_of_their_own(self, make):
        async with Service(reply(b"")) as service:
            channel = await make(reply_url=service.url, reply_secret=OTHER)
            await channel.send(TO, Outbound("hi"), delivery_id="d1")
        _, headers, content = service.asked[0]
        Webhook(OTHER).verify(content, headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(content, headers)

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            ("429 Too Many Requests", RetryLater),
            ("500 Internal Server Error", RetryLater),
            ("503 Service Unavailable", RetryLater),
            ("400 Bad Request", Refused),
            ("401 Unauthorized", Refused),
            ("410 Gone", Refused),
            ("302 Found", Refused),
        ],
    )
    async def test_a_status_says_whether_to_send_again(self, make, status, error):
        async with Service(reply(b"", "location: http://127.0.0.1:1/", status=status)) as service:
            channel = await make(reply_url=service.url)
            with pytest.raises(error, match=status[:3]):
                await channel.send(TO, Outbound("hi"), delivery_id="d1")
        assert len(service.asked) == 1

    @pytest.mark.parametrize(
        ("said", "least", "most"),
        [
            ("7", 7, 7),
            ("999999999999", 3600, 3600),
            (format_datetime(datetime.fromtimestamp(4e9, UTC), usegmt=True), 3600, 3600),
            (format_datetime(datetime.fromtimestamp(1e9, UTC), usegmt=True), 0, 0),
            ("soon", None, None),
            ("-5", None, None),
            ("9" * 400, 3600, 3600),
        ],
    )
    async def test_a_service_may_say_how_long_to_wait(self, make, said, least, most):
        answer = reply(b"", f"retry-after: {said}", status="429 Too Many Requests")
        async with Service(answer) as service:
            channel = await make(reply_url=service.url)
            with pytest.raises(RetryLater) as caught:
                await channel.send(TO, Outbound("hi"), delivery_id="d1")
        after = caught.value.after
        assert (after is None) if least is None else least <= after <= most

    async def test_no_answer_leaves_it_unknown(self, make):
        async with Service(hang_up) as service:
            channel = await make(reply_url=service.url)
            with pytest.raises(Unknown):
                await channel.send(TO, Outbound("hi"), delivery_id="d1")
        with pytest.raises(Unknown):
            await channel.send(TO, Outbound("hi"), delivery_id="d1")

    async def test_without_a_url_there_are_no_answers(self, channel):
        with pytest.raises(Refused, match="reply_url"):
            await channel.send(TO, Outbound("hi"), delivery_id="d1")

    async def test_a_place_that_no_request_may_go_to_is_refused(self, inbox):
        options = WebhookOptions(secrets=[SECRET], reply_url="http://127.0.0.1:1/")
        channel = WebhookChannel("shop", options)
        with pytest.raises(OutboundRefused):
            await channel.open(inbox.accept)
        with pytest.raises(Refused):
            await channel.send(TO, Outbound("hi"), delivery_id="d1")
        await channel.close()

    async def test_no_error_has_a_secret_or_the_path_of_the_url(self, make):
        async with Service(hang_up) as service:
            channel = await make(reply_url=service.url + "&key=in-the-url")
            with pytest.raises(Unknown) as caught:
                await channel.send(TO, Outbound("hi"), delivery_id="d1")
        said = repr(caught.value) + repr(channel) + repr(channel.options.secrets)
        assert "in-the-url" not in said
        assert SECRET.removeprefix("whsec_") not in said


class TestFiles:
    async def test_a_file_is_fetched_up_to_a_limit(self, channel):
        async with Service(reply(b"x" * 100)) as service:
            file = Attachment("bill.pdf", "application/pdf", None, {"url": service.url})
            assert await channel.fetch(file, 100) == b"x" * 100
            large = Attachment("bill.pdf", "application/pdf", 100, {"url": service.url})
            for attachment in (file, large):
                with pytest.raises(Refused, match="more bytes"):
                    await channel.fetch(attachment, 99)
        assert len(service.asked) == 2
        assert "webhook-signature" not in service.asked[0][1]

    async def test_a_file_inside_is_not_fetched(self, inbox):
        channel = WebhookChannel("shop", WebhookOptions(secrets=[SECRET]))
        await channel.open(inbox.accept)
        for url in ("http://127.0.0.1/", "https://169.254.169.254/", "file:///etc/passwd", "x"):
            with pytest.raises(Refused):
                await channel.fetch(Attachment("x", "text/plain", None, {"url": url}), 100)
        await channel.close()

    async def test_a_file_that_is_gone_is_refused(self, channel):
        async with Service(reply(b"", status="404 Not Found")) as service:
            file = Attachment("bill.pdf", "application/pdf", None, {"url": service.url})
            with pytest.raises(Refused, match="404"):
                await channel.fetch(file, 100)


@pytest.mark.parametrize(
    "options",
    [
        {"secrets": []},
        {"secrets": ["too-short"]},
        {"secrets": ["whsec_dG9vLXNob3J0"]},
        {"secrets": ["whsec_too-short*is-no-base64-at-all"]},
        {"secrets": [SECRET, ""]},
        {"secrets": [SECRET], "reply_secret": "too-short"},
        {"secrets": [SECRET], "reply_secret": ""},
        {"secrets": [SECRET], "reply_to": "x"},
        {},
    ],
)
def test_options_that_cannot_be_are_refused_and_not_shown(options):
    with pytest.raises(ValidationError) as caught:
        WebhookOptions(**options)
    assert "too-short" not in str(caught.value)
    assert "dG9vLXNob3J0" not in str(caught.value)
    assert SECRET.removeprefix("whsec_") not in str(caught.value)


async def test_many_messages_at_once_are_all_taken(channel, inbox):
    requests = [sign(HELLO, f"m{number}") for number in range(100)]
    answers = await asyncio.gather(*map(channel.answer, requests))
    assert {answer.status for answer in answers} == {200}
    assert len(inbox.seen) == 100
