"""Whatever somebody's code raises, wherever it is called: an error of that code, and no more."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.processes import PATIENCE, until
from tests.runner.harness import Running

from ..conftest import _watched  # noqa: TID252 - tests are no package
from ..harness import Served  # noqa: TID252

PROJECT = Path(__file__).parent / "project"
WAYS = ("SystemExit", "KeyboardInterrupt", "Own", "CancelledError", "GeneratorExit")
NODES = (
    "async node",
    "suspended node",
    "sync node",
    "task of a node",
    "tool",
    "async tool",
    "edge",
    "reducer",
    "sub-graph",
)
START_HOOKS = [
    f"{point}{kind}"
    for point in ("before_run", "on_run_start")
    for kind in ("", " in a thread", " when")
]
FINISH_HOOKS = ("after_run", "after_run in a thread", "after_run in the background")
HOOK_OF = {"in a thread": "threaded", "in the background": "behind", "when": "conditional"}


@pytest.fixture(scope="module")
def new_server(new_database, tmp_path_factory):
    with _watched() as watch:

        def made(file, kind):
            log = tmp_path_factory.mktemp("exits") / "server.log"
            log.touch()
            return watch(Served(new_database(kind), log, config=PROJECT / file)).start()

        yield made


@pytest.fixture(scope="module")
def server(new_server):
    return new_server("checkrail.yaml", "postgres")  # which a runner of graphs needs


@pytest.fixture(scope="module")
def guarded(new_server):
    return new_server("guarded.yaml", "sqlite")


@pytest.fixture(autouse=True)
def _same_processes(request):
    """Nothing that is raised in a test ends the server that it is raised in."""
    served = [request.getfixturevalue(name) for name in request.fixturenames if name in SERVED]
    before = [each.pid for each in served]
    yield
    for each in served:
        assert httpx.get(f"{each.url}/ok", timeout=PATIENCE).status_code == 200
    assert [each.pid for each in served] == before


SERVED = ("server", "guarded")


def run(server, agent, **given):
    """Run an agent on a thread of its own, and give the run with all that was owed for it."""
    told = {"configurable": given} if agent == "made" else {}
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as http:
        body = {"assistant_id": agent, "input": given, "config": told}
        thread = http.post("/threads", json={}).json()["thread_id"]
        made = http.post(f"/threads/{thread}/runs", json=body)
        if made.status_code != 200:
            return {"status": made.status_code}
        found = {}

        def over():
            found.update(http.get(f"/runs/{made.json()['run_id']}").json())
            owed = any(each["status"] == "owed" for each in found["deliveries"])
            return found["ended_at"] and not owed

        until(over, what=f"the end of {agent} at {given}", patience=20)
        found["hooks"] = http.get(f"/runs/{found['run_id']}/hooks").json()
        return found


def run_all(server, agent, places):
    """Run an agent for each place and way, all side by side with one that raises nothing."""
    cases = [(place, way) for place in places for way in WAYS]
    with ThreadPoolExecutor(8) as pool:
        innocent = pool.submit(run, server, agent)
        ended = [pool.submit(run, server, agent, place=place, way=way) for place, way in cases]
        assert innocent.result()["status"] == "success"
        return {case: each.result() for case, each in zip(cases, ended, strict=True)}


def errors_of(found):
    kinds = {case: each["error_type"].removeprefix("Node") for case, each in found.items()}
    return {case: (each["status"], kinds[case]) for case, each in found.items()}


def test_code_of_a_graph(server):
    found = run_all(server, "graph", NODES)
    assert errors_of(found) == {(place, way): ("error", way) for place, way in found}
    assert "called sys.exit(3) in leave" in found["sync node", "SystemExit"]["error"]


def test_a_factory_of_graphs(server):
    found = run_all(server, "made", ["factory", "end of a factory"])
    assert errors_of(found) == {(place, way): ("error", way) for place, way in found}


@pytest.mark.parametrize("agent", ["function", "plain_function"])
def test_a_function(server, agent):
    found = run_all(server, agent, [agent.replace("_", " ")])
    assert errors_of(found) == {(place, way): ("error", way) for place, way in found}


def failed_hooks(found):
    return {each["hook"] for each in found["hooks"] if each["event_type"] == "hook_failed"}


def test_start_hooks_and_hooks_on_results(server):
    for (place, way), found in run_all(server, "graph", [*START_HOOKS, "on_result"]).items():
        if way == "GeneratorExit":  # which passes, as whoever closes a generator wants it to
            assert found["status"] == (500 if "before_run" in place else "error"), (place, way)
            continue
        kind = place.partition(" ")[2]
        hook = HOOK_OF.get(kind, "ruled" if place == "on_result" else "asked")
        assert (failed_hooks(found), found["status"]) == ({hook}, "success"), (place, way)


def test_finish_hooks(server):
    for (place, way), found in run_all(server, "graph", FINISH_HOOKS).items():
        hook = HOOK_OF.get(place.partition(" ")[2], "asked")
        assert (failed_hooks(found), found["status"]) == ({hook}, "success"), (place, way)
        statuses = {each["status"] for each in found["deliveries"]}  # one is for the background
        closed = way == "GeneratorExit" and hook != "behind"
        assert statuses == ({"dead", "done"} if closed else {"done"}), (place, way)


@pytest.mark.parametrize("way", WAYS)
def test_code_of_an_own_app(server, way):
    for path, place in (("/own", "route"), ("/plain", "plain route"), ("/own", "middleware")):
        answer = _asked(server, "GET", path, params={"place": place, "way": way})
        assert answer in (500, None), (place, way)
    assert _asked(server, "GET", "/own") == 200


@pytest.mark.parametrize("way", WAYS)
def test_auth_handlers(guarded, way):
    headers = {"place": "auth", "way": way}
    assert _asked(guarded, "POST", "/threads", json={}, headers=headers) in (500, None)
    body = {"metadata": {"place": "authorization", "way": way}}
    assert _asked(guarded, "POST", "/threads", json=body) in (500, None)
    assert _asked(guarded, "POST", "/threads", json={}) == 200


def _asked(server, method, path, **options):
    """The status of an answer; None: the connection was closed without one."""
    try:
        return httpx.request(method, f"{server.url}{path}", timeout=10, **options).status_code
    except httpx.RemoteProtocolError:
        return None


def test_code_on_a_runner(server, tmp_path):
    runner = Running(server, tmp_path / "runner.log").start()
    pid = runner.pid
    try:
        found = run_all(server, "far", ["async node", "sync node", "task of a node", "tool"])
        assert errors_of(found) == {(place, way): ("error", way) for place, way in found}
        found = run_all(server, "far_function", ["function"])
        assert errors_of(found) == {(place, way): ("error", way) for place, way in found}
        assert (runner.running, runner.pid) == (True, pid)
    finally:
        runner.kill()


def test_a_callback_that_ends_the_process_ends_nothing(server):
    assert run(server, "schedule_exit")["status"] == "success"
