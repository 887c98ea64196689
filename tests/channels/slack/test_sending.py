"""What the Slack channel sends, and what becomes of it when Slack does not take it."""

import logging
import socket

import pytest
from tests.channels.servers.slack import APP_TOKEN, BOT_TOKEN, SECRET, Drop, Fail, Text

from checkrail.channels.protocol import (
    Address,
    Answer,
    Attachment,
    Outbound,
    Question,
    Refused,
    RetryLater,
    Unknown,
)
from checkrail.channels.slack import SlackChannel, SlackOptions
from checkrail.channels.slack.api import SlackApi

HERE = Address("slack", "T1", "C1", "1700000000.000100")
QUESTION = Question("approval-1", "digest-1")


def attachment(url, size=None):
    return Attachment("plan.pdf", "application/pdf", size, {"id": "F1", "url": url})


async def test_a_message_goes_to_its_thread_without_markup_and_previews(slack, make_channel):
    channel, _ = await make_channel()
    text = "<!channel> <@U1> tell <http://evil.example|us> & all"
    sent = await channel.send(HERE, Outbound(text), delivery_id="1")
    message = slack.messages["C1", sent.message_id]
    assert message == {
        "channel": "C1",
        "thread_ts": HERE.thread,
        "text": "&lt;!channel&gt; &lt;@U1&gt; tell &lt;http://evil.example|us&gt; &amp; all",
        "unfurl_links": False,
        "unfurl_media": False,
    }


async def test_a_direct_message_has_no_thread(slack, make_channel):
    channel, _ = await make_channel()
    sent = await channel.send(Address("slack", "T1", "D1"), Outbound("hi"), delivery_id="1")
    assert "thread_ts" not in slack.messages["D1", sent.message_id]


async def test_a_question_has_buttons_until_it_is_answered(slack, make_channel):
    channel, _ = await make_channel()
    sent = await channel.send(HERE, Outbound("Refund <5>?", QUESTION), delivery_id="1")
    section, actions = slack.messages["C1", sent.message_id]["blocks"]
    assert section["text"]["text"] == "Refund &lt;5&gt;?"
    assert actions["block_id"] == "approval-1"
    assert [(each["action_id"], each["value"]) for each in actions["elements"]] == [
        ("checkrail.approve", "digest-1"),
        ("checkrail.deny", "digest-1"),
    ]
    await channel.edit(HERE, sent.message_id, Outbound("Refund <5>? Approved."))
    message = slack.messages["C1", sent.message_id]
    assert (message["text"], message["blocks"]) == ("Refund &lt;5&gt;? Approved.", [])


@pytest.mark.parametrize("character", ["a", "ä", "😀", "<", "&"])
async def test_the_longest_question_is_taken(slack, make_channel, character):
    channel, _ = await make_channel()
    text = character * channel.capabilities.max_text
    assert await channel.send(HERE, Outbound(text, QUESTION), delivery_id="1")


async def test_only_who_pressed_a_button_is_told(slack, make_channel):
    channel, _ = await make_channel()
    pressed = Answer("approval-1", "approve", "digest-1", reply_token="C1:U2:1700000000.000100")
    await channel.tell(pressed, "You may not <approve> this")
    assert slack.calls_of("chat.postEphemeral") == [
        {
            "channel": "C1",
            "user": "U2",
            "thread_ts": "1700000000.000100",
            "text": "You may not &lt;approve&gt; this",
        }
    ]
    with pytest.raises(Refused):
        await channel.tell(Answer("approval-1", "approve", "digest-1"), "no")


async def test_typing_is_shown_in_threads_and_never_fails(slack, make_channel):
    channel, _ = await make_channel()
    await channel.show_typing(HERE)
    await channel.show_typing(Address("slack", "T1", "D1"))
    (shown,) = slack.calls_of("assistant.threads.setStatus")
    assert (shown["channel_id"], shown["thread_ts"]) == ("C1", HERE.thread)
    for fault in (Fail("missing_scope"), Fail(status=503), Drop()):
        slack.faults["assistant.threads.setStatus"].append(fault)
        await channel.show_typing(HERE)


