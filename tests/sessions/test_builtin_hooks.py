"""Built-in hooks and rules where people meet agents, on a running server."""

import asyncio

import pytest

from checkrail.channels.protocol import Address
from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.sessions.incoming import Incoming

from .conftest import FILE, open_desk

pytestmark = pytest.mark.usefixtures("database_url")

TWO_AGENTS = """
from checkrail.testing import ScriptedModel


def repeat(request):
    said = [message for message in request.messages if message["role"] == "user"][-1]["content"]
    return f"{said}, you say?"


parrot = ScriptedModel(repeat)
bills = ScriptedModel("billing" for _ in range(9))
"""
TWO = FILE.replace("sessions:", "  billing: {model: ./agents.py:bills}\nsessions:\n  agent: parrot")


def with_hooks(hooks, file=FILE):
    return file + "hooks:\n" + hooks


async def replies(desk, *texts, **more):
    return [(await desk.say(text, **more)).json()["reply"] for text in texts]


GREETING = """
  before_outbound: [{name: hello, builtin: greeting, config: {text: Welcome!}}]
"""


async def test_the_first_reply_of_each_session_has_a_greeting(project):
    async with open_desk(project(with_hooks(GREETING))) as desk:
        for channel in ("web", "phone"):
            first, second = await replies(desk, "One", "Two", channel=channel)
            assert (first, second) == ("Welcome!\n\nOne, you say?", "Two, you say?")


async def test_threads_of_one_session_have_one_greeting(project):
    async with open_desk(project(with_hooks(GREETING))) as desk:
        ann = Principal(User("ann"))
        rows = await asyncio.gather(
            *(
                desk.sessions.accept(
                    Incoming(
                        channel="intercom",
                        external_id=f"m{number}",
                        sender=ann,
                        text="Hello",
                        address=Address("intercom", "", "hall", f"thread-{number}"),
                    )
                )
                for number in range(6)
            )
        )
        assert len({row.session_id for row in rows}) == 1
        assert len({row.thread_id for row in rows}) == 6
        ended = [await desk.sessions.wait_for_reply(row.message_id) for row in rows]
        assert sum(row.reply.startswith("Welcome!") for row in ended) == 1


async def test_a_reply_that_was_withheld_takes_no_greeting_away(project):
    hooks = """
  before_outbound:
    - {name: hello, builtin: greeting, config: {text: Welcome!}}
    - {name: secret, when: "content.contains('secret')", block: true}
"""
    async with open_desk(project(with_hooks(hooks))) as desk:
        told = await replies(desk, "a secret", "One", "Two")
        assert told == [None, "Welcome!\n\nOne, you say?", "Two, you say?"]


async def test_bad_words_are_masked_on_the_way_in_and_out(project):
    hooks = """
  before_inbound: [{name: "in", builtin: profanity, config: {words: [darn]}}]
  before_outbound: [{name: out, builtin: profanity, config: {words: [say], with: "#"}}]
"""
    async with open_desk(project(with_hooks(hooks))) as desk:
        told = (await desk.say("Darn weather")).json()
        assert told["reply"] == "*** weather, you #?"
        state = (await desk.client.get(f"/threads/{told['thread_id']}/state")).json()
        assert state["values"]["messages"][0]["content"] == "*** weather"


async def test_bad_words_may_be_refused(project):
    hooks = "  before_inbound: [{builtin: profanity, config: {on_found: block}}]"
    async with open_desk(project(with_hooks(hooks))) as desk:
        answer = await desk.say("shit")
        assert (answer.status_code, answer.json()["info"]["code"]) == (400, "profanity")
        assert await replies(desk, "Hello") == ["Hello, you say?"]


async def test_in_quiet_hours_a_message_is_replied_to_without_an_agent(project):
    hooks = """
  before_inbound:
    - builtin: quiet_hours
      config: {timezone: Europe/Berlin, from: 00:00, to: 24:00, reply: Good night}
"""
    async with open_desk(project(with_hooks(hooks))) as desk:
        told = (await desk.say("Hello")).json()
        assert (told["status"], told["reply"]) == ("answered", "Good night")
        assert (await desk.stream("Hello"))[-1][1]["reply"] == "Good night"
        assert (await desk.client.get("/runs")).json() == []


@pytest.mark.parametrize("point", ["on_session_start", "before_inbound"])
async def test_who_may_not_write_is_refused(project, point):
    hooks = f"""
  {point}: [{{builtin: allow_users, config: {{allow: [ann, "slack:*"]}}}}]
"""
    async with open_desk(project(with_hooks(hooks))) as desk:
        refused = await desk.say("Hello", user_id="mallory")
        assert refused.status_code == 403
        assert refused.json()["info"]["code"] == "user_not_allowed"
        for user_id in ("ann", "slack:T1:U1"):
            assert await replies(desk, "Hello", user_id=user_id) == ["Hello, you say?"]
        runs = (await desk.client.get("/runs")).json()
        assert len(runs) == 2


