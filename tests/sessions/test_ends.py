"""Sessions end when somebody says so, when they are idle, and when there are too many of them."""

import asyncio
import json

import pytest

from .conftest import FILE, open_desk

ENDED = """
import json
import pathlib

from checkrail import Hooks

hooks = Hooks()
HERE = pathlib.Path(__file__).parent


@hooks.on_session_end
async def note(event, session):
    told = [session.session_id, session.user_id, session.reason, list(session.thread_ids)]
    with (HERE / "ended.jsonl").open("a") as file:
        file.write(json.dumps(told) + "\\n")
"""
HOOKS = """
hooks:
  path: ./hooks.py:hooks
"""


pytestmark = pytest.mark.usefixtures("database_url")


def with_sessions(**said):
    more = "".join(f"  {key}: {value}\n" for key, value in said.items())
    return FILE.replace("  idle_minutes: 0\n", more) + HOOKS


def ends(tmp_path):
    file = tmp_path / "project" / "ended.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is another process that it waits for
            await asyncio.sleep(0.02)


async def test_an_idle_session_ends_once_and_its_hooks_are_told_of_its_threads(project, tmp_path):
    file = project(with_sessions(idle_minutes=0.005), ENDED)
    async with open_desk(file) as desk:
        told = (await desk.say("Hello")).json()
        await until(lambda: ends(tmp_path))
        session = (await desk.client.get(f"/sessions/{told['session_id']}")).json()
        assert session["reason"] == "idle"
        anew = (await desk.say("Hello again")).json()
        assert anew["session_id"] != told["session_id"]
        assert anew["thread_id"] != told["thread_id"]
        await until(lambda: len(ends(tmp_path)) == 2)
    first, second = ends(tmp_path)
    assert first == [told["session_id"], "anonymous", "idle", [told["thread_id"]]]
    assert second == [anew["session_id"], "anonymous", "idle", [anew["thread_id"]]]


SLOW = """
import asyncio
import pathlib

from checkrail.testing import ScriptedModel

GO = pathlib.Path(__file__).parent / "go"


async def slowly(request):
    while not GO.exists():
        await asyncio.sleep(0.01)
    return "at last"


parrot = ScriptedModel(slowly)
"""


async def test_a_session_in_which_a_run_is_under_way_is_not_idle(project, tmp_path):
    file = project(with_sessions(idle_minutes=0.002), ENDED, SLOW)
    async with open_desk(file) as desk:
        told = (await desk.say("Hello", wait=False)).json()
        await until_running(desk, told)
        await asyncio.sleep(0.5)
        assert ends(tmp_path) == []
        (tmp_path / "project" / "go").touch()
        row = await desk.sessions.wait_for_reply(told["message_id"])
        assert row.reply == "at last"
        await until(lambda: ends(tmp_path))


async def until_running(desk, told):
    async for row in desk.sessions.follow_message(told["message_id"]):
        if row.status == "running":
            return


@pytest.mark.parametrize("limit", ["per_user", "in_all"])
async def test_the_oldest_idle_sessions_make_room_for_new_ones(project, tmp_path, limit):
    file = project(with_sessions(idle_minutes=0, **{limit: 2}), ENDED)
    async with open_desk(file) as desk:
        ids = []
        for number in range(4):
            said = await desk.say("Hello", channel=f"c{number}")
            ids.append(said.json()["session_id"])
        await until(lambda: len(ends(tmp_path)) == 2)
        assert sorted(each[0] for each in ends(tmp_path)) == sorted(ids[:2])
        assert {each[2] for each in ends(tmp_path)} == {"pruned"}
        left = (await desk.client.get("/sessions?open=true")).json()
        assert {session["session_id"] for session in left} == set(ids[2:])


async def test_one_user_does_not_prune_the_sessions_of_another(project, tmp_path):
    file = project(with_sessions(idle_minutes=0, per_user=1), ENDED)
    async with open_desk(file) as desk:
        for user in ("ada", "bob"):
            assert (await desk.say("Hello", user_id=user)).status_code == 200
        left = (await desk.client.get("/sessions?open=true")).json()
    assert {session["user_id"] for session in left} == {"ada", "bob"}
    assert ends(tmp_path) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_sessions_end_with_their_server_if_the_project_says_so(project, tmp_path):
    file = project(with_sessions(idle_minutes=0, end_at_shutdown="true"), ENDED)
    async with open_desk(file) as desk:
        told = (await desk.say("Hello")).json()
    async with open_desk(file):  # whoever comes next tells the hooks
        await until(lambda: ends(tmp_path))
    assert ends(tmp_path)[0][::2] == [told["session_id"], "shutdown"]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_sessions_go_on_where_other_servers_may_serve_them(project, tmp_path):
    file = project(with_sessions(idle_minutes=0, end_at_shutdown="true"), ENDED)
    async with open_desk(file) as desk:
        told = (await desk.say("Hello")).json()
    async with open_desk(file) as desk:
        session = (await desk.client.get(f"/sessions/{told['session_id']}")).json()
    assert session["ended_at"] is None
    assert ends(tmp_path) == []


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_two_servers_tell_of_an_end_once_and_keep_messages_in_order(project, tmp_path):
    file = project(with_sessions(idle_minutes=0), ENDED)
    async with open_desk(file) as one, open_desk(file) as other:
        sent = [
            (await (one, other)[number % 2].say(f"m{number}", wait=False)).json()
            for number in range(12)
        ]
        for row in sent:
            await one.sessions.wait_for_reply(row["message_id"])
        assert len({row["session_id"] for row in sent}) == 1
        state = (await other.client.get(f"/threads/{sent[0]['thread_id']}/state")).json()
        said = [each["content"] for each in state["values"]["messages"] if each["role"] == "user"]
        assert said == [f"m{number}" for number in range(12)]
        session_id = sent[0]["session_id"]
        both = [desk.client.post(f"/sessions/{session_id}/end") for desk in (one, other)]
        answers = sorted(answer.status_code for answer in await asyncio.gather(*both))
        assert answers == [200, 409]
        await until(lambda: ends(tmp_path))
        await asyncio.sleep(0.5)
        assert len(ends(tmp_path)) == 1
