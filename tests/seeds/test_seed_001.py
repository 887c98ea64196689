"""Hooks of agent runs, as users of the coordinator in seed 001 know them: same blueprints."""

import contextlib
import json
import re
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.processes import until
from tests.server.harness import Served, on_sqlite

START_KEYS = {"parameters", "agent_name", "session_id", "run_id"}
FINISH_KEYS = START_KEYS | {"result_text", "result_data", "status", "error"}

START_SCHEMA = {
    "type": "object",
    "description": "Matches on_run_start hook input schema",
    "required": ["parameters", "agent_name"],
    "properties": {
        "parameters": {"type": "object"},
        "agent_name": {"type": "string"},
        "session_id": {"type": "string"},
        "run_id": {"type": "string"},
    },
    "additionalProperties": False,
}
DECISION_SCHEMA = {
    "type": "object",
    "description": "Returns on_run_start hook output schema",
    "required": ["action"],
    "properties": {
        "action": {"type": "string", "enum": ["continue", "block"]},
        "parameters": {"type": "object"},
        "block_reason": {"type": "string"},
    },
}
SOURCE_SCHEMA = {
    "type": "object",
    "required": ["data_source"],
    "properties": {"data_source": {"type": "string"}, "options": {"type": "object"}},
}


UNFIT = {"properties": {"parameters": {"required": ["something_else"]}}}
"""What no run here has; `check` cannot know that."""


def hook(agent_name, on_error, **more):
    return {"type": "agent", "agent_name": agent_name, "on_error": on_error, **more}


def function(name, **more):
    """A procedural agent; unless it says so it takes any object."""
    return {"type": "procedural", "path": f"./functions.py:{name}", **more}


def processor(validator, on_error, **more):
    """The seed's data-processor, with a validator in front."""
    return {
        "type": "autonomous",
        "description": "Processes data with validation and formatting",
        "model": "./models.py:processor",
        "parameters_schema": SOURCE_SCHEMA,
        "output_schema": {
            "type": "object",
            "required": ["processed_count", "summary"],
            "properties": {
                "processed_count": {"type": "integer"},
                "summary": {"type": "string"},
            },
        },
        "hooks": {
            "on_run_start": hook(validator, on_error, timeout_seconds=60),
            "on_run_finish": hook("audit-logger", "continue", timeout_seconds=30),
        },
        **more,
    }


def blueprints(url):
    webhook = {
        "type": "http",
        "url": url,
        "method": "POST",
        "headers": {"Authorization": "Bearer ${API_TOKEN}", "X-Team": "data"},
        "on_error": "continue",
        "timeout_seconds": 30,
    }
    validate = {**webhook, "url": url.replace("/log", "/validate")}
    nowhere = "http://127.0.0.1:9/validate"  # where nobody listens
    return {
        "data-processor": processor("input-validator", "block"),
        "data-preview": processor("input-validator", "continue"),
        "hurried": processor("sleeper", "block")
        | {"hooks": {"on_run_start": hook("sleeper", "block", timeout_seconds=1)}},
        "misfit": processor("strict", "continue"),
        "input-validator": {
            "type": "autonomous",
            "description": "Validates and enriches input parameters",
            "model": "./models.py:validator",
            "parameters_schema": START_SCHEMA,
            "output_schema": DECISION_SCHEMA,
            "system_prompt": "You are a parameter validator.",
        },
        "strict": function("resolve", parameters_schema=UNFIT),
        "sleeper": function("sleep"),
        "audit-logger": function("audit"),
        "data-extractor": {
            "type": "autonomous",
            "model": "./models.py:extractor",
            "parameters_schema": {"type": "object"},
            "output_schema": {
                "type": "object",
                "properties": {"records": {"type": "array"}, "source": {"type": "string"}},
            },
            "hooks": {"on_run_finish": hook("record-processor", "block")},
        },
        "record-processor": function("process"),
        "report-generator": function(
            "report",
            parameters_schema={
                "type": "object",
                "required": ["report_id"],
                "properties": {
                    "report_id": {"type": "string"},
                    "resolved_path": {"type": "string"},
                },
            },
            hooks={
                "on_run_start": hook("path-resolver", "block"),
                "on_run_finish": hook("careful-logger", "continue"),
            },
        ),
        "path-resolver": function("resolve"),
        "careful-logger": function(
            "audit", parameters_schema={"properties": {"original_parameters": {}}}
        ),
        "impatient": function(
            "greet", hooks={"on_run_finish": hook("sleeper", "block", timeout_seconds=1)}
        ),
        "webhooked": function("greet", hooks={"on_run_finish": webhook}),
        "webhooked-failing": function("fail", hooks={"on_run_finish": {"$ref": "web-audit"}}),
        "patient": function(
            "dawdle", on_crash="fail", hooks={"on_run_finish": hook("audit-logger", "continue")}
        ),
        "watched": {
            "model": "./models.py:caller",
            "tools": ["./functions.py:delete"],
            "hooks": {
                "on_tool_call": {"name": "tools", "block": "Nothing is deleted here"},
                "on_result": {"name": "results", "redact": ["/[0-9]+/"]},
            },
        },
        "late": function(
            "dawdle",
            timeout_seconds=0.5,
            hooks={
                "on_timeout": hook("audit-logger", "continue"),
                "on_error": {"type": "http", "url": url, "on_error": "continue"},
            },
        ),
        "checked": function("greet", hooks={"on_run_start": validate}),
        "unchecked": function("greet", hooks={"on_run_start": {**validate, "url": nowhere}}),
        "unreachable": function(
            "greet", hooks={"on_run_start": {**validate, "url": nowhere, "on_error": "block"}}
        ),
        "notified": function(
            "greet",
            hooks={
                "on_run_finish": {"type": "http", "url": url, "mode": "async", "on_error": "ignore"}
            },
        ),
    }