@pytest.mark.parametrize(
    ("fault", "error", "after"),
    [
        (Fail("ratelimited", 429, {"Retry-After": "7"}), RetryLater, 7.0),
        (Fail("ratelimited", 429), RetryLater, None),
        (Fail("ratelimited", 429, {"Retry-After": "soon"}), RetryLater, None),
        (Fail(None, 429, {"Retry-After": "3"}), RetryLater, 3.0),
        (Fail("message_limit_exceeded"), RetryLater, None),
        (Fail("internal_error"), Unknown, None),
        (Fail("fatal_error"), Unknown, None),
        (Fail("service_unavailable", 503), Unknown, None),
        (Fail(None, 500), Unknown, None),
        (Fail(None, 502), Unknown, None),
        (Fail(None, 403), Refused, None),
        (Fail("is_archived"), Refused, None),
        (Fail("not_in_channel"), Refused, None),
        (Fail("token_revoked"), Refused, None),
        (Fail("an_error_of_tomorrow"), Refused, None),
        (Drop(), Unknown, None),
        (Text("<html>maintenance</html>", "text/html"), Unknown, None),
        (Text("{not json"), Unknown, None),
        (Text("[1]"), Unknown, None),
        (Text("null"), Unknown, None),
        (Text("fine", "text/plain"), Unknown, None),
        (Text('{"ok": true}'), Unknown, None),
    ],
    ids=repr,
)
async def test_failures_are_told_apart_and_sent_once(slack, make_channel, fault, error, after):
    channel, _ = await make_channel()
    slack.faults["chat.postMessage"].append(fault)
    with pytest.raises(error) as raised:
        await channel.send(HERE, Outbound("hello"), delivery_id="1")
    assert type(raised.value) is error
    assert getattr(raised.value, "after", None) == after
    assert len(slack.calls_of("chat.postMessage")) == 1
    assert BOT_TOKEN not in repr(raised.value) + repr(vars(raised.value))
    assert raised.value.__context__ is None  # it would carry the request


async def test_a_dropped_connection_may_have_delivered(slack, make_channel):
    channel, _ = await make_channel()
    slack.faults["chat.postMessage"].append(Drop())
    with pytest.raises(Unknown):
        await channel.send(HERE, Outbound("hello"), delivery_id="1")
    assert len(slack.messages) == 1


async def test_a_missing_scope_is_named(slack, make_channel):
    channel, _ = await make_channel()
    slack.faults["chat.postMessage"].append(Fail("missing_scope", more={"needed": "chat:write"}))
    with pytest.raises(Refused, match="'missing_scope'; give the bot the scope 'chat:write'"):
        await channel.send(HERE, Outbound("hello"), delivery_id="1")


async def test_where_nobody_listens_nothing_arrived(unused_place):
    options = SlackOptions(bot_token=BOT_TOKEN, signing_secret=SECRET, base_url=unused_place)
    channel = SlackChannel("slack", options)
    with pytest.raises(RetryLater):
        await channel.send(HERE, Outbound("hello"), delivery_id="1")
    await channel.close()


@pytest.fixture
def unused_place():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening: connections are refused
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/api/"


async def test_a_file_is_read_with_the_bots_token(slack, make_channel):
    channel, _ = await make_channel()
    slack.files["F1"] = b"%PDF" * 100
    assert await channel.fetch(attachment(f"{slack.url}/files/F1"), 400) == b"%PDF" * 100
    assert await channel.fetch(attachment(None), 400) == b"%PDF" * 100  # its place is looked up
    assert slack.file_tokens == [f"Bearer {BOT_TOKEN}"] * 2


async def test_a_file_that_is_too_large_is_refused(slack, make_channel):
    channel, _ = await make_channel()
    slack.files["F1"] = bytes(401)
    with pytest.raises(Refused, match="larger than 400"):
        await channel.fetch(attachment(f"{slack.url}/files/F1", size=10), 400)
    with pytest.raises(Refused, match="larger than 400"):
        await channel.fetch(attachment(f"{slack.url}/files/F1", size=401), 400)
    assert len(slack.file_tokens) == 1


@pytest.mark.parametrize(
    "place",
    [
        "http://localhost:{port}/files/F1",
        "http://127.0.0.1:1/files/F1",
        "http://127.0.0.1.evil.example:{port}/files/F1",
        "https://127.0.0.1:{port}/files/F1",
        "http://127.0.0.1:{port}@evil.example/files/F1",
        "http://[oops/files/F1",
        "/files/F1",
        "",
    ],
)
async def test_the_token_goes_to_slack_alone(slack, make_channel, place):
    channel, _ = await make_channel()
    place = place.format(port=slack.port) or "file:///etc/passwd"
    with pytest.raises(Refused, match="not at Slack"):
        await channel.fetch(attachment(place), 400)
    assert slack.file_tokens == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fail(None, 302, {"Location": "/login"}), Refused),
        (Fail(None, 404), Refused),
        (Fail(None, 429, {"Retry-After": "2"}), RetryLater),
        (Fail(None, 503), Unknown),
    ],
    ids=repr,
)
async def test_a_file_that_slack_does_not_give_fails(slack, make_channel, fault, error):
    channel, _ = await make_channel()
    slack.faults["file"].append(fault)
    with pytest.raises(error):
        await channel.fetch(attachment(f"{slack.url}/files/F1"), 400)
    assert len(slack.file_tokens) == 1


