"""A server loads what its project uses: no graph library without graphs, no gateway unasked."""

import json
import subprocess
import sys

import pytest

from .harness import free_port

SERVED = """
import asyncio, gc, json, sys
from pathlib import Path

import httpx

from checkrail.server.app import build_app
from checkrail.server.startup import open_services
from checkrail.server.project import Project

HEAVY = ("aiohttp", "cel.cli", "langchain_core", "langgraph.pregel", "langgraph_sdk")
HEAVY += ("langsmith", "langgraph.store.base", "openai", "anthropic", "mcp", "litellm")


def loaded():
    return sorted(name for name in HEAVY if name in sys.modules)


async def main():
    told = {}
    async with open_services(Project(Path("checkrail.yaml"))) as services:
        told["started"] = loaded()
        told["files"] = sorted(file.name for file in Path(".checkrail").glob("*.db"))
        transport = httpx.ASGITransport(build_app(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            ran = {"agent_name": "support", "parameters": {"prompt": "hello"}}
            ran["execution_mode"] = "sync"
            run = (await client.post("/runs", json=ran)).json()
            told["answer"] = run.get("result_text")
            thread = (await client.post("/threads", json={})).json()["thread_id"]
            state = await client.get(f"/threads/{thread}/state")
            history = await client.post(f"/threads/{thread}/history", json={"limit": 10})
            told["state"] = [state.json()["values"], history.json()]
            pruned = {"thread_ids": [thread], "strategy": "keep_latest"}
            told["pruned"] = (await client.post("/threads/prune", json=pruned)).status_code
            copied = await client.post(f"/threads/{thread}/copy")
            told["copied"] = copied.status_code
            told["deleted"] = (await client.delete(f"/threads/{thread}")).status_code
            told["ran"] = loaded()
            item = {"namespace": ["a"], "key": "k", "value": {"x": 1}}
            await client.put("/store/items", json=item)
            found = await client.get("/store/items", params={"namespace": "a", "key": "k"})
            told["item"] = found.json()["value"]
            calls = [client.get("/gateway/ok") for _ in range(3)]
            told["gateway"] = [each.json()["ok"] for each in await asyncio.gather(*calls)]
            told["used"] = loaded()
    print(json.dumps(told))


asyncio.run(main())
"""

STARTED = """
import gc, json, os, signal, sys, threading, time, urllib.error, urllib.request

from checkrail.cli import main

rounds = []


def note(phase, info):
    if phase == "start":
        seen = range(info["generation"] + 1)
        rounds.append(sum(len(gc.get_objects(generation=each)) for each in seen))


def tell():
    while True:
        try:
            urllib.request.urlopen("http://127.0.0.1:{port}/ok")
            break
        except OSError:
            time.sleep(0.05)
    from checkrail.server.routes import ROUTERS

    heavy = ("alembic", "langgraph.pregel", "aiohttp")
    routes = [route for _, router in ROUTERS for route in router.routes]
    print(json.dumps({{
        "loaded": [name for name in heavy if name in sys.modules],
        "prepared": [route.path for route in routes if "prepared" in vars(route)],
        "largest": max(rounds),
    }}), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


gc.callbacks.append(note)
threading.Thread(target=tell, daemon=True).start()
sys.argv = ["checkrail", "serve", "--port", "{port}"]
main()
"""

PROJECT = """
agents:
  support: { model: { provider: scripted, replies: [It is on its way.] } }
hooks:
  before_run: { name: closed, when: 'parameters.prompt == "closed"', block: We are closed }
"""


def served(folder, project, code=SERVED):
    (folder / "checkrail.yaml").write_text(project, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return served(tmp_path_factory.mktemp("plain"), PROJECT)


def test_a_project_without_graphs_loads_no_graph_library_and_no_gateway(told):
    assert told["started"] == []
    assert told["files"] == ["checkrail.db"]


def test_its_runs_and_threads_need_none_either(told):
    assert told["answer"] == "It is on its way."
    assert told["state"] == [{}, []]
    assert [told[done] for done in ("pruned", "copied", "deleted")] == [200, 200, 204]
    assert told["ran"] == []


def test_the_store_and_the_gateway_are_there_when_they_are_called(told):
    assert told["item"] == {"x": 1}
    assert told["gateway"] == [True, True, True]
    assert {"aiohttp", "langgraph.store.base"} <= {*told["used"]}


def test_what_graphs_have_left_is_opened_and_a_gateway_of_the_file_is_made(tmp_path):
    (tmp_path / ".checkrail").mkdir(mode=0o700)
    (tmp_path / ".checkrail" / "checkpoints.db").touch(0o600)
    again = served(tmp_path, f"{PROJECT}gateway: {{ pass_through: false }}\n")
    assert {"aiohttp", "langgraph.store.base"} <= {*again["started"]}
    assert again["files"] == ["checkpoints.db", "checkrail.db", "store.db"]
    assert again["answer"] == "It is on its way."


def test_a_server_that_is_started_again_does_only_what_it_needs_to_answer(tmp_path):
    code = STARTED.format(port=free_port())
    assert "alembic" in served(tmp_path, PROJECT, code)["loaded"]  # the tables are made
    again = served(tmp_path, PROJECT, code)
    assert again["loaded"] == []
    assert again["prepared"] == ["/ok"]
    assert again["largest"] < 20_000, "the collector went through what was loaded"


def test_a_runner_without_graphs_loads_no_graph_library():
    heavy = '{"aiohttp", "fastapi", "langchain_core", "langgraph.pregel", "langsmith"}'
    code = f"import checkrail.runner.runner, sys; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