FUNCTIONS = """
    import asyncio
    import json
    import time

    PATHS = {"R123": "/data/reports/R123.csv"}


    def audit(told):
        with open("audit.jsonl", "a") as file:
            file.write(json.dumps(told) + "\\n")
        return {}


    def process(told):
        return {"stored": len(told["result_data"]["records"])}


    def resolve(told):
        asked = told["parameters"]
        if asked["report_id"] not in PATHS:
            return {"action": "block", "block_reason": "There is no such report"}
        path = PATHS[asked["report_id"]]
        return {"action": "continue", "parameters": {**asked, "resolved_path": path},
                "explanation": "It is where all reports are"}


    def report(report_id, resolved_path):
        return f"{report_id} is in {resolved_path}"


    def greet(told):
        return {"greeting": f"Hello {told['name']}"}


    def fail(told):
        raise ValueError("no greeting today")


    def delete(path: str) -> str:
        'Delete a file.'
        raise AssertionError("it was called")


    async def dawdle(told):
        await asyncio.sleep(60)


    def sleep(told):
        time.sleep(2)
        return {"action": "continue", "parameters": told["parameters"]}
"""

MODELS = """
    import json

    from checkrail import ToolCall
    from checkrail.testing import ScriptedModel


    def told(request):
        return json.loads(request.messages[-1]["content"])


    def validate(request):
        given = told(request)["parameters"]
        source = given["data_source"]
        if source == "secret.csv":
            reason = "Insufficient permissions for this operation"
            return json.dumps({"action": "block", "block_reason": reason})
        if source == "broken.csv":
            raise ConnectionError("the model is down")
        if source == "odd.csv":
            return json.dumps({"action": "continue"})
        options = {"encoding": "utf-8"}
        return json.dumps({"action": "continue", "parameters": {**given, "options": options}})


    def process(request):
        given = told(request)
        encoding = given.get("options", {}).get("encoding")
        return json.dumps({"processed_count": 42, "summary": f"{given['data_source']}, {encoding}"})


    def call(request):
        if request.messages[-1]["role"] == "tool":
            return f"12 files stay: {request.messages[-1]['content']}"
        return ToolCall("1", "delete", {"path": "a.csv"})


    caller = ScriptedModel(call, name="caller")
    validator = ScriptedModel(validate, name="validator")
    processor = ScriptedModel(process, name="processor")
    extractor = ScriptedModel(
        lambda request: json.dumps({"records": [1, 2, 3], "source": "crm"}), name="extractor"
    )
"""


def decide(told):
    """What the service says of a run that is to start."""
    if told["parameters"]["name"] == "Eve":
        return {"action": "block", "block_reason": "Eve has no permission"}
    return {"action": "continue", "parameters": {**told["parameters"], "name": "Ada Lovelace"}}


