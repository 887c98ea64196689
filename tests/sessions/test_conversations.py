"""What somebody says becomes a run, and its answer a reply, with hooks at every step."""

import asyncio

import pytest

from .conftest import FILE, open_desk

ALL = """
from checkrail import Hooks

hooks = Hooks()


@hooks.on_session_start
async def opened(event): ...


@hooks.before_inbound
async def door(event): ...


@hooks.before_run
async def admitted(event): ...


@hooks.on_run_start
async def started(event): ...


@hooks.before_llm_call
async def asked(event): ...


@hooks.before_final_response
async def finished(event): ...


@hooks.on_result
async def result(event): ...


@hooks.before_outbound
async def exit(event): ...


@hooks.after_run
async def after(event): ...


@hooks.on_session_end
async def closed(event): ...
"""

HOOKS = """
hooks:
  path: ./hooks.py:hooks
"""


def with_hooks(rules):
    return FILE + "hooks:\n" + rules


pytestmark = pytest.mark.usefixtures("database_url")


async def test_a_message_is_answered(project):
    async with open_desk(project()) as desk:
        answer = await desk.say("Good morning")
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["reply"] == "Good morning, you say?"
        assert told["status"] == "answered"
        run = (await desk.client.get(f"/runs/{told['run_id']}")).json()
        assert run["session_id"] == told["session_id"]
        assert run["thread_id"] == told["thread_id"]
        assert run["metadata"]["message"]["message_id"] == told["message_id"]


async def test_a_run_has_what_came_with_its_message(project):
    sent = {"attachments": [{"name": "a.png"}], "metadata": {"page": 4, "agent": "somebody"}}
    async with open_desk(project()) as desk:
        told = (await desk.say("Look", **sent)).json()
        run = (await desk.client.get(f"/runs/{told['run_id']}")).json()
        assert run["metadata"]["message"] == {
            "message_id": told["message_id"],
            "channel": "http",
            "attachments": [{"name": "a.png"}],
            "metadata": {"page": 4},
        }


async def test_a_conversation_goes_on_in_its_session(project):
    async with open_desk(project()) as desk:
        first, second = [(await desk.say(text)).json() for text in ("One", "Two")]
        assert (first["session_id"], first["thread_id"]) == (
            second["session_id"],
            second["thread_id"],
        )
        state = (await desk.client.get(f"/threads/{first['thread_id']}/state")).json()
        said = [message["content"] for message in state["values"]["messages"]]
        assert said == ["One", "One, you say?", "Two", "Two, you say?"]


async def test_every_point_fires_in_order_with_its_ids(project):
    async with open_desk(project(FILE + HOOKS, ALL)) as desk:
        told = (await desk.say("Hello")).json()
        ended = await desk.client.post(f"/sessions/{told['session_id']}/end")
        assert ended.status_code == 200, ended.text
        fired = await desk.wait_for_record("on_session_end")
    points = [record["point"] for record in fired if record["event_type"] == "hook_start"]
    around = [point for point in points if point != "after_run"]
    assert around == [
        "on_session_start",
        "before_inbound",
        "before_run",
        "on_run_start",
        "before_llm_call",
        "before_final_response",
        "on_result",
        "before_outbound",
        "on_session_end",
    ]
    for record in fired:
        assert record["session_id"] == told["session_id"]
        if record["point"] != "on_session_end":
            assert record["thread_id"] == told["thread_id"], record["point"]
            assert record["run_id"] == told["run_id"], record["point"]


async def test_a_message_may_be_changed_at_the_door_and_its_reply_at_the_exit(project):
    hooks = """
from checkrail import Continue, Hooks

hooks = Hooks()


@hooks.before_inbound
async def polite(event, message):
    return Continue("please: " + message.content)


@hooks.before_outbound
async def signed(event, message):
    return Continue(message.content + " -- the desk")
"""
    async with open_desk(project(FILE + HOOKS, hooks)) as desk:
        told = (await desk.say("a seat")).json()
    assert told["reply"] == "please: a seat, you say? -- the desk"
    assert told["content"] == "a seat"


