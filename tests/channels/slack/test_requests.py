"""Requests that come to the Slack channel: who may send them, and what is answered."""

import json
import time

import pytest
from slack_sdk.signature import SignatureVerifier
from tests.channels.servers.slack import (
    APP_TOKEN,
    SECRET,
    click,
    click_request,
    deliver,
    event,
    event_request,
    signed,
)

from checkrail.channels.protocol import Answer, WebRequest
from checkrail.channels.slack.channel import is_signed, sign_body

MENTION = event(type="app_mention", text="<@UBOT> hello", ts="1700000000.000100")

FROM_THE_DOCUMENTATION = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121"
    b".803a0bc887a14d10d2c447fce8b6703c"
)


def test_the_signature_is_that_of_the_documentation():
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert sign_body(SECRET, "1531420618", FROM_THE_DOCUMENTATION) == signature
    headers = {"x-slack-request-timestamp": "1531420618", "x-slack-signature": signature}
    assert is_signed(SECRET, headers, FROM_THE_DOCUMENTATION, 1531420618 + 300)
    assert not is_signed(SECRET, headers, FROM_THE_DOCUMENTATION, 1531420618 + 301)
    assert not is_signed(SECRET, headers, FROM_THE_DOCUMENTATION, 1531420618 - 301)


def test_the_signature_is_that_of_the_sdk():
    body, now = '{"text": "größer"}'.encode(), str(int(time.time()))
    assert SignatureVerifier(SECRET).is_valid(body, now, sign_body(SECRET, now, body))


@pytest.mark.parametrize(
    "headers",
    [
        {"x_slack_signature": "v0=" + "0" * 64},
        {"x_slack_signature": ""},
        {"x_slack_signature": "v0=größe\udcff"},
        {"x_slack_signature": "v1=abc"},
        {"x_slack_request_timestamp": ""},
        {"x_slack_request_timestamp": "soon"},
        {"x_slack_request_timestamp": "1.9e9"},
        {"x_slack_request_timestamp": "-1"},
        {"x_slack_request_timestamp": "\u0661\u0667" * 5},
        {"x_slack_request_timestamp": "9" * 5000},
    ],
)
async def test_a_forged_request_is_refused_and_not_sent_again(make_channel, headers):
    channel, taken = await make_channel()
    reply = await channel.answer(event_request(MENTION, **headers))
    assert reply.status == 401
    assert reply.headers["X-Slack-No-Retry"] == "1"
    assert not taken


async def test_a_request_without_headers_is_refused(make_channel):
    channel, _ = await make_channel()
    assert (await channel.answer(WebRequest("POST", {}, {}, b"{}"))).status == 401


@pytest.mark.parametrize("shift", [-302, 302])
async def test_an_old_or_early_request_is_refused(make_channel, shift):
    channel, taken = await make_channel()
    body = json.dumps(MENTION).encode()
    assert (await channel.answer(signed(body, at=time.time() + shift))).status == 401
    assert not taken


async def test_a_body_that_was_changed_is_refused_before_it_is_parsed(make_channel):
    channel, taken = await make_channel()
    request = event_request(MENTION)
    for body in (request.body + b" ", b"\xff\xfe", b"{"):
        changed = WebRequest("POST", request.headers, {}, body)
        assert (await channel.answer(changed)).status == 401
    later = str(int(time.time()) + 100)
    assert (
        await channel.answer(event_request(MENTION, x_slack_request_timestamp=later))
    ).status == 401
    assert not taken


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"null", b"[" * 100_000])
@pytest.mark.parametrize("form", [False, True])
async def test_a_signed_body_that_is_no_object_is_refused(make_channel, body, form):
    channel, _ = await make_channel()
    reply = await channel.answer(signed(b"payload=" + body if form else body, form=form))
    assert reply.status == 400
    assert reply.headers["X-Slack-No-Retry"] == "1"


async def test_another_method_is_refused(make_channel):
    channel, _ = await make_channel()
    assert (await channel.answer(WebRequest("GET", {}, {}, b""))).status == 405


