"""Each rule and built-in hook of the docs, on each channel: what is said, and what is heard."""

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager

import pytest
import uvicorn
import yaml

from checkrail.cli.server_startup import OPTIONS
from checkrail.server.app import build_app
from checkrail.server.auth import generate_key
from checkrail.store import keys

from .conftest import AGENTS, open_desk
from .people import (
    HttpPerson,
    SlackPerson,
    SocketPerson,
    TelegramPerson,
    TerminalPerson,
    WebhookPerson,
)

EVERYWHERE = (
    HttpPerson,
    SocketPerson,
    TerminalPerson,
    SlackPerson,
    TelegramPerson,
    WebhookPerson,
)

PROJECT = """
python_path: ["."]
auth: { keys: true }
outbound: { allow: [127.0.0.1] }
agents:
  parrot: { model: "./agents.py:parrot" }
  billing: { model: { provider: scripted, replies: [This is billing.] } }
sessions: { agent: parrot, idle_minutes: 0 }
"""

RULES = r"""
hooks:
  on_session_start:
    - { name: members, builtin: allow_users, config: { deny: [STRANGER], reason: Members only } }
  before_inbound:
    - { name: shut, when: 'content.contains("closed")', block: We are closed }
    - { name: loud, when: 'content.matches("^[^a-z]+$")', block: Please do not shout }
    - { name: faq, when: 'content.matches("(?i)\\b(lunch|menu)\\b")', stop: From twelve to two }
    - { name: check, when: 'content.contains("danger")', ask: May this pass? }
    - { name: bills, when: 'content.contains("invoice")', set: { metadata.agent: billing } }
    - { name: rewrite, when: 'content.contains("ticket")', set: { content: a seat } }
    - { name: soften, when: 'content.contains("now")', prepend: "Please: " }
    - { name: shorten, when: 'content.contains("essay")', append: " (briefly)" }
    - { name: here, channels: [CHANNEL], when: 'content == "Which way"', append: " (this)" }
    - { name: elsewhere, channels: [pigeon], append: " (another)" }
    - { name: mine, users: [SENDER], when: 'content == "Which user"', append: " (this)" }
    - { name: theirs, users: [nobody], append: " (another)" }
    - { name: both, when: 'channel == "CHANNEL" && user_id == "SENDER" && content == "Which rule"',
        append: " (CEL)" }
    - { name: words, builtin: profanity, config: { words: ["darn*"] } }
    - { name: nights, builtin: quiet_hours, when: 'content == "Late"',
        config: { timezone: UTC, from: "00:00", to: "24:00", reply: Good night } }
    - { name: files, builtin: attachment_limits, config: { types: ["image/*"] } }
  before_outbound:
    - { name: hello, builtin: greeting, config: { text: Welcome! } }
    - { name: first, when: has(metadata.first_reply), append: " (first)" }
    - { name: names, redact: { patterns: ['/Project \w+/'], with: the project } }
    - { name: prices, channels: [CHANNEL], when: 'content.matches("[0-9] ?EUR")', block: No prices }
    - { name: sign, when: 'content.contains("letter")', prepend: "Dear, ", append: " Yours" }
    - { name: censor, when: 'content.contains("weather")', set: { content: It is sunny } }
    - { name: look, when: 'content.contains("reply")', ask: May this leave? }
"""

TALK = {
    "Hello": "Welcome!\n\nHello, you say? (first)",
    "It is closed": "We are closed",
    "WHERE IS IT": "Please do not shout",
    "What is for lunch": "From twelve to two",
    "some danger": "some danger, you say?",
    "more danger": "May this pass?: denied",
    "My invoice": "This is billing.",
    "A ticket": "a seat, you say?",
    "Come now": "Please: Come now, you say?",
    "An essay": "An essay (briefly), you say?",
    "Which way": "Which way (this), you say?",
    "Which user": "Which user (this), you say?",
    "Which rule": "Which rule (CEL), you say?",
    "Darned thing": "*** thing, you say?",
    "Late": "Good night",
    "Project Apollo": "the project, you say?",
    "For 40 EUR": None,
    "A letter": "Dear, A letter, you say? Yours",
    "How is the weather": "It is sunny",
    "A reply": "A reply, you say?",
}
"""What is said, and what is heard of it: nothing, or a reply."""

