"""One story on every channel: what comes in is answered, checked, kept once and in order."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from tests.channels.servers.slack import click, click_request

from checkrail.channels.protocol import Address, Inbound
from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.sessions.incoming import Incoming
from checkrail.store import approvals, tables

from .conftest import FILE, open_desk
from .people import PEOPLE, SlackPerson, TelegramPerson, WebhookPerson

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=PEOPLE, ids=lambda kind: kind.kind)
def person(request):
    return request.param()


@asynccontextmanager
async def talking(person, project, rules="", agents=None, **channel):
    """Open a server with a person's channel."""
    async with person.open() as options:
        said = {"channels": {person.kind: {**options, **channel}}}
        said["outbound"] = {"allow": ["127.0.0.1"]}
        hooks = f"hooks:\n{rules}" if rules else ""
        given = {} if agents is None else {"agents": agents}
        file = project(FILE + yaml.safe_dump(said) + hooks, **given)
        shutil.copy(EXAMPLES / "own_channel" / "intercom.py", file.parent)
        async with open_desk(file) as desk:
            person.desk, desk.file = desk, file
            yield desk


async def test_somebody_is_answered(person, project):
    async with talking(person, project) as desk:
        assert await person.say("Good morning") < 300
        assert await person.until_heard(1) == ["Good morning, you say?"]
        [row] = (await desk.client.get("/messages")).json()
        assert (row["channel"], row["status"]) == (person.kind, "answered")
        [session] = (await desk.client.get("/sessions")).json()
        assert session["channel"] == person.kind
        assert session["user_id"] == row["user_id"]


async def test_a_conversation_is_one_thread_and_stays_in_order(person, project):
    async with talking(person, project) as desk:
        for number in range(8):
            assert await person.say(f"m{number}") < 300
        assert await person.until_heard(8) == [f"m{number}, you say?" for number in range(8)]
        rows = (await desk.client.get("/messages")).json()
        assert len({row["thread_id"] for row in rows}) == 1


async def test_the_same_message_twice_is_answered_once(person, project):
    async with talking(person, project) as desk:
        for _ in range(3):
            assert await person.say("Hello", number=7) < 300
        await person.say("Bye", number=8)
        assert await person.until_heard(2) == ["Hello, you say?", "Bye, you say?"]
        assert len((await desk.client.get("/runs")).json()) == 2


async def test_the_same_id_with_another_body_is_refused(project):
    person = WebhookPerson()
    async with talking(person, project):
        said = {"user_id": "ada", "content": "Hello", "conversation": "one"}
        assert await person.send_body(said, 1) == 200
        assert await person.send_body(said, 1) == 200
        assert await person.send_body({**said, "conversation": "two"}, 1) == 409


async def test_people_who_take_turns_in_one_conversation_have_a_thread_each(project):
    person = WebhookPerson()
    async with talking(person, project) as desk:
        for number in range(6):
            said = {"user_id": ("ada", "bob")[number % 2], "content": f"m{number}"}
            assert await person.send_body({**said, "conversation": "hall"}, number) == 200
        await person.until_heard(6)
        rows = (await desk.client.get("/messages")).json()
        assert len({row["session_id"] for row in rows}) == 2
        assert len({row["thread_id"] for row in rows}) == 2


STUCK = """
import asyncio

from checkrail.testing import ScriptedModel


async def think(request):
    await asyncio.sleep(600)


parrot = ScriptedModel(think)
"""


async def test_who_says_stop_stops_nobody_else(project):
    async with open_desk(project(agents=STUCK)) as desk:
        hall = Address("door", "1", "hall")
        bob = Principal(User("bob"), "bob")
        said = Incoming(channel="door", external_id="1", sender=bob, text="Hello", address=hall)
        row = await desk.sessions.accept(said)
        async for now in desk.sessions.follow_message(row.message_id):
            if now.status == "running":
                break
        await desk.sessions.stop_conversation(hall, "ada")
        assert (await desk.sessions.get_message(row.message_id)).status == "running"
        await desk.sessions.stop_conversation(hall, "bob")
        assert (await desk.sessions.wait_for_reply(row.message_id)).status == "cancelled"