async def test_attachments_that_are_not_taken_are_refused(project):
    hooks = """
  before_inbound:
    - {builtin: attachment_limits, config: {max_count: 1, max_size: 1 kB, types: ["image/*"]}}
"""
    async with open_desk(project(with_hooks(hooks))) as desk:
        fits = {"name": "a.png", "content_type": "image/png", "size": 1000}
        for changed, status in (({}, 200), ({"size": 1001}, 413), ({"size": None}, 413)):
            answer = await desk.say("Look", attachments=[fits | changed])
            assert answer.status_code == status, answer.text
        wrong = await desk.say("Look", attachments=[fits | {"content_type": "text/html"}])
        assert wrong.status_code == 415
        assert (await desk.say("Look", attachments=[fits, fits])).status_code == 413


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    "hook",
    [
        "builtin: redact, config: {kinds: [card]}",
        'redact: {kinds: [card], with: "[redacted:card]"}',
    ],
)
@pytest.mark.parametrize("point", ["before_inbound", "before_outbound"])
async def test_what_is_redacted_reaches_nobody_behind_it(project, hook, point):
    async with open_desk(project(with_hooks(f"  {point}: [{{name: tidy, {hook}}}]"))) as desk:
        told = (await desk.say(f"My card is {CARD}")).json()
        assert told["reply"] == "My card is [redacted:card], you say?"
        state = (await desk.client.get(f"/threads/{told['thread_id']}/state")).json()
        assert (CARD in str(state)) is (point == "before_outbound")
        assert CARD not in str(await desk.records(point=point))


RULES = [
    ("before_inbound", '{prepend: "Please: "}', "a", "Please: a, you say?"),
    ("before_inbound", "{append: '!', channels: [web]}", "a", "a!, you say?"),
    ("before_inbound", "{append: '!', channels: [phone]}", "a", "a, you say?"),
    ("before_inbound", "{append: '!', users: ['ann*']}", "a", "a!, you say?"),
    ("before_inbound", "{append: '!', users: [bob]}", "a", "a, you say?"),
    ("before_inbound", "{set: {content: b}, when: content.contains('a')}", "a", "b, you say?"),
    ("before_inbound", "{block: 'No', when: \"content.matches('(?i)^AB+$')\"}", "abb", "No"),
    ("before_inbound", "{stop: Later}", "a", "Later"),
    ("before_inbound", "{set: {metadata.agent: billing}}", "a", "billing"),
    ("before_inbound", "{redact: {patterns: [/b+/], with: x}}", "abba", "axa, you say?"),
    ("before_outbound", "{prepend: 'Bot: ', append: ' Bye.'}", "a", "Bot: a, you say? Bye."),
    ("before_outbound", "{set: {content: b}}", "a", "b"),
    ("before_outbound", "{block: true, when: \"content.startsWith('a')\"}", "a", None),
    (
        "before_outbound",
        "{prepend: 'Hi. ', when: has(metadata.first_reply)}",
        "a",
        "Hi. a, you say?",
    ),
    ("on_session_start", "{block: Members only, channels: [web]}", "a", "Members only"),
    ("before_final_response", "{append: ' Bye.'}", "a", "a, you say? Bye."),
]


@pytest.mark.parametrize(("point", "rule", "said", "reply"), RULES)
async def test_rules_for_messages(project, point, rule, said, reply):
    hooks = f"  {point}: [{{name: mine, {rule[1:]}]"
    async with open_desk(project(with_hooks(hooks, TWO), agents=TWO_AGENTS)) as desk:
        answer = await desk.say(said, channel="web", user_id="anna")
        told = answer.json()
        if answer.status_code != 200:
            row = await desk.client.get(f"/messages/{told['info']['message_id']}")
            told = row.json()
        assert told["reply"] == reply


async def test_a_message_that_is_sent_to_nobody_fails(project):
    hooks = "  before_inbound: [{name: lost, set: {metadata.agent: nobody}}]"
    async with open_desk(project(with_hooks(hooks))) as desk:
        answer = await desk.say("Hello")
        assert (answer.status_code, "'nobody'" in answer.json()["message"]) == (404, True)
        message_id = answer.json()["info"]["message_id"]
        assert (await desk.client.get(f"/messages/{message_id}")).json()["status"] == "failed"
        assert (await desk.client.get("/runs")).json() == []
