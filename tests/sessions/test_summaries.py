"""When a session has ended, an agent sums it up, once."""

import asyncio

import pytest
from sqlalchemy import update

from checkrail.config import ConfigError, load
from checkrail.store.tables import deliveries

from .conftest import FILE, open_desk

pytestmark = pytest.mark.usefixtures("database_url")

AGENTS = """
import asyncio
import pathlib

from checkrail.testing import ScriptedModel

HERE = pathlib.Path(__file__).parent


def repeat(request):
    said = [message for message in request.messages if message["role"] == "user"][-1]["content"]
    return f"{said}, you say?"


async def sum_up(request):
    with (HERE / "asked.txt").open("a") as file:
        file.write(request.messages[-1]["content"] + "\\n---\\n")
    while (HERE / "wait").exists():
        await asyncio.sleep(0.01)
    if (HERE / "fail").exists():
        raise RuntimeError("no model")
    return "They talked."


parrot = ScriptedModel(repeat)
summarizer = ScriptedModel(sum_up)
"""
SUMMED = FILE.replace(
    "sessions:",
    "  summarizer: {model: ./agents.py:summarizer, on_crash: restart}\n"
    "server: {stop_grace_seconds: 0.2}\nsessions:\n  agent: parrot",
)
HOOKS = """
hooks:
  on_session_end:
    - name: summary
      builtin: session_summary
      config: {agent: summarizer}
"""


async def find_summary(desk, session_id):
    """Return the summary of a session as soon as there is one."""
    async with asyncio.timeout(60):
        while True:
            found = (await desk.client.get(f"/sessions/{session_id}")).json()
            if "summary" in found["metadata"]:
                return found["metadata"]["summary"]
            await asyncio.sleep(0.02)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is a file that it waits for
            await asyncio.sleep(0.02)


async def summary_runs(desk):
    found = (await desk.client.get("/runs")).json()
    return [run for run in found if run["agent_name"] == "summarizer"]


async def test_the_summary_of_a_session_is_kept_in_its_metadata(project, tmp_path):
    async with open_desk(project(SUMMED + HOOKS, agents=AGENTS)) as desk:
        told = (await desk.say("Good morning")).json()
        await desk.say("And you?")
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        assert await find_summary(desk, told["session_id"]) == "They talked."
        [run] = await summary_runs(desk)
        assert run["session_id"] != told["session_id"]
    asked = (tmp_path / "project" / "asked.txt").read_text()
    assert asked == (
        "Summarize this conversation in a few sentences.\n\n<conversation>\n"
        "user: Good morning\n\nagent: Good morning, you say?\n\n"
        "user: And you?\n\nagent: And you?, you say?\n</conversation>\n---\n"
    )


async def test_the_agent_is_given_the_end_of_a_long_conversation(project, tmp_path):
    hooks = HOOKS.replace("summarizer}", "summarizer, max_characters: 9, instructions: Sum up}")
    async with open_desk(project(SUMMED + hooks, agents=AGENTS)) as desk:
        told = (await desk.say("a" * 1000)).json()
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        await find_summary(desk, told["session_id"])
    asked = (tmp_path / "project" / "asked.txt").read_text()
    assert asked == "Sum up\n\n<conversation>\n you say?\n</conversation>\n---\n"


async def test_an_end_that_is_delivered_again_is_summed_up_once(project, tmp_path):
    async with open_desk(project(SUMMED + HOOKS, agents=AGENTS)) as desk:
        told = (await desk.say("Hello")).json()
        (tmp_path / "project" / "wait").touch()
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        await until((tmp_path / "project" / "asked.txt").exists)
        await deliver_again(desk)
        (tmp_path / "project" / "wait").unlink()
        assert await find_summary(desk, told["session_id"]) == "They talked."
        await deliver_again(desk)
        assert len(await summary_runs(desk)) == 1


async def deliver_again(desk):
    """Have the end of the session delivered once more, and wait until it was."""

    def read_statuses(reads):
        query = deliveries.select().where(deliveries.c.kind == "on_session_end")
        return [row.status for row in reads.execute(query)]

    async def until_done():
        async with asyncio.timeout(60):
            while await desk.services.database.read(read_statuses) != ["done"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def owe(tx):
        again = update(deliveries).where(deliveries.c.kind == "on_session_end")
        tx.execute(again.values(status="owed", worker_id=None, ended_at=None))
        tx.publish("work", "")

    await until_done()
    await desk.services.database.write(owe)
    await until_done()


async def test_a_summary_survives_the_server_that_began_it(project, tmp_path):
    file = project(SUMMED + HOOKS, agents=AGENTS)
    (tmp_path / "project" / "wait").touch()
    async with open_desk(file) as desk:
        told = (await desk.say("Hello")).json()
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        await until((tmp_path / "project" / "asked.txt").exists)
    (tmp_path / "project" / "wait").unlink()
    async with open_desk(file) as desk:
        assert await find_summary(desk, told["session_id"]) == "They talked."
        assert len(await summary_runs(desk)) == 1


async def test_an_agent_that_fails_leaves_no_summary_and_a_record(project, tmp_path):
    async with open_desk(project(SUMMED + HOOKS, agents=AGENTS)) as desk:
        (tmp_path / "project" / "fail").touch()
        told = (await desk.say("Hello")).json()
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        records = await desk.wait_for_record("on_session_end")
        assert records[-1]["event_type"] == "hook_failed"
        session = (await desk.client.get(f"/sessions/{told['session_id']}")).json()
        assert session["metadata"] == {}
        assert session["reason"] is not None


async def test_a_session_in_which_nothing_was_said_needs_no_summary(project):
    hooks = HOOKS.replace("hooks:", "hooks:\n  before_inbound: [{block: No}]")
    async with open_desk(project(SUMMED + hooks, agents=AGENTS)) as desk:
        told = (await desk.say("Hello")).json()["info"]
        await desk.client.post(f"/sessions/{told['session_id']}/end")
        records = await desk.wait_for_record("on_session_end")
        assert records[-1]["event_type"] == "hook_complete"
        assert await summary_runs(desk) == []


def test_an_agent_that_is_not_there_is_an_error_of_the_file(project):
    with pytest.raises(ConfigError, match="there is no agent 'summariser'"):
        load(project(SUMMED + HOOKS.replace("summarizer}", "summariser}"), agents=AGENTS))