async def test_a_file_whose_connection_is_lost_may_be_read_later(slack, make_channel):
    channel, _ = await make_channel()
    slack.files["F1"] = b"a"
    slack.faults["file"] += [Drop(), Drop()]  # reading is repeated once, for it changes nothing
    with pytest.raises(Unknown, match="was lost"):
        await channel.fetch(attachment(f"{slack.url}/files/F1"), 1)


@pytest.mark.parametrize("body", ['{"ok": true}', '{"ok": true, "file": {"url_private": 5}}'])
async def test_a_file_without_a_place_is_refused(slack, make_channel, body):
    channel, _ = await make_channel()
    slack.faults["files.info"].append(Text(body))
    with pytest.raises(Refused, match="where the file is"):
        await channel.fetch(attachment(None), 400)


async def test_a_wrong_token_is_refused_when_the_channel_opens(make_channel):
    with pytest.raises(Refused, match="invalid_auth") as raised:
        await make_channel(bot_token="xoxb-wrong")
    assert "xoxb-wrong" not in repr(raised.value)


@pytest.mark.parametrize("fault", [Fail("ratelimited", 429), Fail(None, 503), Drop()], ids=repr)
async def test_a_channel_opens_while_slack_is_away(slack, make_channel, fault):
    slack.faults["auth.test"].append(fault)
    channel, _ = await make_channel()
    assert await channel.send(HERE, Outbound("hello"), delivery_id="1")


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "http_proxy"])
async def test_no_proxy_stands_before_this_machine(slack, make_channel, monkeypatch, name):
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    channel, _ = await make_channel()
    slack.files["F1"] = b"a"
    assert await channel.send(HERE, Outbound("hello"), delivery_id="1")
    assert await channel.fetch(attachment(f"{slack.url}/files/F1"), 1) == b"a"


async def test_a_proxy_is_used_with_its_exceptions(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    for exception, proxy in (("a.example", "http://proxy.example:3128"), ("slack.com", None)):
        monkeypatch.setenv("no_proxy", exception)
        api = SlackApi(BOT_TOKEN, "https://slack.com/api/")
        assert api.client.proxy == proxy
        await api.close()


async def test_no_log_has_secrets_or_messages(slack, make_channel, caplog):
    caplog.set_level(logging.DEBUG)
    channel, _ = await make_channel(app_token=APP_TOKEN)
    await slack.connected.get()
    slack.faults["chat.postMessage"].append(Fail("internal_error"))
    with pytest.raises(Unknown):
        await channel.send(HERE, Outbound("private words"), delivery_id="1")
    for secret in (BOT_TOKEN, APP_TOKEN, SECRET, "ticket-", "private words"):
        assert secret not in caplog.text
    assert all(each not in repr(channel.options) for each in (BOT_TOKEN, APP_TOKEN, SECRET))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"bot_token": " "}, "bot_token"),
        ({"bot_token": BOT_TOKEN}, "signing_secret for the Events API, or app_token"),
        ({"bot_token": BOT_TOKEN, "signing_secret": " \n"}, "signing_secret"),
        (
            {"bot_token": BOT_TOKEN, "signing_secret": SECRET, "base_url": "http://a.example/"},
            "https://",
        ),
        ({"bot_token": BOT_TOKEN, "signing_secret": SECRET, "listen": "some"}, "listen"),
        ({"bot_token": BOT_TOKEN, "signing_secret": SECRET, "other": 1}, "other"),
    ],
)
def test_options_that_cannot_work_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem) as raised:
        SlackOptions(**options)
    assert SECRET not in str(raised.value)


def test_secrets_are_taken_without_the_space_around_them():
    options = SlackOptions(bot_token=f" {BOT_TOKEN}\n", signing_secret=SECRET)
    assert options.bot_token.get_secret_value() == BOT_TOKEN
