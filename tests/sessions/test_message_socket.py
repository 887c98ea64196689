"""A conversation over a WebSocket with a real server: its frames, its errors and its breaks."""

import asyncio
import contextlib
import json
import textwrap

import httpx2
import pytest
from tests.processes import until
from tests.server.harness import Served, on_sqlite
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from checkrail.server.routes.message_socket import FrameQueue

PROJECT = """
    python_path: ["."]
    auth: { keys: true }
    limits: { write_seconds: 600 }
    agents:
      parrot: { model: "./agents.py:parrot" }
      careful:
        model: "./agents.py:parrot"
        hooks:
          on_run_start: [{ name: four_eyes, ask: May it speak? }]
      shy:
        model: "./agents.py:parrot"
        hooks:
          before_outbound: [{ name: last_look, ask: May it leave? }]
    sessions: { agent: parrot }
    hooks:
      before_inbound:
        - { name: closed, when: 'content == "closed"', block: We are closed, status: 429 }
        - { name: reader, when: 'content == "secret"', ask: May it be read? }
"""

AGENTS = """
    from checkrail.testing import ScriptedModel

    def repeat(request):
        said = [each for each in request.messages if each["role"] == "user"][-1]["content"]
        return f"{said}, you say?"

    parrot = ScriptedModel(repeat)
"""


class Socket:
    """A connection, by which somebody says something."""

    def __init__(self, connection):
        self.connection = connection

    def send(self, **frame):
        self.connection.send(json.dumps(frame))

    def say(self, id, content, **more):
        self.send(type="message", id=id, content=content, **more)

    def read(self):
        return json.loads(self.connection.recv(timeout=60))

    def read_until(self, kind):
        """Return all frames up to the first of a kind."""
        frames = [self.read()]
        while frames[-1]["type"] != kind:
            frames.append(self.read())
        return frames


class Site:
    """A server, and whoever has a key to it."""

    def __init__(self, served):
        self.served = served
        self.keys = {}

    def make_key(self, name, role="member"):
        told = self.served.run("keys", "create", name, "--role", role, "--json")
        self.keys[name] = json.loads(told)
        return name

    def headers(self, name):
        return {"x-api-key": self.keys[name]["key"]}

    @contextlib.contextmanager
    def open(self, name="ann", **options):
        options.setdefault("subprotocols", ["checkrail.chat.v1"])
        headers = {**self.headers(name), **options.pop("headers", {})}
        url = f"ws://127.0.0.1:{self.served.port}/messages/ws"
        with connect(url, additional_headers=headers, **options) as connection:
            yield Socket(connection)

    def get(self, path, name="ann"):
        return httpx2.get(f"{self.served.url}{path}", headers=self.headers(name), timeout=60).json()

    def answer(self, approval_id, verdict, name="ann"):
        url = f"{self.served.url}/approvals/{approval_id}/{verdict}"
        answer = httpx2.post(url, headers=self.headers(name), timeout=60)
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    for name, text in (("checkrail.yaml", PROJECT), ("agents.py", AGENTS)):
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    config = folder / "checkrail.yaml"
    served = Served(on_sqlite(folder), folder / "log", config=config).start()
    try:
        made = Site(served)
        for name, role in (("ann", "member"), ("bob", "member"), ("root", "admin")):
            made.make_key(name, role)
        yield made
    finally:
        served.stop()


def test_a_message_is_acknowledged_and_its_reply_comes_as_it_is_made(site):
    with site.open() as socket:
        assert socket.connection.subprotocol == "checkrail.chat.v1"
        socket.say("a1", "Good morning")
        ack, *frames = socket.read_until("reply")
    assert (ack["type"], ack["id"]) == ("ack", "a1")
    message = ack["message"]
    assert (message["external_id"], message["channel"]) == ("a1", "websocket")
    assert {frame["message_id"] for frame in frames} == {message["message_id"]}
    told = "".join(frame["text"] for frame in frames if frame["type"] == "delta")
    assert told == frames[-1]["message"]["reply"] == "Good morning, you say?"
    whole = {**frames[-1]["message"], "deliveries": []}
    assert site.get(f"/messages/{message['message_id']}") == whole