FETCHED = """
from checkrail.channels import Channel, Sent


class Mailbox(Channel):
    singleton = True

    async def send(self, to, part, *, delivery_id):
        return Sent(delivery_id)
"""


async def test_who_may_have_no_more_holds_up_nobody_else_where_messages_are_fetched(project):
    more = {
        "channels": {"mailbox": {"type": "./mailbox.py:Mailbox"}},
        "limits": {"threads_per_owner": 1},
    }
    async with open_desk(project(FILE + yaml.safe_dump(more), mailbox=FETCHED)) as desk:
        channel = desk.sessions.host.channels["mailbox"]
        said = (("1", "one", "ada"), ("2", "two", "ada"), ("3", "three", "bob"))
        await channel.accept(
            [
                Inbound("message", number, Address("mailbox", "1", place), who, "Hello")
                for number, place, who in said
            ]
        )
        rows = (await desk.client.get("/messages")).json()
        assert [row["user_id"] for row in rows] == ["bob", "ada"]


async def test_what_is_forged_is_refused_before_it_is_read(person, project):
    async with talking(person, project) as desk:
        assert await person.forge("Hello") == 401
        assert (await desk.client.get("/messages")).json() == []
        answer = await desk.client.post(f"/channels/{person.kind}", content=b"\xff{")
        assert answer.status_code == 401
        assert (await desk.client.post("/channels/other", content=b"{}")).status_code == 404


async def test_the_sender_is_told_why_a_message_was_blocked(person, project):
    rules = "  before_inbound: [{name: closed, block: We are closed}]\n"
    async with talking(person, project, rules) as desk:
        await person.say("Hello")
        assert await person.until_heard(1) == ["We are closed"]
        assert (await desk.client.get("/runs")).json() == []


async def test_a_reply_that_a_hook_rewrites_or_blocks_does_not_leave_as_it_was(person, project):
    rules = """
  before_outbound:
    - {name: no-cards, redact: {patterns: ["41+"]}}
    - {name: no-names, when: "content.contains('Mallory')", block: No names}
"""
    async with talking(person, project, rules) as desk:
        await person.say("Mallory")
        await person.say("4111")
        heard = await person.until_heard(1)
        rows = (await desk.client.get("/messages")).json()
        assert [row["status"] for row in rows][::-1] == ["withheld", "answered"]
        assert "4111" not in str(heard)
        assert "Mallory" not in str(heard)
        assert len(heard) == 1


LONG = """
from checkrail.testing import ScriptedModel

parrot = ScriptedModel(lambda request: "\\n".join(f"line {n} \\U0001f600" for n in range(2000)))
"""