BLOCKED = """
  before_inbound: [{name: closed, block: We are closed, status: 429, retry_after: 60}]
"""


async def test_a_message_that_is_blocked_starts_no_run_and_is_told_why(project):
    async with open_desk(project(with_hooks(BLOCKED))) as desk:
        answer = await desk.say("Hello", message_id="m1")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "60"
        told = answer.json()
        assert told["message"] == "We are closed"
        assert told["info"]["blocked_by"] == "closed"
        kept = (await desk.client.get(f"/messages/{told['info']['message_id']}")).json()
        assert kept["status"] == "blocked"
        assert kept["reply"] == "We are closed"
        assert kept["refusal"]["point"] == "before_inbound"
        assert (await desk.client.get("/runs")).json() == []


async def test_a_hook_may_reply_in_place_of_the_agent(project):
    hooks = """
from checkrail import Hooks, Stop

hooks = Hooks()


@hooks.before_inbound
async def hours(event, message):
    if message.content == "hours":
        return Stop("From nine to five")
"""
    async with open_desk(project(FILE + HOOKS, hooks)) as desk:
        told = (await desk.say("hours")).json()
        assert (told["status"], told["reply"]) == ("answered", "From nine to five")
        assert (await desk.client.get("/runs")).json() == []
        assert (await desk.say("Hello")).json()["reply"] == "Hello, you say?"


async def test_a_session_may_be_refused_and_the_next_message_tries_anew(project):
    rules = """
  on_session_start: [{name: members, block: Members only}]
  on_session_end: [{name: told, type: python, path: ./hooks.py:ended}]
"""
    hooks = "def ended(event): ...\n"
    async with open_desk(project(with_hooks(rules), hooks)) as desk:
        first, second = [await desk.say(text) for text in ("One", "Two")]
        assert (first.status_code, first.json()["message"]) == (403, "Members only")
        ids = [each.json()["info"]["session_id"] for each in (first, second)]
        assert ids[0] != ids[1]
        session = (await desk.client.get(f"/sessions/{ids[0]}")).json()
        assert session["reason"] == "refused: Members only"
        assert await desk.records(point="on_session_end") == []


WITHHELD = """
  before_outbound:
    - {name: no-numbers, when: "content.contains('4111')", block: A card number}
"""


@pytest.mark.parametrize("fallback", ["", "I cannot say that"])
async def test_a_reply_that_is_blocked_is_not_sent(project, fallback):
    file = FILE.replace("idle_minutes: 0", f"idle_minutes: 0\n  withheld_reply: '{fallback}'")
    async with open_desk(project(file + "hooks:" + WITHHELD)) as desk:
        told = (await desk.say("My card is 4111")).json()
        assert told["status"] == "withheld"
        assert told["reply"] == (fallback or None)
        assert told["refusal"]["reason"] == "A card number"


async def test_a_failed_run_is_answered_with_what_the_project_says(project):
    agents = """
from checkrail.testing import ScriptedModel

parrot = ScriptedModel([RuntimeError("the secret is 1234")] * 3)
"""
    async with open_desk(project(agents=agents)) as desk:
        told = (await desk.say("Hello")).json()
        assert told["status"] == "failed"
        assert told["reply"] == "Something went wrong here. Please try again."


async def test_the_same_message_twice_starts_one_run(project):
    async with open_desk(project()) as desk:
        both = await asyncio.gather(*(desk.say("Hello", message_id="m1") for _ in range(4)))
        assert {answer.status_code for answer in both} == {200}
        assert len({answer.json()["message_id"] for answer in both}) == 1
        assert len((await desk.client.get("/runs")).json()) == 1
        other = await desk.say("Something else", message_id="m1")
        assert other.status_code == 409


