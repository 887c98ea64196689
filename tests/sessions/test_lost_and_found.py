"""Messages that nobody works on, though it looks as if somebody did, are handled all the same."""

import asyncio
import dataclasses

import pytest

from checkrail.runs.retention import forget_expired
from checkrail.store import messages, tables, threads

from .conftest import FILE, open_desk

pytestmark = pytest.mark.usefixtures("database_url")


async def test_a_message_that_was_claimed_by_nobodys_task_is_given_back(project):
    async with open_desk(project()) as desk:
        told = (await desk.say("Hello")).json()
        done = await desk.sessions.get_message(told["message_id"])
        same = {"seq": 0, "status": "received", "ended_at": None, "reply": None, "refusal": None}
        new = {"message_id": "m2", "external_id": "m2", "run_id": told["message_id"]}
        worker_id = desk.services.runs.parts.worker_id
        stray = dataclasses.replace(done, **same, **new, worker_id=worker_id)
        await desk.services.database.write(lambda tx: messages.add(tx, stray))
        async with asyncio.timeout(60):
            row = await desk.sessions.wait_for_reply("m2")
        assert row.reply == "Hello, you say?"


ASK = FILE + "hooks: {before_inbound: [{name: look, ask: Is this in order?}]}\n"


async def test_a_thread_lives_on_while_somebody_is_asked_about_a_message(project):
    async with open_desk(project(ASK)) as desk:
        told = (await desk.say("Hello", wait=False)).json()
        question = await desk.wait_for_question()
        thread_id = told["thread_id"]

        def forget(tx):
            threads.update_thread(tx, thread_id, expires_at=1.0)
            return forget_expired(tx, thread_id, 2.0)

        assert not await desk.services.database.write(forget)
        await desk.client.post(f"/approvals/{question['approval_id']}/approve", json={})
        row = await desk.sessions.wait_for_reply(told["message_id"])
        assert row.reply == "Hello, you say?"


async def test_a_message_whose_run_ended_unnoticed_is_replied_to_all_the_same(project):
    async with open_desk(project()) as desk:
        told = (await desk.say("Hello")).json()

        def forget(tx):
            query = tables.messages.update().where(
                tables.messages.c.message_id == told["message_id"]
            )
            tx.execute(query.values(status="running", reply=None, ended_at=None))

        await desk.services.database.write(forget)
        await desk.sessions.worker.recover()
        row = await desk.sessions.wait_for_reply(told["message_id"])
        assert (row.status, row.reply) == ("answered", "Hello, you say?")
