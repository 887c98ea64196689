"""Runs that bring a message over the API: the hooks on messages and sessions see it, if wanted."""

import asyncio
import json

import pytest

from checkrail.channels.protocol import Address
from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.sessions.incoming import Incoming

from .conftest import FILE, open_desk

pytestmark = pytest.mark.usefixtures("database_url")

ON = FILE.replace("idle_minutes: 0", "idle_minutes: 0\n  from_runs: true")
GRAPH_FILE = """
agents:
  desk: ./graph.py:graph
sessions: { idle_minutes: 0, from_runs: true }
"""
IDLE = "idle_minutes: 0"
GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def reply(state: MessagesState):
    return {"messages": [AIMessage(f"{state['messages'][-1].text}, you say?")]}


graph = StateGraph(MessagesState).add_node(reply).add_edge(START, "reply").compile()
"""


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


class Talk:
    """Somebody who talks to the agent by runs, in each of the ways that there are."""

    def __init__(self, desk, kind):
        self.desk = desk
        self.kind = kind
        self.session_id = None

    async def say(self, text):
        if self.kind == "graph":
            return await self._run_graph(text)
        body = {"agent_name": "parrot", "parameters": {"prompt": text}, "execution_mode": "sync"}
        if self.session_id is not None:
            body["session_id"] = self.session_id
        told = (await self.desk.client.post("/runs", json=body)).json()
        self.session_id = told["session_id"]
        self.run = told
        return told["result_text"]

    async def _run_graph(self, text):
        if self.session_id is None:
            self.session_id = (await self.desk.client.post("/threads", json={})).json()["thread_id"]
        body = {"assistant_id": "desk", "input": said(text)}
        answer = await self.desk.client.post(f"/threads/{self.session_id}/runs/wait", json=body)
        [self.run, *_] = (await self.desk.client.get(f"/threads/{self.session_id}/runs")).json()
        told = answer.json()
        return told["messages"][-1]["content"] if "messages" in told else None

    async def texts(self):
        """Return what is kept of the conversation."""
        state = (await self.desk.client.get(f"/threads/{self.run['thread_id']}/state")).json()
        return str(state["values"])


@pytest.fixture(params=["loop", "graph"])
def talk(request, project):
    def open_talk(hooks="", idle_minutes=0):
        files = {"file": GRAPH_FILE, "graph": GRAPH} if request.param == "graph" else {"file": ON}
        files["file"] = files["file"].replace(IDLE, f"idle_minutes: {idle_minutes}") + hooks
        return project(**files), request.param

    return open_talk


async def fired(desk):
    rows = await desk.records()
    return [row["point"] for row in rows if row["event_type"] == "hook_complete"]


async def test_the_points_of_messages_are_fired_for_runs_and_in_order(talk, project):
    hooks = """
hooks:
  path: ./hooks.py:hooks
"""
    file, kind = talk(hooks)
    (file.parent / "hooks.py").write_text(ALL)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        assert await some.say("Hello") == "Hello, you say?"
        assert await some.say("Bye") == "Bye, you say?"
        points = await fired(desk)
        first = ["on_session_start", "before_inbound", "on_result", "before_outbound"]
        assert points == [*first, *first[1:]]
        found = [row for row in await desk.records() if row["point"] == "before_outbound"]
        assert {row["session_id"] for row in found} == {some.session_id}
        assert {row["run_id"] for row in found} >= {some.run["run_id"]}
        await desk.client.post(f"/sessions/{some.session_id}/end")
        await desk.wait_for_record("on_session_end")


ALL = """
from checkrail import Hooks

hooks = Hooks()


@hooks.on_session_start
async def opened(event): ...


@hooks.before_inbound
async def door(event): ...


@hooks.on_result
async def result(event): ...


@hooks.before_outbound
async def exit(event): ...


@hooks.on_session_end
async def closed(event): ...
"""


async def test_without_the_setting_they_are_not(project):
    async with open_desk(project(FILE + "hooks:\n  path: ./hooks.py:hooks\n", ALL)) as desk:
        assert await Talk(desk, "loop").say("Hello") == "Hello, you say?"
        assert await fired(desk) == ["on_result"]


CHANGED = """
hooks:
  before_inbound: [{name: door, redact: {patterns: ["41+"]}}]
  before_outbound: [{name: exit, append: " (checked)"}]
"""


async def test_a_message_and_its_reply_may_be_changed(talk):
    file, kind = talk(CHANGED)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        told = await some.say("My card is 4111")
        assert told.endswith(", you say? (checked)")
        assert "4111" not in told
        assert "4111" not in await some.texts()
        assert "(checked)" in await some.texts()
        run = (await desk.client.get(f"/runs/{some.run['run_id']}")).json()
        assert "4111" not in json.dumps(run)


STOPPED = """
hooks:
  before_inbound:
    - {name: closed, when: "content.contains('closed')", block: We are closed}
    - {name: faq, when: "content.contains('hours')", stop: Nine to five}
  before_outbound: [{name: names, when: "content.contains('Mallory')", block: No names}]
