"""What waits: for its turn, for somebody's answer, for a channel; and what ends while it does."""

import asyncio
import dataclasses
import json

import pytest
import yaml

from checkrail.channels.protocol import Address, Inbound
from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.sessions.incoming import Incoming
from checkrail.store import deliveries, messages, workers

from .conftest import FILE, open_desk

pytestmark = pytest.mark.usefixtures("database_url")

SLOW = """
import asyncio
import pathlib

from checkrail.testing import ScriptedModel

GO = pathlib.Path(__file__).parent / "go"


async def slowly(request):
    while not GO.exists():
        await asyncio.sleep(0.02)
    return "at last"


parrot = ScriptedModel(slowly)
"""
BLOCKED = (
    FILE + "hooks: {before_inbound: [{name: no, when: \"content == 'no'\", block: Not that}]}\n"
)


async def until(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - other tasks' work
            await asyncio.sleep(0.02)


async def status_of(desk, told):
    return (await desk.sessions.get_message(told["message_id"])).status


async def test_the_reply_to_a_blocked_message_waits_for_those_before_it(project):
    file = project(BLOCKED, agents=SLOW)
    async with open_desk(file) as desk:
        first = (await desk.say("yes", wait=False)).json()
        await until(lambda: _is(desk, first, "running"))
        second = (await desk.say("no", wait=False)).json()
        await until(lambda: _is(desk, second, "replying"))
        await asyncio.sleep(0.3)
        assert await status_of(desk, second) == "replying"
        (file.parent / "go").touch()
        ended = await desk.sessions.wait_for_reply(second["message_id"])
        before = await desk.sessions.get_message(first["message_id"])
        assert (before.reply, ended.reply) == ("at last", "Not that")
        assert before.ended_at <= ended.ended_at


async def _is(desk, told, status):
    return await status_of(desk, told) == status


LATE = """
import asyncio
import pathlib

from checkrail import Hooks

hooks = Hooks()
HERE = pathlib.Path(__file__).parent


@hooks.before_inbound(timeout=60)
async def wait(event):
    (HERE / "asked").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
"""


async def test_a_message_does_not_run_in_a_session_that_ended_at_the_door(project):
    file = project(FILE + "hooks: {path: './hooks.py:hooks'}\n", LATE)
    async with open_desk(file) as desk:
        told = (await desk.say("Hello", wait=False)).json()

        async def is_asked():
            return (file.parent / "asked").exists()

        await until(is_asked)
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        (file.parent / "go").touch()
        row = await desk.sessions.wait_for_reply(told["message_id"])
        assert (row.status, row.refusal["status"]) == ("blocked", 409)
        assert "has ended (requested)" in row.reply
        assert (await desk.client.get("/runs")).json() == []


ASKED = FILE + "hooks: {before_%s: [{name: look, ask: Is this in order?}]}\n"


@pytest.mark.parametrize("point", ["inbound", "outbound"])
async def test_what_waits_for_an_answer_ends_with_its_session(project, point):
    async with open_desk(project(ASKED % point)) as desk:
        told = (await desk.say("Hello", wait=False)).json()
        question = await desk.wait_for_question()
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        row = await desk.sessions.wait_for_reply(told["message_id"])
        assert (row.status, row.reply) == ("cancelled", None)
        assert "has ended (requested)" in row.error
        found = (await desk.client.get(f"/approvals/{question['approval_id']}")).json()
        assert found["status"] == "void"


RUN_ASKS = FILE + "hooks: {on_run_start: [{name: look, ask: Is this in order?}]}\n"


@pytest.mark.parametrize("file", [ASKED % "inbound", ASKED % "outbound", RUN_ASKS])
async def test_nobody_is_asked_about_a_message_for_ever(project, file):
    limited = file.replace("idle_minutes: 0", "idle_minutes: 0.005\n  answer_minutes: 0.005")
    async with open_desk(project(limited)) as desk:
        told = (await desk.say("Hello", wait=False)).json()
        async with asyncio.timeout(60):
            row = await desk.sessions.wait_for_reply(told["message_id"])
        assert row.status in ("blocked", "withheld")

        async def has_ended():
            session = (await desk.client.get(f"/sessions/{told['session_id']}")).json()
            return session["reason"] == "idle"

        await until(has_ended)


MAILBOX = """
from checkrail.channels import Channel, Refused, Sent


class Mailbox(Channel):
    singleton = True
    sent = []

    async def send(self, to, part, *, delivery_id):
        if "two" in part.text:
            raise Refused("not that")
        Mailbox.sent.append(part.text)
        return Sent(delivery_id)

    async def close(self):
        self.closed = True
"""
BOX = Address("mailbox", "1", "hall")


def with_mailbox(**channel):
    options = {"type": "./mailbox.py:Mailbox", **channel}
    return FILE + yaml.safe_dump({"channels": {"mailbox": options}})


async def test_what_follows_a_part_that_never_arrives_is_given_up(project):
    async with open_desk(project(with_mailbox(), mailbox=MAILBOX)) as desk:
        channel = desk.sessions.host.channels["mailbox"]
        now = desk.services.database.time()
        payload = {"address": dataclasses.asdict(BOX)}
        owed = [
            deliveries.Delivery(
                delivery_id=f"{run}-{text}",
                run_id=run,
                address="hall",
                kind="reply",
                payload=json.dumps(payload | {"text": text}).encode(),
                status="owed",
                attempts=0,
                due_at=now,
                created_at=now,
            )
            for run, text in (("a", "one"), ("a", "two"), ("a", "three"), ("b", "four"))
        ]

        def owe(tx):
            deliveries.add(tx, owed)
            tx.publish("work", "")

        await desk.services.database.write(owe)

        async def is_sent():
            return "four" in channel.sent

        await until(is_sent)
        assert channel.sent == ["one", "four"]
        rows = await desk.services.database.read(lambda reads: deliveries.of_run(reads, "a"))
        assert [row.status for row in rows] == ["done", "dead", "dead"]
        assert rows[2].last_error == "a part before it could not be sent"


async def test_who_lost_a_channel_to_another_server_receives_no_more(project):
    async with open_desk(project(with_mailbox(), mailbox=MAILBOX)) as desk:
        host, database = desk.sessions.host, desk.services.database
        old = host.channels["mailbox"]
        mine = desk.services.runs.parts.worker_id

        def take_over(tx):
            messages.release_receivers(tx, mine)
            workers.add(tx, "other", ("there", 1), tx.time(), 60.0)
            assert messages.hold_receiver(tx, "mailbox", "other")

        await database.write(take_over)
        await host.open_channels()
        assert old.closed
        assert host.channels["mailbox"] is not old
        await database.write(lambda tx: messages.release_receivers(tx, "other"))
        await host.open_channels()
        said = Inbound("message", "1", BOX, "mailbox:ada", "Hello")
        await host.channels["mailbox"].accept([said])

        async def is_sent():
            return "Hello, you say?" in old.sent

        await until(is_sent)


@pytest.mark.parametrize("named", [{"agent": "nobody"}, {}], ids=["unknown", "none"])
async def test_a_message_that_no_agent_answers_is_kept_and_shown(project, named):
    two = with_mailbox(**named).replace(
        "sessions:", "  other: {model: ./agents.py:parrot}\nsessions:"
    )
    async with open_desk(project(two, mailbox=MAILBOX)) as desk:
        channel = desk.sessions.host.channels["mailbox"]
        await channel.accept([Inbound("message", "1", BOX, "mailbox:ada", "Hello")])

        async def has_failed():
            [row] = (await desk.client.get("/messages")).json()
            return row["status"] == "failed"

        await until(has_failed)
        [row] = (await desk.client.get("/messages")).json()
        assert "nobody" in row["error"]
        assert row["content"] == "Hello"
        assert row["reply"].startswith("Something went wrong")


ROUTED = "hooks: {before_inbound: [{name: route, set: {metadata.agent: parrot}}]}\n"


async def test_a_message_that_no_agent_answers_may_be_sent_to_one(project):
    file = with_mailbox(agent="nobody") + ROUTED
    async with open_desk(project(file, mailbox=MAILBOX)) as desk:
        channel = desk.sessions.host.channels["mailbox"]
        await channel.accept([Inbound("message", "1", BOX, "mailbox:ada", "Hello")])

        async def is_answered():
            [row] = (await desk.client.get("/messages")).json()
            return row["reply"] == "Hello, you say?"

        await until(is_answered)


async def test_a_message_that_came_twice_has_one_run(project):
    async with open_desk(project()) as desk:
        ada = Principal(User("ada"), "ada")
        said = Incoming(channel="door", external_id="1", sender=ada, text="Hello", address=BOX)
        rows = await asyncio.gather(*(desk.sessions.accept(said) for _ in range(8)))
        assert len({row.message_id for row in rows}) == 1
        await desk.sessions.wait_for_reply(rows[0].message_id)
        assert len((await desk.client.get("/runs")).json()) == 1