async def test_messages_of_a_thread_are_handled_in_order(project):
    async with open_desk(project()) as desk:
        await desk.say("first")
        sent = [(await desk.say(f"m{number}", wait=False)).json() for number in range(20)]
        for row in sent:
            await desk.sessions.wait_for_reply(row["message_id"])
        state = (await desk.client.get(f"/threads/{sent[0]['thread_id']}/state")).json()
        said = [each["content"] for each in state["values"]["messages"] if each["role"] == "user"]
        assert said == ["first", *(f"m{number}" for number in range(20))]


async def test_a_reply_streams_as_it_is_made(project):
    async with open_desk(project()) as desk:
        frames = await desk.stream("Good morning")
    names = [name for name, _ in frames]
    assert names[0] == "message"
    assert names[-1] == "reply"
    assert "".join(data["text"] for name, data in frames if name == "delta") == (
        "Good morning, you say?"
    )


async def test_a_reply_that_was_made_already_streams_too(project):
    async with open_desk(project()) as desk:
        await desk.say("Good morning", message_id="m1")
        frames = await desk.stream("Good morning", message_id="m1")
        told = "".join(data["text"] for name, data in frames if name == "delta")
        assert told == frames[-1][1]["reply"] == "Good morning, you say?"


async def test_nothing_of_a_reply_streams_before_the_hooks_at_the_exit_have_seen_it(project):
    async with open_desk(project(FILE + "hooks:" + WITHHELD)) as desk:
        frames = await desk.stream("My card is 4111")
    assert "delta" not in {name for name, _ in frames}
    assert frames[-1][0] == "reply"
    assert "4111, you say" not in str(frames)


async def test_nobody_says_anything_in_a_session_that_has_ended(project):
    async with open_desk(project()) as desk:
        told = (await desk.say("Hello")).json()
        assert (await desk.client.post(f"/sessions/{told['session_id']}/end")).status_code == 200
        again = await desk.client.post(f"/sessions/{told['session_id']}/end")
        assert again.status_code == 409
        for place in ("session_id", "thread_id"):
            refused = await desk.say("Still there?", **{place: told[place]})
            assert refused.status_code == 409, refused.text
        anew = (await desk.say("Hello again")).json()
        assert anew["session_id"] != told["session_id"]
        assert anew["thread_id"] != told["thread_id"]


ASKED = """
  before_inbound: [{name: check, when: "content.contains('danger')", ask: May this pass?}]
  before_outbound: [{name: look, when: "content.contains('reply')", ask: May this leave?}]
"""


@pytest.mark.parametrize("word", ["danger", "reply"])
@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_people_may_be_asked_about_messages_and_replies(project, word, verdict):
    async with open_desk(project(FILE + "hooks:" + ASKED)) as desk:
        told = (await desk.say(f"some {word}", wait=False)).json()
        asked = await desk.wait_for_question()
        waiting = (await desk.client.get(f"/messages/{told['message_id']}")).json()
        assert waiting["status"] == "waiting"
        answered = await desk.client.post(f"/approvals/{asked['approval_id']}/{verdict}", json={})
        assert answered.status_code == 200, answered.text
        row = await desk.sessions.wait_for_reply(told["message_id"])
        if verdict == "approve":
            assert (row.status, row.reply) == ("answered", f"some {word}, you say?")
        else:
            assert row.status == ("blocked" if word == "danger" else "withheld")


async def test_a_message_with_nobody_to_answer_it_is_refused(project):
    two = FILE.replace("sessions:", "  other:\n    model: ./agents.py:parrot\nsessions:")
    async with open_desk(project(two)) as desk:
        refused = await desk.say("Hello")
        assert refused.status_code == 422
        assert "agent_name" in refused.json()["message"]
        told = (await desk.say("Hello", agent_name="other")).json()
        assert told["agent_name"] == "other"
        assert (await desk.say("Hello", agent_name="nobody")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": ""},
        {"content": ["a", "list"]},
        {"content": "a", "session_id": "no id"},
        {"content": "a", "channel": "a/b"},
        {"content": "a", "message_id": "x" * 300},
        {"content": "a\x00b"},
        {"content": "a", "attachments": [1]},
        {"content": "a", "more": 1},
    ],
)
async def test_what_is_no_message_is_refused(project, body):
    async with open_desk(project()) as desk:
        refused = await desk.client.post("/messages", json=body)
        assert refused.status_code == 422, refused.text