class Webhooks(BaseHTTPRequestHandler):
    """Somebody's service, which validates and audits."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        told = json.loads(body)
        self.server.sent.append((dict(self.headers), told))
        answer = json.dumps(decide(told) if self.path == "/validate" else {}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args): ...


@pytest.fixture(scope="module")
def webhooks():
    with ThreadingHTTPServer(("127.0.0.1", 0), Webhooks) as server:
        server.sent = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def site(tmp_path_factory, webhooks):
    folder = tmp_path_factory.mktemp("seed_001")
    (folder / "functions.py").write_text(textwrap.dedent(FUNCTIONS))
    (folder / "models.py").write_text(textwrap.dedent(MODELS))
    url = f"http://127.0.0.1:{webhooks.server_address[1]}/log"
    (folder / "checkrail.json").write_text(
        json.dumps(
            {
                "agents": blueprints(url),
                "definitions": {"web-audit": {"type": "http", "url": url, "on_error": "continue"}},
                "env": {"allow": ["API_TOKEN"]},
            }
        )
    )
    served = Served(
        on_sqlite(folder / "data"),
        folder / "log",
        config=folder / "checkrail.json",
        command="dev",
        env={"API_TOKEN": "s3cret-token"},
    )
    try:
        yield served.start()
    finally:
        served.kill()


@pytest.fixture
def http(site):
    with httpx.Client(base_url=site.url, timeout=60) as client:
        yield client


def run(http, agent, **parameters):
    body = {"agent_name": agent, "parameters": parameters, "execution_mode": "sync"}
    answer = http.post("/runs", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def child_of(http, parent, agent):
    """The run of a hook agent, once it has ended."""
    found = []

    def ended():
        asked = {"parent_run_id": parent["run_id"], "agent_name": agent}
        found[:] = [each for each in http.get("/runs", params=asked).json() if each["ended_at"]]
        return found

    until(ended, what=f"a run of {agent}")
    return http.get(f"/runs/{found[0]['run_id']}").json()


def records_of(http, made, hook_type, count=2):
    """The records of a run's hook, once it has ended."""
    found = []

    def complete():
        listed = http.get(f"/runs/{made['run_id']}/hooks").json()
        found[:] = [each for each in listed if each["hook_type"] == hook_type]
        return len(found) >= count

    until(complete, what=f"the records of {hook_type}")
    return found


class TestStart:
    def test_parameters_are_validated_before_any_hook(self, http):
        body = {"agent_name": "data-processor", "parameters": {"options": {}}}
        answer = http.post("/runs", json=body)
        assert answer.status_code == 422
        assert "data_source" in answer.json()["message"]

    def test_a_validator_goes_on_with_enriched_parameters(self, http):
        made = run(http, "data-processor", data_source="sales.csv")
        assert made["original_parameters"] == {"data_source": "sales.csv"}
        enriched = {"data_source": "sales.csv", "options": {"encoding": "utf-8"}}
        assert made["parameters"] == enriched
        assert made["result_data"] == {"processed_count": 42, "summary": "sales.csv, utf-8"}
        assert made["result_text"] is None
        asked = child_of(http, made, "input-validator")["parameters"]
        assert asked == {
            "parameters": {"data_source": "sales.csv"},
            "agent_name": "data-processor",
            "session_id": made["session_id"],
            "run_id": made["run_id"],
        }

    def test_a_validator_blocks_with_its_reason(self, http):
        made = run(http, "data-processor", data_source="secret.csv")
        reason = "Insufficient permissions for this operation"
        assert (made["status"], made["phase"]) == ("error", "blocked")
        assert (made["block_reason"], made["result_data"]) == (reason, None)
        start, blocked = records_of(http, made, "on_run_start")
        assert [start["event_type"], blocked["event_type"]] == ["hook_start", "hook_blocked"]
        assert blocked["block_reason"] == reason

    @pytest.mark.parametrize(
        ("source", "failure"), [("broken.csv", "error"), ("odd.csv", "invalid")]
    )
    def test_a_validator_that_fails_does_what_on_error_says(self, http, source, failure):
        blocked = run(http, "data-processor", data_source=source)
        assert (blocked["status"], blocked["phase"]) == ("error", "blocked")
        gone_on = run(http, "data-preview", data_source=source)
        assert (gone_on["status"], gone_on["parameters"]) == ("success", {"data_source": source})
        for made, behaviour in ((blocked, "block"), (gone_on, "continue")):
            failed = records_of(http, made, "on_run_start")[1]
            assert (failed["event_type"], failed["failure"]) == ("hook_failed", failure)
            assert failed["on_error_behavior"] == behaviour
            assert failed["error"]

    def test_a_validator_that_is_late_blocks(self, http):
        made = run(http, "hurried", data_source="sales.csv")
        assert (made["phase"], records_of(http, made, "on_run_start")[1]["failure"]) == (
            "blocked",
            "timeout",
        )

    def test_a_hook_agent_that_cannot_take_its_input_blocks_whatever_on_error_says(self, http):
        made = run(http, "misfit", data_source="sales.csv")
        assert (made["status"], made["phase"]) == ("error", "blocked")
        assert "'strict' cannot be asked" in made["block_reason"]

    def test_parameters_are_enriched_by_an_agent_that_declares_no_schema(self, http, site):
        made = run(http, "report-generator", report_id="R123")
        path = "/data/reports/R123.csv"
        assert made["parameters"] == {"report_id": "R123", "resolved_path": path}
        assert made["result_text"] == f"R123 is in {path}"
        assert "keys that are ignored: 'explanation'" in site.output()

    def test_a_report_that_is_not_there_is_refused(self, http):
        made = run(http, "report-generator", report_id="R9")
        assert made["block_reason"] == "There is no such report"

    def test_a_web_service_goes_on_with_enriched_parameters(self, http, webhooks):
        made = run(http, "checked", name="Ada")
        assert made["parameters"] == {"name": "Ada Lovelace"}
        assert made["result_data"] == {"greeting": "Hello Ada Lovelace"}
        [(headers, told)] = sent_for(webhooks, made)
        assert told.keys() >= START_KEYS
        assert (told["parameters"], told["agent_name"]) == ({"name": "Ada"}, "checked")
        assert headers["authorization"] == "Bearer s3cret-token"

    def test_a_web_service_blocks_with_its_reason(self, http):
        made = run(http, "checked", name="Eve")
        assert (made["phase"], made["block_reason"]) == ("blocked", "Eve has no permission")

    @pytest.mark.parametrize(
        ("agent", "status", "behaviour"),
        [("unchecked", "success", "continue"), ("unreachable", "error", "block")],
    )
    def test_one_that_is_not_there_does_what_on_error_says(self, http, agent, status, behaviour):
        made = run(http, agent, name="Ada")
        assert made["status"] == status
        _, failed = records_of(http, made, "on_run_start")
        assert (failed["event_type"], failed["failure"]) == ("hook_failed", "unreachable")
        assert failed["on_error_behavior"] == behaviour


