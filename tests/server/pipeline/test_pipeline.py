"""The pipeline example: agents that are hooks of agents, step by step, on a real server."""

import asyncio
import json
import shutil
from pathlib import Path

import httpx
import pytest
from tests.server.harness import Served, on_sqlite
from tests.server.sdk.support import eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline"
LIMIT = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The example as it is, but for validators that have less time."""
    folder = tmp_path_factory.mktemp("pipeline")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    for name in ("data-processor.json", "data-preview.yaml"):
        file = folder / "agents" / name
        text = file.read_text()
        assert "60" in text
        file.write_text(text.replace("60", str(LIMIT)))
    config = folder / "checkrail.yaml"
    served = Served(on_sqlite(folder / "data"), folder / "log", config=config, command="dev")
    try:
        yield served.start()
    finally:
        served.kill()


@pytest.fixture
async def http(site):
    async with httpx.AsyncClient(base_url=site.url, timeout=60) as client:
        yield client


async def asked(http, agent, parameters, **more):
    body = {"agent_name": agent, "parameters": parameters, "execution_mode": "sync", **more}
    answer = await http.post("/runs", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def beneath(http, run, agent):
    """The run of an agent that a hook of another run started, once it has ended."""

    async def found():
        rows = (await http.get("/runs", params={"agent_name": agent, "limit": 100})).json()
        mine = [row for row in rows if row["parent_run_id"] == run["run_id"]]
        return next((row for row in mine if row["ended_at"]), None)

    row = await eventually(found, f"a run of {agent}")
    return (await http.get(f"/runs/{row['run_id']}")).json()


async def told(http, run, hook_type):
    """What the records of a run say of its hooks at a point."""

    async def found():
        rows = (await http.get(f"/runs/{run['run_id']}/hooks")).json()
        mine = [row for row in rows if row["hook_type"] == hook_type]
        return mine if len(mine) > 1 else None

    return await eventually(found, f"the records of {hook_type}")


async def test_parameters_are_checked_before_anything_else(http):
    before = (await http.get("/runs", params={"agent_name": "data-processor"})).json()
    body = {"agent_name": "data-processor", "parameters": {"data_source": 4}}
    answer = await http.post("/runs", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {
            "path": "/data_source",
            "message": 'it is not of type "string"',
            "schema": {"properties/data_source/type": "string"},
        }
    ]
    after = (await http.get("/runs", params={"agent_name": "data-processor"})).json()
    assert after == before


async def test_without_a_start_hook_the_parameters_stay_as_they_are(http):
    given = {"source": "crm"}
    run = await asked(http, "data-extractor", given)
    assert (run["parameters"], run["original_parameters"]) == (given, given)


async def test_the_validator_goes_on_and_the_run_has_what_it_made_of_the_parameters(http):
    given = {"data_source": "sales.csv"}
    run = await asked(http, "data-processor", given)
    enriched = {**given, "options": {"encoding": "utf-8"}}
    assert (run["original_parameters"], run["parameters"]) == (given, enriched)
    assert run["result_data"]["summary"] == "42 rows of sales.csv, read as utf-8"

    hook = await beneath(http, run, "input-validator")
    assert hook["origin"] == "hook"
    assert hook["parameters"] == {
        "parameters": given,
        "agent_name": "data-processor",
        "session_id": run["session_id"],
        "run_id": run["run_id"],
    }
    assert hook["ended_at"] < run["ended_at"]
    start, complete = await told(http, run, "on_run_start")
    assert (start["event_type"], complete["event_type"]) == ("hook_start", "hook_complete")
    assert (start["target_type"], start["target_name"]) == ("agent", "input-validator")
    assert complete["action"] == "continue"
    assert complete["duration_ms"] > 0


async def test_the_validator_blocks_and_nothing_is_executed(http):
    run = await asked(http, "data-processor", {"data_source": "secret.csv"})
    assert (run["status"], run["phase"]) == ("error", "blocked")
    assert run["block_reason"] == "secret.csv is not for everybody"
    assert (run["result_data"], run["usage"]) == (None, None)
    _, blocked = await told(http, run, "on_run_start")
    assert blocked["event_type"] == "hook_blocked"
    assert blocked["block_reason"] == "secret.csv is not for everybody"


FAILURES = {"broken.csv": "error", "slow.csv": "timeout", "odd.csv": "invalid"}


@pytest.fixture(scope="module")
def slow_runs(site):
    """Runs whose validators are late, by their agents: they wait at the same time."""

    async def request_runs():
        agents = ("data-processor", "data-preview")
        async with httpx.AsyncClient(base_url=site.url, timeout=60) as client:
            runs = [asked(client, agent, {"data_source": "slow.csv"}) for agent in agents]
            return dict(zip(agents, await asyncio.gather(*runs), strict=True))

    return asyncio.run(request_runs())


@pytest.fixture
def failing(http, slow_runs):
    """Requests a run of an agent whose validator fails on a source."""

    async def request_run(agent, source):
        if source == "slow.csv":
            return slow_runs[agent]
        return await asked(http, agent, {"data_source": source})

    return request_run


@pytest.mark.parametrize("source", FAILURES)
async def test_a_validator_that_fails_blocks_where_that_was_said(http, failing, source):
    run = await failing("data-processor", source)
    assert (run["status"], run["phase"]) == ("error", "blocked")
    _, failed = await told(http, run, "on_run_start")
    assert (failed["event_type"], failed["failure"]) == ("hook_failed", FAILURES[source])
    assert failed["on_error_behavior"] == "block"


@pytest.mark.parametrize("source", FAILURES)
async def test_a_validator_that_fails_lets_the_run_go_on_where_that_was_said(http, failing, source):
    run = await failing("data-preview", source)
    assert (run["status"], run["parameters"]) == ("success", {"data_source": source})
    _, failed = await told(http, run, "on_run_start")
    assert (failed["event_type"], failed["failure"]) == ("hook_failed", FAILURES[source])
    assert failed["on_error_behavior"] == "continue"


async def test_a_validator_that_is_late_is_stopped(http, slow_runs):
    hook = await beneath(http, slow_runs["data-processor"], "input-validator")
    assert hook["phase"] in ("cancelled", "timeout")


@pytest.mark.parametrize(("source", "status"), [("a.csv", "completed"), ("secret.csv", "failed")])
async def test_the_end_of_a_run_is_logged(http, source, status):
    run = await asked(http, "data-processor", {"data_source": source})
    hook = await beneath(http, run, "audit-logger")
    told = hook["parameters"]
    assert set(told) == {
        *("parameters", "result_text", "result_data", "status", "error"),
        *("session_id", "run_id", "agent_name"),
    }
    assert (told["status"], told["run_id"]) == (status, run["run_id"])
    assert told["result_data"] == run["result_data"]
    assert run["ended_at"] <= hook["created_at"]


async def test_the_extractor_is_followed_by_a_session_of_its_own(http):
    run = await asked(http, "data-extractor", {"source": "crm"})
    following = await beneath(http, run, "record-processor")
    assert following["result_data"] == {"stored": 3}
    assert following["parameters"]["result_data"] == run["result_data"]
    assert following["session_id"] != run["session_id"]
    session = (await http.get(f"/sessions/{following['session_id']}")).json()
    assert session["parent_session_id"] == run["session_id"]
    start, complete = await told(http, run, "on_run_finish")
    assert (start["event_type"], complete["event_type"]) == ("hook_start", "hook_complete")


async def test_the_path_of_a_report_is_resolved_before_the_program_runs(http):
    run = await asked(http, "report-generator", {"report_id": "R123"})
    path = "/data/reports/R123.csv"
    assert run["original_parameters"] == {"report_id": "R123"}
    assert run["parameters"] == {"report_id": "R123", "resolved_path": path}
    assert run["result_data"] == {"report": f"Report R123 from {path}"}


async def test_a_report_that_nobody_knows_is_refused(http):
    run = await asked(http, "report-generator", {"report_id": "R999"})
    assert run["block_reason"] == "there is no report R999"


async def test_a_rule_of_the_server_holds_for_every_agent(http):
    body = {"agent_name": "data-processor", "parameters": {"data_source": "http://x.example/a"}}
    answer = await http.post("/runs", json=body)
    assert (answer.status_code, answer.json()["error"]) == (403, "refused")
    assert "https only" in answer.json()["message"]


def test_the_blueprints_say_what_the_flows_show():
    processor = json.loads((EXAMPLE / "agents" / "data-processor.json").read_text())
    assert processor["hooks"]["on_run_start"]["agent_name"] == "input-validator"
    assert processor["hooks"]["on_run_finish"]["agent_name"] == "audit-logger"