STATUSES = {
    "It is closed": "blocked",
    "WHERE IS IT": "blocked",
    "more danger": "blocked",
    "For 40 EUR": "withheld",
}
ASKED = {"some danger": "approve", "more danger": "deny", "A reply": "approve"}
"""What people are asked about, and how they answer."""


class Ears:
    """A server that is told what a person says, one thing after the other."""

    def __init__(self, desk, person):
        self.desk = desk
        self.person = person
        self.count = 0

    async def until_ended(self, saying, verdict=None):
        """Say something, answer what is asked about it, and return what became of it."""
        await saying
        self.count += 1
        async with asyncio.timeout(60):
            while True:
                rows = (await self.desk.client.get("/messages?limit=100")).json()
                if len(rows) == self.count:
                    if rows[0]["status"] == "waiting" and verdict:
                        await self._answer(verdict)
                    elif rows[0]["status"] not in ("received", "running", "replying", "waiting"):
                        return rows[0]
                await asyncio.sleep(0.02)

    async def _answer(self, verdict):
        for asked in (await self.desk.client.get("/approvals?status=open")).json():
            path = f"/approvals/{asked['approval_id']}/{verdict}"
            await self.desk.client.post(path, json={})


@asynccontextmanager
async def listening(services):
    """Serve on a port of this machine what the desk has in this process."""
    app = uvicorn.Server(uvicorn.Config(build_app(services), **{**OPTIONS, "lifespan": "off"}))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(app.serve([bound]))
        async with asyncio.timeout(60):
            while not app.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            app.should_exit = True
            await serving


async def add_key(desk, name, role):
    made = generate_key()
    row = keys.Key(name, made.digest, name, role, name, time.time())
    await desk.services.database.write(lambda tx: keys.add(tx, row))
    return made.token


@asynccontextmanager
async def ruled(person, project):
    """Open a server with all rules, and a person's channel."""
    rules = RULES.replace("CHANNEL", person.kind).replace("SENDER", person.sender)
    rules = rules.replace("STRANGER", json.dumps(person.stranger))
    async with person.open() as options:
        channels = {} if options is None else {"channels": {person.kind: options}}
        more = yaml.safe_dump(channels) if channels else ""
        async with open_desk(project(PROJECT + more + rules, agents=AGENTS)) as desk:
            desk.client.headers["x-api-key"] = await add_key(desk, "root", "admin")
            desk.keys = {name: await add_key(desk, name, "member") for name in ("ann", "eve")}
            async with listening(desk.services) as desk.url:
                person.desk = desk
                yield Ears(desk, person)


@pytest.mark.parametrize("kind", EVERYWHERE, ids=lambda kind: kind.kind)
async def test_each_rule_of_the_docs_works_on_each_channel(kind, project):
    person = kind()
    async with ruled(person, project) as ears:
        statuses = {}
        for text in TALK:
            row = await ears.until_ended(person.say(text), ASKED.get(text))
            assert (row["content"], row["channel"]) == (text, person.kind)
            statuses[text] = row["status"]
        assert statuses == {text: STATUSES.get(text, "answered") for text in TALK}
        said = [text for text in TALK.values() if text]
        if person.send_file is not None:  # a terminal sends none
            row = await ears.until_ended(person.send_file("Look"))
            assert (row["status"], row["refusal"]["code"]) == ("blocked", "attachment_refused")
            said.append(row["reply"])
        row = await ears.until_ended(person.say_as_stranger("Hello"))
        assert (row["status"], row["user_id"]) == ("blocked", person.stranger)
        said.append("Welcome!\n\nMembers only (first)")
        assert await person.until_heard(len(said)) == said