async def test_the_address_is_verified_by_its_challenge(make_channel):
    channel, taken = await make_channel()
    payload = {"type": "url_verification", "challenge": "3eZbrw1aB", "token": "old"}
    reply = await channel.answer(event_request(payload))
    assert (reply.status, reply.body) == (200, b"3eZbrw1aB")
    unsigned = event_request(payload, x_slack_signature="v0=0")
    assert (await channel.answer(unsigned)).status == 401
    assert not taken


async def test_without_a_signing_secret_no_request_is_taken(make_channel):
    channel, taken = await make_channel(signing_secret=None, app_token=APP_TOKEN)
    assert (await channel.answer(event_request(MENTION))).status == 404
    assert not taken


async def test_a_message_is_acknowledged_once_it_is_stored(make_channel):
    channel, taken = await make_channel()
    failures = [OSError("the database is away"), OSError("the database is away")]

    async def accept(found):
        if failures:
            raise failures.pop()
        taken.extend(found)

    channel.accept = accept
    assert await deliver(channel.answer, MENTION) == [500, 500, 200]
    assert [each.text for each in taken] == ["hello"]


async def test_a_channel_that_is_not_open_has_slack_send_again(make_channel):
    channel, taken = await make_channel()
    await channel.close()
    assert await deliver(channel.answer, MENTION) == [503] * 4
    assert await deliver(channel.answer, {"type": "url_verification", "challenge": "c"}) == [200]
    assert not taken


async def test_a_refusal_is_not_sent_again(make_channel):
    channel, _ = await make_channel(signing_secret="another")
    assert await deliver(channel.answer, MENTION) == [401]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"type": "app_rate_limited", "minute_rate_limited": 1},
        {"type": "event_callback"},
        {"type": "event_callback", "team_id": "T1", "event": {"type": "reaction_added"}},
        {"type": "event_callback", "team_id": "T1", "event": {"type": "message"}},
        {"type": "event_callback", "team_id": "T1", "event": ["message"]},
        {"type": "block_actions", "actions": 1},
        {"type": "block_actions", "actions": [{"action_id": "another"}]},
        {"type": "block_actions", "actions": [{"action_id": "checkrail.approve"}]},
        {"type": "view_submission"},
    ],
)
async def test_what_is_not_for_us_is_acknowledged(make_channel, payload):
    channel, taken = await make_channel()
    assert (await channel.answer(event_request(payload))).status == 200
    assert (await channel.answer(click_request(payload))).status == 200
    assert not taken


async def test_a_form_without_a_payload_is_acknowledged(make_channel):
    channel, _ = await make_channel()
    assert (await channel.answer(signed(b"ssl_check=1&token=x", form=True))).status == 200


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_press_of_a_button_is_an_answer(make_channel, verdict):
    channel, taken = await make_channel()
    pressed = click(verdict, thread_ts="1700000000.000100")
    assert (await channel.answer(click_request(pressed))).status == 200
    (found,) = taken
    assert (found.kind, found.sender) == ("answer", "slack:T1:U2")
    assert found.answer == Answer(
        approval_id="approval-1",
        verdict=verdict,
        digest="digest-1",
        message_id="1700000009.000100",
        reply_token="C1:U2:1700000000.000100",
    )
    assert (found.address.conversation, found.address.thread) == ("C1", "1700000000.000100")


async def test_each_persons_press_is_its_own_and_comes_once(make_channel):
    channel, taken = await make_channel()
    for pressed in (click(user="U1"), click(user="U2"), click(user="U2")):
        await channel.answer(click_request(pressed))
    ids = [each.external_id for each in taken]
    assert ids[1] == ids[2] != ids[0]


async def test_a_press_in_an_organization_names_the_persons_team(make_channel):
    channel, taken = await make_channel()
    await channel.answer(click_request(click(team=None)))
    assert taken[0].sender == "slack:T1:U2"


async def test_a_warning_about_a_payload_has_nothing_of_what_it_says(make_channel, caplog):
    channel, _ = await make_channel()
    await channel.answer(event_request(event(text="private words", ts=None)))
    assert "ts" in caplog.text
    assert "private words" not in caplog.text
