"""A whole server in this process, with hooks at every point around a conversation."""

import asyncio
import contextlib
from pathlib import Path

import httpx2
import orjson
import pytest
from sqlalchemy import select

from checkrail.server.app import build_app
from checkrail.server.project import Project
from checkrail.server.startup import open_services
from checkrail.store.tables import hook_records

AGENTS = """
from checkrail.testing import ScriptedModel


def repeat(request):
    said = [message for message in request.messages if message["role"] == "user"][-1]["content"]
    return f"{said}, you say?"


parrot = ScriptedModel(repeat)
"""

FILE = """
python_path: ["."]
agents:
  parrot:
    model: ./agents.py:parrot
    system_prompt: You repeat what you hear.
sessions:
  idle_minutes: 0
"""


class Desk:
    """A running server: say something by `say`, and read back what its hooks recorded."""

    def __init__(self, services, client):
        self.services = services
        self.client = client
        self.sessions = services.sessions

    async def say(self, content, **more):
        return await self.client.post("/messages", json={"content": content, **more})

    async def stream(self, content, **more):
        """Say something, and return the frames of the answer as (name, data)."""
        body = {"content": content, **more}
        answer = await self.client.post("/messages/stream", json=body)
        assert answer.status_code == 200, answer.text
        frames = [
            dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
            for frame in answer.text.split("\n\n")
            if frame.strip()
        ]
        return [(each["event"], orjson.loads(each["data"])) for each in frames if each]

    async def records(self, **wanted):
        """Return the records of hooks in order, those that are as wanted."""
        await self.services.runs.parts.log.flush()
        query = select(hook_records.c.record).where(hook_records.c.point != "")
        rows = await self.services.database.read(
            lambda reads: [row.record for row in reads.execute(query.order_by(hook_records.c.seq))]
        )
        return [row for row in rows if all(row.get(key) == of for key, of in wanted.items())]

    async def wait_for_record(self, point):
        """Return all records, as soon as a call of a hook at a point has ended."""
        async with asyncio.timeout(60):
            while True:
                found = await self.records()
                ended = {row["event_type"] for row in found if row["point"] == point}
                if ended - {"hook_start"}:
                    return found
                await asyncio.sleep(0.02)

    async def wait_for_question(self):
        """Return the one question that is open."""
        async with asyncio.timeout(60):
            while True:
                found = (await self.client.get("/approvals?status=open")).json()
                if found:
                    return found[0]
                await asyncio.sleep(0.02)


@pytest.fixture
def project(tmp_path):
    """Write a project: `project(file=…, hooks=…, agents=…)` returns its file."""

    def write(file=FILE, hooks="", agents=AGENTS, **files):
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "agents.py").write_text(agents)
        (folder / "hooks.py").write_text(hooks)
        (folder / "checkrail.yaml").write_text(file)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return folder / "checkrail.yaml"

    return write


@contextlib.asynccontextmanager
async def open_desk(file: Path):
    async with open_services(Project(file), dev=True) as services:
        transport = httpx2.ASGITransport(build_app(services), raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Desk(services, client)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request, monkeypatch):
    """The database that servers of a test work on, of each kind in turn."""
    if request.param == "sqlite":
        monkeypatch.delenv("CHECKRAIL_DATABASE_URL", raising=False)
        yield None
        return
    cluster = request.getfixturevalue("postgres")
    url = cluster.with_tables()
    monkeypatch.setenv("CHECKRAIL_DATABASE_URL", url)
    yield url
    cluster.drop(url)