async def test_a_long_reply_comes_in_parts_that_fit_and_in_order(person, project):
    async with talking(person, project, agents=LONG):
        await person.say("Tell me all")
        whole = "\n".join(f"line {n} \U0001f600" for n in range(2000))
        async with asyncio.timeout(60):
            while "line 1999" not in "".join(person.heard()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        heard = person.heard()
    assert len(heard) > 1 or person.longest > len(whole)
    assert all(person.measure(part) <= person.longest for part in heard)
    assert "\n".join(heard) == whole


ASKED = """
  before_inbound: [{name: check, when: "content.contains('danger')", ask: May this pass?}]
"""


class Buttons:
    """How somebody presses a button below a question, and what they are told."""

    def __init__(self, person):
        self.person = person
        self.server = person.server

    async def question(self):
        async with asyncio.timeout(60):
            while (found := self._find()) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found


class SlackButtons(Buttons):
    allowed, others = "slack:T1:U2", "U1"

    def _find(self):
        posted = [call for call in self.server.calls_of("chat.postMessage") if "blocks" in call]
        return next((call for call in posted if "actions" in json.dumps(call["blocks"])), None)

    async def press(self, verdict, *, may=True):
        call = await self.question()
        blocks = call["blocks"] if isinstance(call["blocks"], list) else json.loads(call["blocks"])
        actions = next(block for block in blocks if block["type"] == "actions")
        button = next(
            each for each in actions["elements"] if each["action_id"] == f"checkrail.{verdict}"
        )
        ts = next(ts for (_, ts), said in self.server.messages.items() if "blocks" in said)
        pressed = {
            "type": "button",
            "action_id": button["action_id"],
            "block_id": actions["block_id"],
            "value": button["value"],
            "action_ts": "1700000010.000200",
        }
        user = "U2" if may else self.others
        place = {"type": "message", "channel_id": call["channel"], "message_ts": ts}
        payload = click(user=user, actions=[pressed], container=place)
        request = click_request(payload)
        answer = await self.person.post(request.headers, request.body)
        assert answer.status_code == 200

    def told(self):
        return [call["text"] for call in self.server.calls_of("chat.postEphemeral")]

    def edited(self):
        return [call["text"] for call in self.server.calls_of("chat.update")]

    def are_left(self):
        return any("actions" in json.dumps(said) for said in self.server.messages.values())


class TelegramButtons(Buttons):
    allowed = "telegram:*:43"

    def _find(self):
        return next(
            (
                number
                for number, said in self.server.messages.items()
                if said.get("reply_markup", {}).get("inline_keyboard")
            ),
            None,
        )

    async def press(self, verdict, *, may=True):
        number = await self.question()
        label = {"approve": "Approve", "deny": "Deny"}[verdict]
        update = await self.server.press(number, label, user=43 if may else 42)
        headers = {"x-telegram-bot-api-secret-token": "from-Telegram_1"}
        answer = await self.person.post(headers, json.dumps(update).encode())
        assert answer.status_code == 200

    def told(self):
        return [text for text, _ in self.server.answered_queries.values()]

    def edited(self):
        return [call["text"] for call in self.server.called("editMessageText")]

    def are_left(self):
        return self._find() is not None


PRESSING = {SlackPerson: SlackButtons, TelegramPerson: TelegramButtons}


@pytest.mark.parametrize("person", PRESSING, ids=lambda kind: kind.kind, indirect=True)
@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_those_who_may_answer_a_question_by_a_button(person, project, verdict):
    approvers = [PRESSING[type(person)].allowed]
    place = {"questions_in": "C1"} if isinstance(person, SlackPerson) else {}
    async with talking(person, project, ASKED, approvers=approvers, **place) as desk:
        buttons = PRESSING[type(person)](person)
        await person.say("danger")
        await buttons.press(verdict, may=False)
        assert buttons.told() == ["You may not answer this"]
        [row] = (await desk.client.get("/messages")).json()
        assert row["status"] == "waiting"
        await buttons.press(verdict)
        ended = await desk.sessions.wait_for_reply(row["message_id"])
        assert ended.status == ("answered" if verdict == "approve" else "blocked")
        async with asyncio.timeout(60):
            while not buttons.edited():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        word = "Approved" if verdict == "approve" else "Denied"
        assert f"{word} by {person.kind}:" in buttons.edited()[0]
        assert buttons.told()[1:] == [word]
        [asked] = (await desk.client.get("/approvals")).json()
        assert asked["answered_by"].startswith(f"{person.kind}:")


async def answer_elsewhere(desk, told, asked):
    path = f"/approvals/{asked['approval_id']}/approve"
    assert (await desk.client.post(path, json={})).status_code == 200


async def end_session(desk, told, asked):
    assert (await desk.client.post(f"/sessions/{told['session_id']}/end")).status_code == 200


async def cancel_run(desk, told, asked):
    answer = await desk.client.post(f"/runs/{told['run_id']}/cancel", json={})
    assert answer.status_code < 300, answer.text


async def delete_thread(desk, told, asked):
    assert (await desk.client.delete(f"/threads/{told['thread_id']}")).status_code == 204


async def let_time_pass(desk, told, asked):
    def end_time(tx):
        which = tables.approvals.c.approval_id == asked["approval_id"]
        tx.execute(tables.approvals.update().where(which).values(expires_at=tx.time() - 1))
        tx.publish("clock", "")

    await desk.services.database.write(end_time)


RUN_ASKS = "  on_run_start: [{name: check, ask: May this begin?}]\n"


@pytest.mark.parametrize("person", PRESSING, ids=lambda kind: kind.kind, indirect=True)
@pytest.mark.parametrize(
    ("rules", "ends", "state"),
    [
        (ASKED, answer_elsewhere, "Approved"),
        (ASKED, end_session, "Not asked any more"),
        (RUN_ASKS, end_session, "Not asked any more"),
        (RUN_ASKS, cancel_run, "Not asked any more"),
        (RUN_ASKS, delete_thread, "Not asked any more"),
        (ASKED, let_time_pass, "Nobody answered in time"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_buttons_go_with_their_question(person, project, rules, ends, state):
    approvers = [PRESSING[type(person)].allowed]
    async with talking(person, project, rules, approvers=approvers) as desk:
        buttons = PRESSING[type(person)](person)
        await person.say("danger")
        [told] = (await desk.client.get("/messages")).json()
        asked = await desk.wait_for_question()
        await until_posted(desk, asked)
        await ends(desk, told, asked)
        async with asyncio.timeout(60):
            while not buttons.edited():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert state in buttons.edited()[0]
        assert not buttons.are_left()


async def until_posted(desk, asked):
    async with asyncio.timeout(60):
        while True:
            row = await desk.services.database.read(
                lambda reads: approvals.get(reads, asked["approval_id"])
            )
            if row.posted is not None:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("person", PRESSING, ids=lambda kind: kind.kind, indirect=True)
async def test_a_question_that_was_answered_as_it_was_posted_has_no_buttons(person, project):
    approvers = [PRESSING[type(person)].allowed]
    async with talking(person, project, ASKED, approvers=approvers) as desk:
        channel, buttons = desk.sessions.host.channels[person.kind], PRESSING[type(person)](person)
        send = channel.send

        async def answer_first(to, part, *, delivery_id):
            sent = await send(to, part, delivery_id=delivery_id)
            if part.question is not None:
                await answer_elsewhere(desk, None, {"approval_id": part.question.approval_id})
            return sent

        channel.send = answer_first
        await person.say("danger")
        async with asyncio.timeout(60):
            while not buttons.edited():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert "Approved" in buttons.edited()[0]
        assert not buttons.are_left()


@pytest.mark.parametrize("person", PRESSING, ids=lambda kind: kind.kind, indirect=True)
async def test_no_question_is_shown_where_nobody_may_answer_it(person, project):
    async with talking(person, project, ASKED) as desk:
        await person.say("danger")
        asked = await desk.wait_for_question()
        await desk.client.post(f"/approvals/{asked['approval_id']}/approve", json={})
        assert await person.until_heard(1) == ["danger, you say?"]


@pytest.mark.parametrize("person", [WebhookPerson], ids=["webhook"], indirect=True)
async def test_a_reply_that_cannot_be_sent_yet_is_sent_again_and_in_its_order(person, project):
    async with talking(person, project) as desk:
        person.listener.failures = 1
        await person.say("first")
        await person.say("second")
        assert await person.until_heard(2) == ["first, you say?", "second, you say?"]
        rows = (await desk.client.get("/messages")).json()
        seen = [(await desk.client.get(f"/messages/{row['message_id']}")).json() for row in rows]
        tries = [[(each["status"], each["attempts"]) for each in row["deliveries"]] for row in seen]
        assert tries == [[("done", 1)], [("done", 2)]]


@pytest.mark.parametrize("person", [WebhookPerson], ids=["webhook"], indirect=True)
async def test_a_reply_that_is_refused_is_shown_as_dead(person, project):
    async with talking(person, project) as desk:
        person.listener.refuses = True
        await person.say("Hello")
        async with asyncio.timeout(60):
            while True:
                [row] = (await desk.client.get("/messages")).json()
                whole = (await desk.client.get(f"/messages/{row['message_id']}")).json()
                if [each["status"] for each in whole["deliveries"]] == ["dead"]:
                    break
                await asyncio.sleep(0.05)
        assert "410" in whole["deliveries"][0]["last_error"]
        assert whole["status"] == "answered"


async def until_messages(desk, wanted):
    async with asyncio.timeout(60):
        while True:
            rows = (await desk.client.get("/messages")).json()[::-1]
            if len(rows) >= len(wanted) and [row["status"] for row in rows] == wanted:
                return rows
            await asyncio.sleep(0.05)


async def test_the_pictures_of_an_album_are_one_message(project):
    person = TelegramPerson()
    async with talking(person, project) as desk:
        for number in (1, 2, 3):
            size = {
                "file_id": f"f{number}",
                "file_unique_id": f"u{number}",
                "width": 9,
                "height": 9,
            }
            words = {"caption": "Look"} if number == 2 else {}
            message = person.server.write(photo=[size], media_group_id="g1", **words)
            update = {"update_id": number, "message": message | {"message_id": number}}
            headers = {"x-telegram-bot-api-secret-token": "from-Telegram_1"}
            answer = await person.post(headers, json.dumps(update).encode())
            assert answer.status_code == 200
        await person.say("Bye", number=4)
        assert await person.until_heard(2) == ["Look, you say?", "Bye, you say?"]
        rows = await until_messages(desk, ["answered", "joined", "joined", "answered"])
        assert [each["name"] for each in rows[0]["attachments"]] == [
            "photo-u1.jpg",
            "photo-u2.jpg",
            "photo-u3.jpg",
        ]
        assert {row["joined_to"] for row in rows[1:3]} == {rows[0]["message_id"]}
        assert len((await desk.client.get("/runs")).json()) == 2


async def test_what_comes_at_once_is_one_message_if_the_channel_says_so(person, project):
    async with talking(person, project, debounce_seconds=1.0) as desk:
        for number, text in enumerate(("one", "two", "two again"), 1):
            assert await person.say(text, number=number) < 300
        assert await person.say("two", number=2) < 300
        assert await person.until_heard(1) == ["one\ntwo\ntwo again, you say?"]
        await until_messages(desk, ["answered", "joined", "joined"])
        await person.say("later", number=4)
        assert (await person.until_heard(2))[1] == "later, you say?"


THINKING = """
import asyncio
import pathlib

from checkrail.testing import ScriptedModel

GO = pathlib.Path(__file__).parent / "go"


async def think(request):
    while not GO.exists():
        await asyncio.sleep(0.02)
    return "at last"


parrot = ScriptedModel(think)
"""


async def test_a_channel_shows_typing_while_an_agent_works_and_not_while_it_waits(project):
    person = TelegramPerson()
    rules = "  on_result: [{name: look, ask: May this leave?}]\n"
    async with talking(person, project, rules, agents=THINKING) as desk:
        await person.say("Hello")
        async with asyncio.timeout(60):
            while not person.server.called("sendChatAction"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        (Path(desk.file).parent / "go").touch()
        asked = await desk.wait_for_question()
        shown = len(person.server.called("sendChatAction"))
        await asyncio.sleep(5)
        assert len(person.server.called("sendChatAction")) == shown
        await answer_elsewhere(desk, None, asked)
        assert await person.until_heard(1) == ["at last"]
