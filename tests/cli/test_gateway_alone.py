"""A gateway that runs alone: it asks people, records calls, has metrics and several workers."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.gateway.provider import CHAT, Provider, Say
from tests.processes import until

from .conftest import COMMAND, environment

ANN, OPS = "not-a-real-key-of-ann", "not-a-real-key-of-ops"
ASKS = "before_tool_call: [{name: four_eyes, type: approval, tools: [transfer], question: May it?}]"
SLOW = 240.0
"""Seconds that anything may take: workers begin behind their address, and machines are busy."""
CALL = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


class Running:
    """A gateway that was started."""

    def __init__(self, process, url, log):
        self.process, self.url, self._log = process, url, log

    @property
    def log(self):
        return self._log.read_text()

    def call(self, key=None, **more):
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.post(self.url + CHAT, json={**CALL, **more}, headers=headers, timeout=SLOW)

    def get(self, path, key=None, **params):
        headers = {} if key is None else {"x-api-key": key}
        return httpx.get(self.url + path, params=params, headers=headers, timeout=SLOW)

    def begin(self, key=None, **more):
        """Call in the background; gives what the answer will be in."""
        answers = []
        calling = threading.Thread(target=lambda: answers.append(self.call(key, **more)))
        calling.start()

        def over():
            calling.join(SLOW)
            return answers[0]

        return over

    def asked(self, key=None):
        until(lambda: self.get("/approvals", key, status="open").json(), "the question")
        return self.get("/approvals", key, status="open").json()[0]


@pytest.fixture
def gateway(tmp_path, provider):
    """Start the real command with some hooks, and stop it at the end."""
    with contextlib.ExitStack() as stack:

        def started(*args, hooks=ASKS, top="", **settings):
            up = {
                "here": {"url": provider.url, "format": ["chat", "messages"], "key": "sk-of-team"}
            }
            section = {"upstreams": up, "blocked_tool": "text", **settings}
            text = f"hooks: {{{hooks}}}\ngateway: {json.dumps(section)}\n{top}\n"
            (tmp_path / "hooks.yaml").write_text(text)
            with socket.create_server(("127.0.0.1", 0)) as found:
                port = found.getsockname()[1]
            log = tmp_path / "log.txt"
            written = stack.enter_context(log.open("a"))
            process = subprocess.Popen(
                [COMMAND, "gateway", "--port", str(port), *args],
                cwd=tmp_path,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
            )
            stack.callback(process.communicate, timeout=SLOW)
            stack.callback(process.terminate)
            said = process.stdout.readline()
            address = re.search(r"http://\S+", said)
            assert address, said + log.read_text()
            return Running(process, address[0], log)

        yield started


def test_without_the_option_nobody_is_asked(gateway, provider):
    provider.say(Say(calls=[("transfer", {"amount": 5})]))
    running = gateway()
    assert "May it?, but there is nobody to ask" in running.call().text
    assert running.get("/approvals").status_code == 404


def test_people_answer_by_the_command(gateway, provider, invoke, tmp_path):
    running = gateway("--approvals")
    for word, expected in (("approve", '"transfer"'), ("deny", "transfer was not called")):
        provider.say(Say(calls=[("transfer", {"amount": 5})]))
        over = running.begin()
        row = running.asked()
        shown = invoke("approvals", "show", "last", "--server", running.url)
        assert f"request {row['request_id']}" in shown.out
        done = invoke("approvals", word, "last", "--server", running.url)
        assert (done.code, "May it?" in done.out) == (0, True)
        assert expected in over().text
    assert "May it?" in invoke("approvals", "ls", "--all", "--server", running.url).out
    assert (tmp_path / ".checkrail" / "gateway.db").stat().st_mode & 0o077 == 0
    listed = invoke("calls", "ls", "--json", "--server", running.url).out.splitlines()
    assert [json.loads(line)["decision"] for line in listed] == ["block", "ask"]


def test_holders_of_keys_see_their_own_and_approvers_all(gateway, provider):
    keys = {"keys": {"ann": ANN, "ops": OPS}, "approvers": ["ops"]}
    running = gateway("--approvals", **keys)
    provider.say(Say(calls=[("transfer", {"amount": 5})]))
    over = running.begin(ANN)
    row = running.asked(OPS)
    at = f"/approvals/{row['approval_id']}"
    assert running.get("/approvals").status_code == 401
    assert running.get("/approvals", "of-nobody").status_code == 401
    assert running.get(at, ANN).json()["status"] == "open"
    refused = httpx.post(f"{running.url}{at}/approve", headers={"x-api-key": ANN})
    assert (refused.status_code, "for the role admin" in refused.json()["message"]) == (403, True)
    answered = httpx.post(f"{running.url}{at}/approve", headers={"x-api-key": OPS})
    assert answered.json()["answered_by"] == "ops"
    assert '"transfer"' in over().text
    until(lambda: running.get("/gateway/calls", OPS).json(), "the record of the call")
    [call] = running.get("/gateway/calls", ANN).json()
    assert call["key"] == "ann"
    assert running.call(OPS).is_success
    until(lambda: len(running.get("/gateway/calls", OPS).json()) == 2, "both records")
    assert running.get("/gateway/calls", ANN).json() == [call]


def test_pages_of_other_sites_and_other_names_of_hosts_may_not_answer(gateway):
    running = gateway("--approvals")
    for name, value in (("origin", "https://evil.example"), ("host", "evil.example")):
        refused = httpx.get(f"{running.url}/approvals", headers={name: value})
        assert refused.status_code == 403
        assert httpx.get(f"{running.url}/metrics", headers={name: value}).status_code == 403


def test_a_gateway_that_stops_leaves_no_question_open(gateway, provider, tmp_path):
    running = gateway("--approvals")
    provider.say(Say(calls=[("transfer", {"amount": 5})]))

    def call_in_vain():
        with contextlib.suppress(httpx.TransportError):
            running.call()

    calling = threading.Thread(target=call_in_vain)
    calling.start()
    row = running.asked()
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0
    calling.join(30)
    again = gateway("--approvals")
    assert again.get(f"/approvals/{row['approval_id']}").json()["status"] == "void"


def test_calls_are_recorded_where_a_database_is_configured(gateway, postgres, provider):
    url = postgres.with_tables()
    running = gateway(hooks="", top=f"database: {url}")
    assert running.call().is_success
    until(lambda: running.get("/gateway/calls").json(), "the record of the call")
    [call] = running.get("/gateway/calls").json()
    assert (call["status"], call["usage"]["input_tokens"]) == (200, 11)
    assert running.get(f"/gateway/calls/{call['call_id']}").json() == call
    assert running.get("/approvals").status_code == 404


def test_metrics_are_behind_the_same_door_as_calls_and_ok_is_open(gateway, provider):
    running = gateway(keys={"ann": ANN})
    provider.say(Say(calls=[("transfer", {"amount": 5})]))
    assert running.call(ANN).is_success
    assert running.get("/ok").json()["ok"] is True
    assert running.get("/metrics").status_code == 401
    told = running.get("/metrics", ANN)
    assert told.headers["content-type"].startswith("text/plain")
    assert 'checkrail_hook_calls_total{hook="four_eyes",lane="gate"' in told.text
    assert 'checkrail_gateway_calls_total{decision="block",format="chat",status="200"' in told.text
    assert ANN not in told.text


LIMIT = (
    "before_llm_call: [{name: few, builtin: rate_limit, config: {limit: 10, per: 1d, by: [key]}}]"
)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_workers_share_their_limits(gateway, kind, request):
    top = ""
    if kind == "postgres":
        top = f"database: {request.getfixturevalue('postgres').with_tables()}"
    running = gateway("--workers", "2", hooks=LIMIT, top=top, keys={"ann": ANN})
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: running.call(ANN).status_code, range(30))]
    assert sorted(answers) == [200] * 10 + [400] * 20
    children = _children(running.process.pid)
    assert len(children) >= 2
    running.process.terminate()
    running.process.wait(30)
    until(lambda: not [pid for pid in children if _is_alive(pid)], "the workers to end")
    assert "Traceback" not in running.log


def test_workers_listen_when_their_address_is_printed(gateway):
    assert gateway("--workers", "2", hooks="").call().is_success


def _children(pid):
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in told.split()]


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_share_their_questions(gateway, provider):
    running = gateway("--approvals", "--workers", "2")
    provider.always(Say(calls=[("transfer", {"amount": 5})]))
    waiting = [running.begin() for _ in range(4)]
    until(lambda: len(running.get("/approvals", status="open").json()) == 4, "all questions")
    for row in running.get("/approvals", status="open").json():
        at = f"{running.url}/approvals/{row['approval_id']}/approve"
        assert httpx.post(at, timeout=20).is_success
    assert all('"transfer"' in over().text for over in waiting)


def test_what_several_workers_cannot_do_is_told_at_the_start(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("gateway", "--workers", "2", "--records", "audit.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "--records is a file for one process" in " ".join(done.err.split())


def test_approvers_are_names_of_keys(checkrail, write):
    write("hooks.yaml", f"hooks: {{}}\ngateway: {{keys: {{ann: {ANN}}}, approvers: [ops]}}\n")
    done = checkrail("gateway")
    assert (done.code, done.out) == (1, "")
    assert "the name of one of `keys`" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("top", "warned"),
    [("gateway: {blocked_tool: drop}", True), ("", False), ("gateway: {}\nagents: {a: {}}", False)],
)
def test_check_warns_of_questions_that_nobody_is_asked(invoke, write, top, warned):
    text = f"hooks: {{{ASKS}}}\n{top}\n".replace(
        "{a: {}}", "{a: {model: {provider: scripted, replies: [Hi]}}}"
    )
    write("hooks.yaml", text)
    done = invoke("check", "hooks.yaml")
    assert done.code == 0
    told = " ".join(done.err.split())
    assert ("it asks at before_tool_call, where `checkrail gateway`" in told) is warned
    assert ("start the gateway with --approvals" in told) is warned