def test_the_same_message_twice_is_one(site):
    with site.open() as socket:
        socket.say("twice", "Hello")
        first = socket.read_until("reply")[-1]["message"]
    with site.open() as socket:
        socket.say("twice", "Hello")
        ack, *frames = socket.read_until("reply")
        assert ack["message"] == frames[-1]["message"] == first
        socket.say("twice", "Something else")
        error = socket.read()
    assert (error["type"], error["id"], error["status"]) == ("error", "twice", 409)
    runs = site.get(f"/sessions/{first['session_id']}/runs")
    assert [run["run_id"] for run in runs].count(first["run_id"]) == 1


def test_what_is_said_in_one_breath_is_replied_to_in_order(site):
    with site.open() as socket:
        for number in range(8):
            socket.say(f"breath{number}", f"number {number}", channel="breath")
        frames = []
        while sum(frame["type"] == "reply" for frame in frames) < 8:
            frames.append(socket.read())
    replies = [frame["message"]["reply"] for frame in frames if frame["type"] == "reply"]
    assert replies == [f"number {number}, you say?" for number in range(8)]
    assert len({frame["message"]["thread_id"] for frame in frames if "message" in frame}) == 1


def test_what_a_hook_blocks_is_replied_to_with_its_reason(site):
    with site.open() as socket:
        socket.say("b1", "closed")
        message = socket.read_until("reply")[-1]["message"]
    assert (message["status"], message["reply"]) == ("blocked", "We are closed")
    assert (message["refusal"]["hook"], message["refusal"]["status"]) == ("closed", 429)


@pytest.mark.parametrize("agent", ["parrot", "careful", "shy"])
def test_what_waits_says_for_which_answer(site, agent):
    content = "secret" if agent == "parrot" else "aloud"
    with site.open() as socket:
        socket.say(f"w-{agent}", content, agent_name=agent, channel="waiting")
        while (frame := socket.read()).get("status") != "waiting":
            assert frame["type"] in ("ack", "status")
        [approval_id] = frame["approval_ids"]
        site.answer(approval_id, "approve")
        frames = socket.read_until("reply")
    reply = f"{content}, you say?"
    assert frames[-1]["message"]["reply"] == reply
    told = "".join(frame["text"] for frame in frames if frame["type"] == "delta")
    assert told == ("" if agent == "shy" else reply)


def test_errors_leave_the_connection_open(site):
    with site.open() as socket:
        for sent, status, says in (
            ("{", 422, "one JSON object in a text frame"),
            (b"\x00", 422, "one JSON object in a text frame"),
            ("[]", 422, "does not fit"),
            ('{"type": "shout", "id": "x"}', 422, "does not fit"),
            ('{"type": "message", "id": "x"}', 422, "content"),
            ('{"type": "message", "id": "x", "content": "y", "mood": 1}', 422, "mood"),
            ('{"type": "message", "id": "x", "content": "y", "agent_name": "z"}', 404, "z"),
            ('{"type": "resume", "message_id": "%s"}' % ("0" * 32), 404, "not found"),
        ):
            socket.connection.send(sent)
            error = socket.read()
            assert (error["type"], error["status"]) == ("error", status), sent
            assert says in error["message"]
            assert error["id"] == ("x" if '"x"' in str(sent) else None)
        socket.say("still", "Hello")
        assert socket.read_until("reply")[-1]["message"]["reply"] == "Hello, you say?"


def test_a_message_is_gone_on_with_after_a_break_and_only_by_its_sender(site):
    with site.open() as socket:
        socket.say("break", "secret", channel="break")
        message_id = socket.read()["message"]["message_id"]
        while (frame := socket.read()).get("status") != "waiting":
            pass
    with site.open("bob") as socket:
        socket.send(type="resume", message_id=message_id)
        assert socket.read()["status"] == 404
    with site.open() as socket:
        socket.send(type="resume", message_id=message_id)
        ack, status = socket.read(), socket.read()
        assert (ack["id"], ack["message"]["message_id"]) == ("break", message_id)
        assert status["approval_ids"] == frame["approval_ids"]
        site.answer(frame["approval_ids"][0], "approve")
        reply = socket.read_until("reply")[-1]
        assert reply["message"]["reply"] == "secret, you say?"
        socket.send(type="resume", message_id=message_id)
        ack, *deltas, again = socket.read_until("reply")
        assert ack["message"] == again["message"] == reply["message"]
        assert "".join(each["text"] for each in deltas) == "secret, you say?"


