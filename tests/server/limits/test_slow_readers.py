"""Clients that ask for much and read nothing: what the server holds for them stays small."""

import contextlib
import os
import re
import socket
import time
from pathlib import Path

import httpx
import pytest
from tests.processes import until
from tests.server.harness import Served
from websockets.sync.client import connect

READERS = 8
EVENTS = 60
MIB = 2**20

GRAPH = f"""
from typing import TypedDict
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    text: str

def pour(state):
    write = get_stream_writer()
    for number in range({EVENTS}):
        write("x" * {MIB})
    return {{"text": "poured"}}

graph = StateGraph(State).add_node(pour).add_edge(START, "pour").compile()
"""
CONFIG = "agents: { pour: ./pour.py:graph }\nlimits: { write_seconds: 2 }\n"


@pytest.fixture
def served(serve, new_database, tmp_path):
    (tmp_path / "pour.py").write_text(GRAPH)
    config = tmp_path / "checkrail.yaml"
    config.write_text(CONFIG)
    return serve(new_database("sqlite"), config=config).start()


def memory(pid: int) -> float:
    """What a process has in memory now, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def most_memory(pid: int, seconds: float) -> float:
    """What a process has in memory at most, for a while."""
    most, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, memory(pid))
        time.sleep(0.02)
    return most


def cut(served: Served) -> int:
    """How many connections the server cut for not reading."""
    said = re.findall(r"closed (\d+) connection.*limits.write_seconds", served.output())
    return sum(map(int, said))


def test_a_large_run_is_replayed_to_who_does_not_read(served):
    with httpx.Client(base_url=served.url, timeout=60) as client:
        thread_id = client.post("/threads", json={}).json()["thread_id"]
        body = {"assistant_id": "pour", "input": {}, "stream_mode": ["custom"]}
        run = client.post(f"/threads/{thread_id}/runs", json=body).json()
        client.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
    paths = [
        f"/runs/{run['run_id']}/events",
        f"/threads/{thread_id}/runs/{run['run_id']}/stream",
        f"/threads/{thread_id}/stream",
    ]
    with httpx.stream("GET", f"{served.url}{paths[0]}", timeout=60) as whole:
        size = sum(len(piece) for piece in whole.iter_bytes())
    assert size > EVENTS * MIB
    before = memory(served.pid)
    with contextlib.ExitStack() as stack:
        for number in range(READERS):
            reader = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            head = (
                f"GET {paths[number % 3]} HTTP/1.1\r\nhost: 127.0.0.1\r\nlast-event-id: 0\r\n\r\n"
            )
            reader.sendall(head.encode())
        assert most_memory(served.pid, 1.5) - before < READERS * 16
        until(lambda: cut(served) == READERS, f"{READERS} readers to be cut")


def test_a_socket_that_does_not_read_holds_little(served):
    with httpx.Client(base_url=served.url, timeout=60) as client:
        thread_id = client.post("/threads", json={}).json()["thread_id"]
    url = f"ws://127.0.0.1:{served.port}/threads/{thread_id}/stream/events"
    options = {"max_queue": 1, "max_size": None, "compression": None, "close_timeout": 0.1}
    subscribe = '{"id": 1, "method": "subscription.subscribe", "params": {"channels": ["custom"]}}'
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            one = stack.enter_context(connect(url, **options))
            one.send(subscribe)
            one.recv(timeout=20)
        before = memory(served.pid)
        with httpx.Client(base_url=served.url, timeout=60) as client:
            body = {"assistant_id": "pour", "input": {}, "stream_mode": ["custom"]}
            run = client.post(f"/threads/{thread_id}/runs", json=body).json()
            client.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
        assert most_memory(served.pid, 1.0) - before < 4 * EVENTS
        until(lambda: cut(served) == 2, "the readers to be cut")
