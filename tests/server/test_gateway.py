"""The gateway within the server: behind its door, with its hooks, under /gateway."""

import json
import textwrap

import httpx2
import openai
import pytest
from tests.gateway.provider import CHAT, MESSAGES, Provider, Say

PROJECT = """
    agents:
      echo: {{ model: {{ provider: scripted, replies: [It is done.] }} }}
    hooks:
      before_llm_call:
        - {{ name: tell, path: "./rules.py:tell", lane: observe }}
      before_tool_call:
        - name: limit
          tools: [transfer]
          block: Transfers need the finance desk
    gateway:
      body_bytes: 5000
      blocked_tool: text
      upstreams:
        here: {{ url: "{url}", format: [chat, messages, responses], retries: 0{more} }}
"""
RULES = """
    from pathlib import Path

    def tell(event):
        told = [event.run_id, event.user and event.user.identity, event.metadata.get("api_key")]
        with Path("told.txt").open("a") as file:
            print(event.request_id, *told, file=file)
"""
CALL = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def served(serve, new_database, tmp_path, provider):
    """Start a server of a project with a gateway."""

    def started(command="serve", more="", **sections):
        text = textwrap.dedent(PROJECT).format(url=provider.url, more=more)
        (tmp_path / "rules.py").write_text(textwrap.dedent(RULES))
        file = tmp_path / "checkrail.yaml"
        file.write_text(text + "".join(f"{key}: {json.dumps(v)}\n" for key, v in sections.items()))
        return serve(new_database("sqlite"), config=file, command=command).start()

    return started


def key_of(server, name, role):
    return json.loads(server.run("keys", "create", name, "--role", role, "--json"))["key"]


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_without_auth_whoever_sits_here_may_call_it_with_their_own_key(command, served, provider):
    server = served(command)
    client = openai.OpenAI(base_url=f"{server.url}/gateway/v1", api_key="sk-caller")
    assert client.models.list().data[0].id == "model-1"
    provider.say(Say(calls=[("transfer", {"amount": 5})]))
    answer = client.chat.completions.create(model="m", messages=CALL["messages"])
    assert answer.choices[0].message.tool_calls is None
    assert "Transfers need the finance desk" in answer.choices[0].message.content
    assert provider.last.header("authorization") == "Bearer sk-caller"


def test_with_keys_members_may_call_it_and_no_upstream_sees_their_keys(served, provider):
    server = served(auth={"keys": True})
    keys = {role: key_of(server, f"the-{role}", role) for role in ("member", "viewer", "runner")}
    url = f"{server.url}/gateway"

    def status(path, **headers):
        return httpx2.post(url + path, json=CALL, headers=headers, timeout=20).status_code

    assert status(CHAT) == 401
    assert status(CHAT, authorization="Bearer crk_wrong") == 401
    for role in ("viewer", "runner"):
        assert status(CHAT, authorization=f"Bearer {keys[role]}") == 403
    assert provider.requests == []
    assert status(CHAT, authorization=f"Bearer {keys['member']}") == 200
    assert status(MESSAGES, **{"x-api-key": keys["member"]}) == 200
    assert status("/v1/files", **{"x-api-key": keys["member"]}) == 403  # the team's, not theirs
    assert status(CHAT, **{"x-api-key": keys["member"], "api-key": "sk-caller"}) == 200
    assert provider.last.header("api-key") == "sk-caller"
    assert "crk_" not in str([request.headers for request in provider.requests])


def test_records_go_to_a_run_only_if_it_is_the_callers_own(served, tmp_path):
    server = served(auth={"keys": True})
    ada, eve = (key_of(server, name, "member") for name in ("ada", "eve"))
    asked = {"agent_name": "echo", "parameters": {"prompt": "Hi"}, "execution_mode": "sync"}
    run = httpx2.post(f"{server.url}/runs", json=asked, headers={"x-api-key": ada}, timeout=20)
    run_id = run.json()["run_id"]
    for name, key in (("ada", ada), ("eve", eve)):
        headers = {"x-api-key": key, "x-checkrail-run-id": run_id, "x-checkrail-user": "root"}
        headers["x-request-id"] = f"of-{name}"
        body = {**CALL, "metadata": {"run_id": run_id}}
        httpx2.post(f"{server.url}/gateway{CHAT}", json=body, headers=headers, timeout=20)
    lines = [line.split() for line in (tmp_path / "told.txt").read_text().splitlines()]
    assert [line for line in lines if line[0].startswith("of-")] == [
        ["of-ada", run_id, "ada", "ada"],
        ["of-eve", "None", "eve", "eve"],
    ]


def test_its_errors_are_in_the_envelope_of_the_api(served, provider):
    server = served()
    large = {**CALL, "pad": "x" * 6000}
    answer = httpx2.post(f"{server.url}/gateway{MESSAGES}", json=large, timeout=20)
    assert (answer.status_code, answer.json()["type"]) == (413, "error")
    answer = httpx2.get(f"{server.url}/gateway/nothing", timeout=20)
    assert (answer.status_code, "under /v1" in answer.json()["error"]["message"]) == (404, True)


def test_it_can_be_switched_off(served):
    server = served(http={"disable_gateway": True})
    assert httpx2.get(f"{server.url}/gateway/v1/models", timeout=20).status_code == 404
