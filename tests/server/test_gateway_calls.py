"""The records of the gateway's calls in the server: who may see them, and what is found."""

import json
import subprocess
import textwrap

import httpx
import pytest
from tests.gateway.command import COMMAND
from tests.gateway.provider import CHAT, MESSAGES, Provider, Say
from tests.processes import until

from .conftest import DATABASES, _watched
from .harness import Served

PROJECT = """
    auth: {{ keys: true }}
    hooks:
      before_tool_call:
        - {{ name: limit, tools: [transfer], block: Transfers need the finance desk }}
    gateway:
      blocked_tool: text
      upstreams:
        here: {{ url: "{url}", key: sk-of-the-team, format: [chat, messages], retries: 0 }}
      prices: {{ "gpt-*": {{ input: 100, output: 400 }} }}
"""


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


class Team:
    """A server with keys, and what its callers do."""

    def __init__(self, server):
        self.server = server
        self.url = server.url
        roles = {"ann": "member", "bob": "member", "eye": "viewer", "root": "admin"}
        self.keys = {name: self._make_key(name, role) for name, role in roles.items()}

    def _make_key(self, name, role):
        owner = "ann" if name == "eye" else name
        made = self.server.run("keys", "create", name, "--role", role, "--owner", owner, "--json")
        return json.loads(made)["key"]

    def ask(self, name, path=CHAT, model="gpt-5", **headers):
        headers["x-api-key"] = self.keys[name]
        said = [{"role": "user", "content": "The word is plum"}]
        body = {"model": model, "max_tokens": 9, "messages": said}
        content = json.dumps(body)
        return httpx.post(f"{self.url}/gateway{path}", content=content, headers=headers, timeout=20)

    def get(self, name, path="/gateway/calls", **params):
        headers = {"x-api-key": self.keys[name]}
        return httpx.get(self.url + path, params=params, headers=headers, timeout=20)

    def calls(self, name, count, **params):
        """The calls that somebody sees, once there are so many."""

        until(lambda: len(self.get(name, **params).json()) >= count, "the records of calls")
        rows = self.get(name, **params).json()
        assert len(rows) == count
        return rows


@pytest.fixture(scope="module", params=DATABASES)
def team(request, new_database, tmp_path_factory, provider):
    folder = tmp_path_factory.mktemp("calls")
    file = folder / "checkrail.yaml"
    file.write_text(textwrap.dedent(PROJECT).format(url=provider.url))
    with _watched() as watch:
        served = Served(new_database(request.param), folder / "log", config=file)
        yield Team(watch(served).start())


def test_owners_see_their_own_calls_and_admins_all(team, provider):
    provider.say(Say("Sure", calls=[("transfer", {"amount": 5})]))
    assert team.ask("ann", **{"x-request-id": "of-ann", "x-checkrail-user": "root"}).is_success
    [mine] = team.calls("ann", 1)
    assert (mine["request_id"], mine["key"], mine["user_id"]) == ("of-ann", "ann", "ann")
    assert (mine["status"], mine["decision"], mine["decisions"]) == (200, "block", {"block": 1})
    assert mine["reason"] == "Transfers need the finance desk"
    assert mine["usage"]["input_tokens"] == 11
    assert mine["cost"] == pytest.approx((11 * 100 + 7 * 400) / 1e6)
    assert (mine["model"], mine["upstream"]) == ("gpt-5", "here")
    assert team.get("eye").json() == [mine]
    assert team.get("bob").json() == []
    assert mine in team.get("root").json()
    at = f"/gateway/calls/{mine['call_id']}"
    assert team.get("ann", at).json() == mine
    assert team.get("bob", at).status_code == 404
    assert team.get("bob", before=mine["call_id"]).status_code == 404
    assert httpx.get(team.url + at, timeout=20).status_code == 401
    told = json.dumps(team.get("root").json())
    assert not any(secret in told for secret in ("plum", "sk-of", *team.keys.values()))


def test_calls_are_found_by_what_is_known_of_them_and_page_by_page(team):
    began = team.get("root", limit=1).json()
    models = ["gpt-1", "gpt-2", "a\0b", "\ud800", "gpt-2"]
    for model in models:
        path = MESSAGES if model == "gpt-1" else CHAT
        assert team.ask("bob", path, model=model).is_success
    rows = team.calls("bob", len(models))
    assert [row["model"] for row in rows] == ["gpt-2", "?", "ab", "gpt-2", "gpt-1"]
    assert [row["format"] for row in rows][-2:] == ["chat", "messages"]
    assert [row["call_id"] for row in team.get("bob", model="gpt-2").json()] == [
        rows[0]["call_id"],
        rows[3]["call_id"],
    ]
    assert len(team.get("bob", model="model-1").json()) == 5
    assert (
        team.get("root", key="bob", user="bob", status=200, since=rows[2]["created_at"]).json()[:3]
        == rows[:3]
    )
    assert team.get("root", key="ann", user="bob").json() == []
    assert team.get("bob", decision="block").json() == []
    first = team.get("bob", limit=2).json()
    assert first + team.get("bob", limit=9, before=first[-1]["call_id"]).json() == rows
    assert team.get("bob", since="2999-01-01").json() == []
    assert len(began) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 9},
        {"since": "soon"},
        {"decision": "maybe"},
        {"limit": 0},
        {"before": "x"},
        {"key": "a\0"},
        {"model": "m" * 300},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(team, wrong):
    assert team.get("ann", **wrong).status_code == 422


def test_what_is_counted_stands_in_the_metrics(team):
    assert team.ask("ann").is_success
    told = team.get("root", "/metrics").text
    assert 'checkrail_gateway_calls_total{decision="",format="chat",status="200"' in told
    assert 'checkrail_gateway_tokens_total{format="chat",kind="input",upstream="here"}' in told


def test_the_command_lists_and_shows_them(team):
    team.ask("ann", model="gpt-of-the-command")
    until(lambda: team.get("ann", model="gpt-of-the-command").json(), "the record")

    def run(*words):
        line = [COMMAND, "calls", *words, "--server", team.url, "--key", team.keys["ann"]]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    lines = run("ls", "--json", "--key-name", "ann").stdout.splitlines()
    call = json.loads(lines[0])
    assert call["model"] == "gpt-of-the-command"
    shown = run("show", "last").stdout
    assert "gpt-of-the-command: answered 200" in shown
    assert "11 input, 7 output, $0.0039" in shown
    assert "gpt-of-the-command" in run("ls").stdout
    assert json.loads(run("show", call["call_id"], "--json").stdout) == call
    refused = run("show", "zz")
    assert (refused.returncode, "see `checkrail calls ls`" in refused.stderr) == (2, True)
    assert run("ls", "--since", "soon").returncode == 2
