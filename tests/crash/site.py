"""A project whose runs stop where they are told to, its servers, and what is left when they die."""

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row
from tests.server.harness import Database, Served

PATIENCE = 60.0

Row = dict[str, Any]


def eventually(look: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """Wait until something is there, and give it."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(0.03)
    return found


def post(server: Served, path: str, body: Any = None, **headers: str) -> Any:
    """Ask a server for something, and give its answer."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = httpx.post(f"{server.url}{path}", json=body, headers=told, timeout=PATIENCE)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def new_thread(server: Served) -> str:
    return post(server, "/threads", {})["thread_id"]


def start(
    server: Served, do: dict[str, str], *, agent: str = "steps", thread: str = "", **more: Any
) -> str:
    """Start a run that does something at some places, on a thread of its own unless named."""
    thread = thread or new_thread(server)
    body = {"assistant_id": agent, "input": {"do": do}, "durability": "sync", **more}
    return post(server, f"/threads/{thread}/runs", body)["run_id"]


@dataclass
class Site:
    """One database, one folder that outlives every process, and any number of servers on them."""

    database: Database
    folder: Path
    serve: Callable[..., Served]
    servers: list[Served] = field(default_factory=list)

    def add(self) -> Served:
        """One more server, not started."""
        config = self.folder / "project" / "checkrail.yaml"
        made = self.serve(self.database, config=config, env={"CRASH_FOLDER": str(self.folder)})
        self.servers.append(made)
        return made

    def up(self) -> None:
        """Start the servers that are down."""
        down = [server for server in self.servers if not server.running]
        for server in down:
            server.begin()
        for server in down:
            server.await_ok()

    def go(self) -> None:
        """Let go everything that holds, now and later."""
        (self.folder / "go").touch()

    def stay(self) -> None:
        """Hold again what comes from now on."""
        (self.folder / "go").unlink(missing_ok=True)

    def journal(self, place: str | None = None, run_id: str | None = None) -> list[Row]:
        """What graphs and hooks wrote down, in all processes, in order."""
        file = self.folder / "journal"
        lines = file.read_text().splitlines() if file.exists() else []
        told = [json.loads(line) for line in lines]
        return [
            line
            for line in told
            if place in (None, line["place"]) and run_id in (None, line["run_id"])
        ]

    def places(self, run_id: str) -> list[str]:
        """The places that a run came to, in order."""
        told = [line["place"] for line in self.journal(run_id=run_id)]
        return [place for place in told if not place.startswith("after ")]

    def reached(self, place: str, run_id: str) -> list[Row]:
        """Wait until a run has come to a place."""
        return eventually(lambda: self.journal(place, run_id), f"{run_id} at {place}")

    def rows(self, query: str, **given: Any) -> list[Row]:
        """Ask the database itself; parameters are `:named`."""
        with self._connected() as connection:
            return [dict(row) for row in connection.execute(self._said(query), given).fetchall()]

    def change(self, query: str, **given: Any) -> None:
        """Change the database itself."""
        with self._connected() as connection:
            connection.execute(self._said(query), given)

    def run(self, run_id: str) -> Row:
        """A run as it is kept."""
        [row] = self.rows("SELECT * FROM runs WHERE run_id = :id", id=run_id)
        return row

    def ended(self, run_id: str) -> Row:
        """Wait for the end of a run, looking at the database only."""
        return eventually(
            lambda: (row := self.run(run_id))["ended_at"] is not None and row,
            f"the end of {run_id}",
        )

    def thread(self, run_id: str) -> Row:
        """The thread of a run as it is kept."""
        query = "SELECT t.* FROM threads t JOIN runs r USING (thread_id) WHERE r.run_id = :id"
        [row] = self.rows(query, id=run_id)
        return row

    def events(self, run_id: str) -> list[tuple[int, str, Any]]:
        """The events of a run as they are kept: number, name, data."""
        query = "SELECT payload FROM events WHERE run_id = :id ORDER BY last_seq"
        batches = [json.loads(bytes(row["payload"])) for row in self.rows(query, id=run_id)]
        return [(seq, event, data) for batch in batches for seq, event, *_, data in batch]

    def deliveries(self, run_id: str) -> dict[str, Row]:
        """What was owed for a run, by kind."""
        found = self.rows("SELECT * FROM deliveries WHERE run_id = :id", id=run_id)
        assert len({row["kind"] for row in found}) == len(found), "something is owed twice"
        return {row["kind"]: row for row in found}

    def records(self, run_id: str) -> list[Row]:
        """The hook records of a run, in order."""
        query = "SELECT record FROM hook_records WHERE run_id = :id AND point <> '' ORDER BY seq"
        return [json.loads(row["record"]) for row in self.rows(query, id=run_id)]

    def _said(self, query: str) -> str:
        known = self.database.kind == "sqlite"
        return query if known else re.sub(r":(\w+)", r"%(\1)s", query)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        if self.database.kind == "postgres":
            url = self.database.env["CHECKRAIL_DATABASE_URL"]
            with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
                yield connection
            return
        file = self.folder / "project" / ".checkrail" / "checkrail.db"
        with contextlib.closing(sqlite3.connect(file, timeout=10)) as connection, connection:
            connection.row_factory = sqlite3.Row
            yield connection