"""


async def test_a_message_may_be_blocked_or_answered_and_a_reply_withheld(talk):
    file, kind = talk(STOPPED)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        assert await some.say("What are your hours?") == "Nine to five"
        for text, reason in (("closed?", "We are closed"), ("Mallory", "No names")):
            assert await some.say(text) is None
            run = (await desk.client.get(f"/runs/{some.run['run_id']}")).json()
            assert (run["status"], run["block_reason"]) == ("error", reason)
            if kind == "loop":  # a graph's own checkpoints are not covered
                assert "you say" not in await some.texts()


async def test_nothing_of_a_withheld_reply_is_streamed(talk):
    file, kind = talk(STOPPED)
    async with open_desk(file) as desk:
        body = {
            "assistant_id": "desk" if kind == "graph" else "parrot",
            "input": said("Mallory") if kind == "graph" else {"prompt": "Mallory"},
            "stream_mode": ["values", "messages", "updates"],
        }
        answer = await desk.client.post("/runs/stream", json=body)
        assert "No names" in answer.text
        assert "you say" not in answer.text


ASKED = """
hooks:
  before_inbound: [{name: check, when: "content.contains('danger')", ask: May this pass?}]
  on_run_start: [{name: begin, ask: May it begin?}]
  on_result: [{name: see, ask: Is it right?}]
  before_outbound: [{name: look, when: "content.contains('danger')", ask: May this leave?}]
"""


async def test_people_are_asked_once_at_each_point(talk):
    file, kind = talk(ASKED)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        telling = asyncio.create_task(some.say("danger"))
        points = []
        for _ in range(4):
            asked = await desk.wait_for_question()
            points.append(asked["point"])
            path = f"/approvals/{asked['approval_id']}/approve"
            assert (await desk.client.post(path, json={})).status_code == 200
        async with asyncio.timeout(60):
            assert await telling == "danger, you say?"
        assert points == ["before_inbound", "on_run_start", "on_result", "before_outbound"]


REFUSED = """
hooks:
  on_session_start: [{name: members, block: Members only}]
"""


async def test_a_session_of_runs_may_be_refused(talk):
    file, kind = talk(REFUSED)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        assert await some.say("Hello") is None
        session = (await desk.client.get(f"/sessions/{some.session_id}")).json()
        assert session["reason"] == "refused: Members only"


async def test_a_session_of_runs_ends_when_it_is_idle_and_begins_anew(talk):
    file, kind = talk("hooks:\n  path: ./hooks.py:hooks\n", idle_minutes=0.005)
    (file.parent / "hooks.py").write_text(ALL)
    async with open_desk(file) as desk:
        some = Talk(desk, kind)
        assert await some.say("Hello") == "Hello, you say?"
        await desk.wait_for_record("on_session_end")
        if kind == "loop":  # who names a session that has ended is told so
            told = await desk.client.post(
                "/runs", json={"agent_name": "parrot", "session_id": some.session_id}
            )
            assert told.status_code == 409
            some.session_id = None
        assert await some.say("Again") == "Again, you say?"
        points = await fired(desk)
        assert points.count("on_session_start") == 2


SLOW = """
import asyncio

from checkrail import Hooks

hooks = Hooks()


@hooks.on_session_start
async def opened(event):
    await asyncio.sleep(0.3)
"""


async def test_a_session_begins_once_whatever_is_said_first_and_at_once(project):
    async with open_desk(project(ON + "hooks:\n  path: ./hooks.py:hooks\n", SLOW)) as desk:
        ann = Principal(User("ann"))
        for number in range(6):
            place = Address("door", "", "hall", f"thread-{number}")
            said = {"channel": "door", "external_id": f"m{number}", "sender": ann, "text": "Hello"}
            row = await desk.sessions.accept(Incoming(**said, address=place))
        body = {"agent_name": "parrot", "parameters": {"prompt": "Hi"}, "execution_mode": "sync"}
        told = await asyncio.gather(
            *(
                desk.client.post("/runs", json=body | {"session_id": row.session_id})
                for _ in range(2)
            )
        )
        assert {answer.json()["result_text"] for answer in told} == {"Hi, you say?"}
        assert (await desk.sessions.wait_for_reply(row.message_id)).status == "answered"
        began = await desk.records(point="on_session_start", event_type="hook_start")
        assert [each["session_id"] for each in began] == [row.session_id]


async def test_what_is_no_message_passes_by(project):
    function = "def work(parameters):\n    return {'seen': parameters}\n"
    more = "\n  worker: { type: procedural, path: './work.py:work' }\nsessions:"
    file = project(
        ON.replace("\nsessions:", more) + "hooks:\n  path: ./hooks.py:hooks\n", ALL, work=function
    )
    async with open_desk(file) as desk:
        body = {"agent_name": "worker", "parameters": {"x": 1}, "execution_mode": "sync"}
        told = (await desk.client.post("/runs", json=body)).json()
        assert told["result_data"] == {"seen": {"x": 1}}
        assert await fired(desk) == ["on_result"]
