"""Servers that are killed while people talk: nothing is lost, doubled or out of order."""

import contextlib
import json
import time
from collections import defaultdict
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from standardwebhooks import Webhook
from tests.processes import until
from tests.server.harness import Served, on_postgres, on_sqlite

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AGENTS = """
import asyncio
import json
import pathlib

from checkrail import Hooks
from checkrail.testing import ScriptedModel

HERE = pathlib.Path(__file__).parent
hooks = Hooks()


async def repeat(request):
    await asyncio.sleep(0.02)
    return [each for each in request.messages if each["role"] == "user"][-1]["content"]


parrot = ScriptedModel(repeat)


@hooks.before_inbound
async def door(event, message):
    await asyncio.sleep(0.01)


@hooks.before_outbound
async def exit(event, message):
    await asyncio.sleep(0.01)


@hooks.on_session_end
async def note(event, session):
    with (HERE / "ended.jsonl").open("a") as file:
        told = [session.session_id, session.user_id, list(session.thread_ids)]
        file.write(json.dumps(told) + "\\n")
"""
FILE = """
python_path: ["."]
agents:
  parrot: {{ model: ./agents.py:parrot, on_crash: resume }}
hooks: {{ path: ./agents.py:hooks }}
server: {{ lease_seconds: 1.5, beat_seconds: 0.3 }}
sessions: {{ idle_minutes: {idle} }}
outbound: {{ allow: ["127.0.0.1"] }}
channels:
  webhook: {{ secrets: ["{secret}"], reply_url: "http://127.0.0.1:{port}/" }}
"""
USERS, EACH = 6, 8


class Ear(BaseHTTPRequestHandler):
    """Hears replies."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def ear():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ear)
    server.heard = []
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def start(tmp_path, ear, request):
    """Start servers of one project: `start(kind, idle)`."""
    made = []
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agents.py").write_text(AGENTS)

    def start(kind, idle=0.0, same=None):
        text = FILE.format(idle=idle, secret=SECRET, port=ear.server_address[1])
        (folder / "checkrail.yaml").write_text(text)
        if same is not None:
            database = same.database
        elif kind == "sqlite":
            database = on_sqlite(tmp_path / "data")
        else:
            url = request.getfixturevalue("postgres").with_tables()
            database = on_postgres(tmp_path / "data", url)
        log = tmp_path / f"server-{len(made)}.log"
        log.touch()
        server = Served(database, log, config=folder / "checkrail.yaml").start()
        made.append(server)
        return server

    yield start
    for server in made:
        server.kill()


def send(server, user, number):
    """Send a message as the service does, which tries again until it is acknowledged."""
    body = json.dumps({"user_id": user, "content": f"{user} {number}"})
    told = f"msg_{user}_{number}"

    def posted():
        now = datetime.now(UTC)
        headers = {
            "webhook-id": told,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(SECRET).sign(told, now, body),
        }
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(
                f"{server.url}/channels/webhook", headers=headers, content=body, timeout=10
            )
            return answer.status_code < 300
        return False

    until(posted, what=f"the acknowledgement of {told}")


def by_user(heard):
    """What each user heard, each delivery once, in the order in which it came first."""
    found, seen = defaultdict(list), set()
    for delivery_id, told in heard:
        if delivery_id not in seen:
            seen.add(delivery_id)
            user, number = told["content"].split()
            found[user].append(int(number))
    return found


def texts(server):
    rows = httpx.get(f"{server.url}/messages?limit=1000", timeout=30).json()
    return {row["status"] for row in rows}, len(rows)


def test_killed_servers_lose_no_message_and_answer_in_order(start, ear):
    now = [start("sqlite")]
    for number in range(EACH):
        for user in range(USERS):
            send(now[0], f"u{user}", number)
        if number % 3 == 1:
            now[0].kill()
            now[0] = start("sqlite", same=now[0])
    everything = {f"u{user}": [*range(EACH)] for user in range(USERS)}
    until(lambda: sum(map(len, by_user(ear.heard).values())) >= USERS * EACH, "all replies", 240)
    assert by_user(ear.heard) == everything
    statuses, count = texts(now[0])
    assert (statuses, count) == ({"answered"}, USERS * EACH)
    runs = httpx.get(f"{now[0].url}/runs?limit=1000", timeout=30).json()
    assert len(runs) == USERS * EACH


def test_a_users_messages_alternate_between_servers_of_which_one_is_killed(start, ear, tmp_path):
    one = start("postgres")
    other = start("postgres", same=one)
    alive = [one, other]
    for number in range(EACH):
        for user in range(USERS):
            send(alive[(number + user) % len(alive)], f"u{user}", number)
        if number == EACH // 2:
            alive.pop(0).kill()
    everything = {f"u{user}": [*range(EACH)] for user in range(USERS)}
    until(lambda: sum(map(len, by_user(ear.heard).values())) >= USERS * EACH, "all replies", 240)
    assert by_user(ear.heard) == everything
    assert len(httpx.get(f"{other.url}/runs?limit=1000", timeout=30).json()) == USERS * EACH


def test_an_end_is_told_though_the_server_that_found_it_is_killed(start, ear, tmp_path):
    one = start("postgres", idle=0.01)
    other = start("postgres", idle=0.01, same=one)
    for user in range(USERS):
        send(one, f"u{user}", 0)
    until(lambda: sum(map(len, by_user(ear.heard).values())) >= USERS, "all replies", 240)
    one.kill()
    ended = Path(tmp_path / "project" / "ended.jsonl")

    def told():
        lines = ended.read_text().splitlines() if ended.exists() else []
        return [json.loads(line) for line in lines]

    until(lambda: len({each[0] for each in told()}) == USERS, "all ends", 240)
    time.sleep(1)
    assert len({each[1] for each in told()}) == USERS
    assert all(len(each[2]) == 1 for each in told())
    open_ones = httpx.get(f"{other.url}/sessions?open=true", timeout=30).json()
    assert open_ones == []