def test_only_who_names_the_subprotocol_and_comes_from_here_gets_in(site):
    site.served.mark()
    for options, status, says in (
        ({"subprotocols": None}, 400, "checkrail.chat.v1"),
        ({"subprotocols": ["chat"]}, 400, "checkrail.chat.v1"),
        ({"headers": {"origin": "https://elsewhere.example"}}, 403, "elsewhere.example"),
        ({"headers": {"x-api-key": "crk_none"}}, 401, "key"),
    ):
        with pytest.raises(InvalidStatus) as refused, site.open(**options):
            pass
        assert refused.value.response.status_code == status
        assert says in refused.value.response.body.decode()
    assert "Traceback" not in site.served.since_mark()  # whoever is refused is no error


def test_a_revoked_key_closes_what_was_open(site):
    name = site.make_key("carl")
    with site.open(name) as socket:
        socket.say("c1", "Hello")
        socket.read_until("reply")
        site.served.run("keys", "revoke", site.keys[name]["key_id"])
        with pytest.raises(ConnectionClosed) as closed:
            socket.read()
    assert closed.value.rcvd.code == 4401


def test_a_message_that_is_too_large_is_refused(site):
    with site.open() as socket:
        socket.say("large", "x" * (1024 * 1024))
        with pytest.raises(ConnectionClosed) as closed:
            socket.read()
    assert closed.value.rcvd.code == 1009


def test_who_does_not_read_is_closed_and_may_come_back(site):
    def is_closed():
        return "does not read what it is sent" in site.served.output()

    def is_replied_to(number):
        said = site.get("/messages?channel=deaf&limit=100")
        return [each["status"] for each in said].count("answered") > number

    with site.open(max_queue=1, max_size=None, compression=None) as socket:
        for number in range(30):
            socket.say(f"deaf{number}", f"{number} " + "x" * 1_000_000, channel="deaf")
            until(lambda number=number: is_closed() or is_replied_to(number), "the reply")
            if is_closed():
                break
        first = socket.read()
        with pytest.raises(ConnectionClosed) as closed:
            socket.read_until("nothing")
    assert closed.value.rcvd.code == 1013
    with site.open(max_size=None) as socket:
        socket.send(type="resume", message_id=first["message"]["message_id"])
        assert socket.read_until("reply")[-1]["message"]["reply"].startswith("0 xxx")


async def test_text_that_waits_is_put_together_as_far_as_there_is_room():
    queue = FrameQueue(most_frames=2, most_bytes=1000)
    for text in ("Good ", "morning"):
        queue.put({"type": "delta", "message_id": "m", "text": text})
    queue.put({"type": "delta", "message_id": "n", "text": "Hello"})
    queue.put({"type": "delta", "message_id": "n", "text": "!"})
    assert not queue.overflowed.done()
    queue.put({"type": "status", "message_id": "m", "status": "replying"})
    assert queue.overflowed.done()
    taken = [json.loads(await queue.take())["text"] for _ in range(2)]
    assert taken == ["Good morning", "Hello!"]
    waiting = asyncio.ensure_future(queue.take())
    queue.put({"type": "reply", "message_id": "m", "message": "x" * 5000})
    assert "xxx" in await waiting


async def test_many_bytes_overflow_as_many_frames_do():
    queue = FrameQueue(most_bytes=1000)
    queue.put({"type": "delta", "message_id": "m", "text": "x" * 2000})
    assert not queue.overflowed.done()
    queue.put({"type": "delta", "message_id": "m", "text": "y"})
    assert queue.overflowed.done()
    assert "y" not in json.loads(await queue.take())["text"]