class TestFinish:
    def test_every_end_is_logged_by_an_agent(self, http):
        for source, status in (("a.csv", "completed"), ("secret.csv", "failed")):
            made = run(http, "data-processor", data_source=source)
            told = child_of(http, made, "audit-logger")["parameters"]
            assert told.keys() == FINISH_KEYS
            assert told["parameters"] == made["parameters"]
            assert (told["status"], told["error"]) == (status, made["error"])
            assert (told["result_data"], told["result_text"]) == (made["result_data"], None)
            assert (told["run_id"], told["session_id"]) == (made["run_id"], made["session_id"])
            assert told["agent_name"] == "data-processor"

    def test_a_run_that_was_stopped_is_told_as_stopped(self, http):
        body = {"agent_name": "patient", "parameters": {}}
        made = http.post("/runs", json=body).json()
        path = f"/runs/{made['run_id']}"
        until(lambda: http.get(path).json()["phase"] == "running", what="the run")
        thread = f"/threads/{made['thread_id']}{path}/cancel"
        assert http.post(thread, params={"wait": True}).status_code < 300
        told = child_of(http, made, "audit-logger")["parameters"]
        assert (told["status"], told["result_text"], told["result_data"]) == ("stopped", None, None)

    def test_an_agent_that_has_a_place_for_it_sees_the_original_parameters(self, http):
        made = run(http, "report-generator", report_id="R123")
        told = child_of(http, made, "careful-logger")["parameters"]
        assert told["original_parameters"] == {"report_id": "R123"}
        assert told["parameters"]["resolved_path"] == "/data/reports/R123.csv"
        assert told["result_text"] == made["result_text"]

    def test_agents_are_chained(self, http):
        made = run(http, "data-extractor", source="crm")
        assert made["status"] == "success"  # the client has its answer
        following = child_of(http, made, "record-processor")
        assert following["parameters"]["result_data"] == {"records": [1, 2, 3], "source": "crm"}
        assert following["result_data"] == {"stored": 3}
        assert following["session_id"] != made["session_id"]
        session = http.get(f"/sessions/{following['session_id']}").json()
        assert session["parent_session_id"] == made["session_id"]

    def test_a_finish_agent_that_is_late_failed_by_timeout_and_block_only_says_so(self, http):
        made = run(http, "impatient", name="Ada")
        assert (made["status"], made["result_data"]) == ("success", {"greeting": "Hello Ada"})
        _, failed = records_of(http, made, "on_run_finish")
        assert (failed["event_type"], failed["failure"]) == ("hook_failed", "timeout")
        assert failed["on_error_behavior"] == "block"
        assert http.get(f"/runs/{made['run_id']}").json()["status"] == "success"

    @pytest.mark.parametrize(
        ("agent", "status", "error"),
        [("webhooked", "completed", None), ("webhooked-failing", "failed", "no greeting today")],
    )
    def test_a_web_service_gets_the_eight_keys(self, http, webhooks, agent, status, error):
        made = run(http, agent, name="Ada")
        until(lambda: sent_for(webhooks, made), what="the webhook")
        [(headers, told)] = sent_for(webhooks, made)
        assert told.keys() >= FINISH_KEYS
        assert (told["parameters"], told["agent_name"]) == ({"name": "Ada"}, agent)
        assert (told["status"], told["error"]) == (status, error)
        assert (told["result_text"], told["result_data"]) == (None, made["result_data"])
        assert told["session_id"] == made["session_id"]
        if agent == "webhooked":
            assert headers["authorization"] == "Bearer s3cret-token"
            assert headers["x-team"] == "data"

    def test_an_async_web_hook_is_told_too(self, http, webhooks):
        made = run(http, "notified", name="Ada")
        until(lambda: sent_for(webhooks, made), what="the notification")