async def test_a_hook_may_send_a_message_to_another_agent(project):
    hooks = """
from dataclasses import replace

from checkrail import Continue, Hooks

hooks = Hooks()


@hooks.before_inbound
async def route(event, message):
    if "invoice" in message.text:
        return Continue(replace(message, metadata={**message.metadata, "agent": "billing"}))
"""
    agents = """
from checkrail.testing import ScriptedModel

parrot = ScriptedModel("the desk" for _ in range(9))
bills = ScriptedModel("billing" for _ in range(9))
"""
    file = FILE.replace(
        "sessions:", "  billing:\n    model: ./agents.py:bills\nsessions:\n  agent: parrot"
    )
    async with open_desk(project(file + HOOKS, hooks, agents)) as desk:
        assert (await desk.say("my invoice")).json()["reply"] == "billing"
        assert (await desk.say("hello")).json()["reply"] == "the desk"
        # A sender has no say in that: what they write there is only data.
        own = (await desk.say("hello", metadata={"agent": "billing"})).json()
        assert own["reply"] == "the desk"
        # Nor can it take the route away.
        own = (await desk.say("my invoice", metadata={"agent": "billing"})).json()
        assert own["reply"] == "billing"


async def test_the_hooks_of_the_agent_that_a_message_was_sent_to_see_its_reply(project):
    file = FILE.replace(
        "sessions:",
        """\
  billing:
    model: ./agents.py:parrot
    hooks: {before_outbound: [{name: shut, block: Not for you}]}
sessions:
  agent: parrot""",
    )
    route = "{name: bills, when: \"content.contains('invoice')\", set: {metadata.agent: billing}}"
    async with open_desk(project(f"{file}hooks: {{before_inbound: [{route}]}}\n")) as desk:
        told = (await desk.say("my invoice")).json()
        assert (told["status"], told["agent_name"]) == ("withheld", "billing")
        frames = await desk.stream("my invoice")
        assert "delta" not in [name for name, _ in frames]
        assert frames[-1][1]["status"] == "withheld"
        assert (await desk.say("hello")).json()["reply"] == "hello, you say?"


TWO_MARKS = """
from checkrail import Continue, Hooks

plain, marking = Hooks(), Hooks()


@marking.before_inbound(name="in")
async def mark_in(event, message):
    return Continue(f"{message.content}<")


@marking.before_outbound(name="out")
async def mark_out(event, message):
    return Continue(f"{message.content}>")
"""


async def test_hooks_come_and_go_while_messages_flow(project):
    """Each point of a message has the hooks of one moment, and none is lost or handled twice."""
    file = project(FILE + "hooks:\n  path: ./hooks.py:marking\n", TWO_MARKS)
    async with open_desk(file) as desk:
        registry = desk.services.runs.parts.registry
        with_marks, without = registry.list(), []
        over = asyncio.Event()

        async def change():
            turn = 0
            while not over.is_set():
                turn += 1
                registry.swap(without if turn % 2 else with_marks)
                await asyncio.sleep(0.005)

        async def talk(user):
            said = [await desk.say(f"m{n}", user_id=user) for n in range(10)]
            return [answer.json()["reply"] for answer in said]

        changing = asyncio.create_task(change())
        try:
            heard = await asyncio.gather(*(talk(f"u{n}") for n in range(4)))
        finally:
            over.set()
            await changing
        for replies in heard:
            assert [reply.rstrip(">").replace("<", "") for reply in replies] == [
                f"m{n}, you say?" for n in range(10)
            ]
        assert len((await desk.client.get("/runs", params={"limit": 100})).json()) == 40
