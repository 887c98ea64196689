"""Socket Mode: payloads over a WebSocket that the channel opens."""

import asyncio

import pytest
from tests.channels.servers.slack import APP_TOKEN, Fail, Text, click, event

from checkrail.channels.slack import socket

WAIT = 60  # seconds; nothing here takes longer than a few, even on a busy machine


def direct(number, text="hello"):
    ts = f"1700000000.{number:06}"
    return event(channel="D1", channel_type="im", text=text, ts=ts)


async def soon(awaitable):
    return await asyncio.wait_for(awaitable, WAIT)


@pytest.fixture
async def make_socket(slack, make_channel):
    """Makes a channel in Socket Mode, and waits for its connection."""

    async def make(**options):
        channel, taken = await make_channel(signing_secret=None, app_token=APP_TOKEN, **options)
        return channel, taken, await soon(slack.connected.get())

    return make


async def test_messages_and_presses_come_in_order_and_are_acknowledged(slack, make_socket):
    _, taken, connection = await make_socket()
    for number in range(20):
        await slack.push(connection, f"e{number}", direct(number, f"message {number}"))
    await slack.push(connection, "e20", click())
    assert [await soon(slack.acks.get()) for _ in range(21)] == [f"e{n}" for n in range(21)]
    assert [each.text for each in taken[:20]] == [f"message {n}" for n in range(20)]
    assert taken[20].kind == "answer"


async def test_what_is_not_for_us_is_acknowledged_too(slack, make_socket):
    _, taken, connection = await make_socket()
    await slack.push(connection, "e1", {"command": "/weather", "text": "now"})
    await slack.push(connection, "e2", event(bot_id="B2", text="hi", ts="1700000000.000100"))
    await connection.send_str("Ping from applink")
    await connection.send_str("[1]")
    await connection.send_bytes(b"\xff")
    await connection.send_json({"envelope_id": "e3", "type": "events_api"})
    assert [await soon(slack.acks.get()) for _ in range(3)] == ["e1", "e2", "e3"]
    assert not taken


async def test_what_is_not_stored_is_not_acknowledged(slack, make_socket):
    channel, taken, connection = await make_socket()
    failures = [OSError("the database is away"), RuntimeError("a mistake")]
    tried = asyncio.Queue()

    async def accept(found):
        tried.put_nowait(found)
        if failures:
            raise failures.pop()
        taken.extend(found)

    channel.accept = accept
    for number in range(3):
        await slack.push(connection, f"e{number}", direct(1))
        await soon(tried.get())
    assert await soon(slack.acks.get()) == "e2"
    assert slack.acks.empty()
    assert len(taken) == 1


async def test_while_messages_are_stored_others_are_received(slack, make_socket):
    channel, _, connection = await make_socket()
    batches = asyncio.Queue()
    stored = asyncio.Event()

    async def accept(found):
        batches.put_nowait([each.text for each in found])
        await stored.wait()

    channel.accept = accept
    await slack.push(connection, "e0", direct(0, "0"))
    assert await soon(batches.get()) == ["0"]
    for number in range(1, 6):
        await slack.push(connection, f"e{number}", direct(number, str(number)))
    await connection.ping()
    await soon(slack.pongs.get())  # by then, what was sent before has been received
    assert slack.acks.empty()
    stored.set()
    assert [await soon(slack.acks.get()) for _ in range(6)] == [f"e{n}" for n in range(6)]
    rest = []
    while not batches.empty():
        rest += batches.get_nowait()
    assert rest == ["1", "2", "3", "4", "5"]


async def test_a_new_socket_is_opened_when_slack_asks(slack, make_socket):
    _, taken, connection = await make_socket()
    await slack.push(connection, "e1", direct(1))
    await connection.send_json({"type": "disconnect", "reason": "refresh_requested"})
    another = await soon(slack.connected.get())
    await slack.push(another, "e2", direct(2))
    assert [await soon(slack.acks.get()) for _ in range(2)] == ["e1", "e2"]
    assert len(taken) == 2
    assert len(slack.calls_of("apps.connections.open")) == 2


async def test_a_new_socket_is_opened_when_one_is_lost(slack, make_socket):
    _, _, connection = await make_socket()
    connection._req.transport.abort()
    another = await soon(slack.connected.get())
    await slack.push(another, "e1", direct(1))
    assert await soon(slack.acks.get()) == "e1"


async def test_a_silent_socket_is_replaced(slack, make_socket, monkeypatch):
    monkeypatch.setattr(socket, "HEARTBEAT", 0.2)
    slack.answers_pings = False
    await make_socket()
    assert await soon(slack.connected.get())


async def test_each_try_has_a_new_url(slack, make_socket, caplog):
    slack.refuses_sockets = 1
    slack.faults["apps.connections.open"] += [
        Fail("ratelimited", 429, {"Retry-After": "1"}),
        Fail(None, 503),
        Text('{"ok": true, "url": 5}'),
    ]
    _, _, connection = await make_socket()
    await slack.push(connection, "e1", direct(1))
    assert await soon(slack.acks.get()) == "e1"
    assert len(slack.calls_of("apps.connections.open")) == 5
    assert "WSServerHandshakeError" in caplog.text
    assert "ticket-" not in caplog.text


async def test_a_wrong_app_token_is_said_in_the_log(slack, make_channel, caplog):
    await make_channel(app_token="xapp-wrong")
    async with asyncio.timeout(WAIT):
        while "invalid_auth" not in caplog.text:  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.01)
    assert "xapp-wrong" not in caplog.text


async def test_a_closed_channel_has_no_connection_and_no_task(slack, make_socket):
    channel, _, connection = await make_socket()
    before = asyncio.all_tasks()
    await channel.close()
    await soon(slack.disconnected.get())
    assert connection.closed
    assert not any("socket of channel" in each.get_name() for each in asyncio.all_tasks())
    assert len(asyncio.all_tasks()) < len(before)
    await channel.close()


def test_pauses_between_tries_grow_and_end():
    assert socket._pause(0) == 0
    assert [socket._pause(n) for n in (1, 2, 3)] == [0.5, 1, 2]
    assert socket._pause(100_000) == 60