class TestFurtherTypes:
    """Those that the seed calls potential."""

    def test_a_policy_for_tools_and_a_change_of_the_result(self, http):
        made = run(http, "watched", prompt="Tidy up")
        assert "files stay: Nothing is deleted here" in made["result_text"]
        assert "12" not in made["result_text"]

    def test_a_timeout_is_for_both_hooks_and_an_error_for_one(self, http, webhooks):
        made = run(http, "late")
        assert made["status"] == "timeout"
        assert child_of(http, made, "audit-logger")["parameters"]["status"] == "failed"
        until(lambda: sent_for(webhooks, made), what="the webhook")
        assert sent_for(webhooks, made)[0][1]["status"] == "failed"


def sent_for(webhooks, made):
    return [each for each in webhooks.sent if each[1]["run_id"] == made["run_id"]]


class TestEvents:
    def test_a_record_has_what_consumers_know(self, http):
        made = run(http, "data-processor", data_source="sales.csv")
        start, complete = records_of(http, made, "on_run_start")
        for record in (start, complete):
            assert (record["run_id"], record["session_id"]) == (made["run_id"], made["session_id"])
            assert (record["target_type"], record["target_name"]) == ("agent", "input-validator")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["timestamp"])
        assert (start["event_type"], complete["event_type"]) == ("hook_start", "hook_complete")
        assert (complete["action"], complete["hook_type"]) == ("continue", "on_run_start")
        assert complete["duration_ms"] > 0

    def test_everything_is_told_in_the_order_in_which_it_happened(self, http):
        made = run(http, "data-processor", data_source="sales.csv")
        validator = child_of(http, made, "input-validator")
        logger = child_of(http, made, "audit-logger")
        records_of(http, made, "on_run_finish")
        mine = {made["run_id"]: "run", validator["run_id"]: "validator", logger["run_id"]: "logger"}
        told = [
            (mine[data["run_id"]], name)
            for name, data in feed(http, made["run_id"])
            if data.get("run_id") in mine
        ]
        assert told == [
            ("run", "run_created"),
            ("run", "run_started"),
            ("run", "hook_start"),
            ("validator", "run_created"),
            ("validator", "run_started"),
            ("validator", "run_ended"),
            ("run", "hook_complete"),
            ("run", "run_ended"),
            ("run", "hook_start"),
            ("logger", "run_created"),
            ("logger", "run_started"),
            ("logger", "run_ended"),
            ("run", "hook_complete"),
        ]


def feed(http, run_id):
    """Everything that is kept, up to the last ending of a run's hooks."""
    found, endings = [], 0
    with contextlib.ExitStack() as stack:
        answer = stack.enter_context(http.stream("GET", "/events", params={"after": 0}))
        for line in answer.iter_lines():
            if not line.startswith("data:"):
                continue
            data = json.loads(line.removeprefix("data:"))
            found.append((data["event_type"], data))
            endings += data.get("run_id") == run_id and data["event_type"] == "hook_complete"
            if endings == 2:
                return found
    raise AssertionError("the feed ended")
