"""`checkrail gateway` finds its hooks, says where it is, and stands in front of a model."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess

import httpx2
import openai
import pytest
from tests.gateway.provider import CHAT, Provider, Say

from .conftest import COMMAND, environment

HOOKS = """
    hooks:
      pre_request:
        - { name: no_secrets, module: rules, function: check }
      before_tool_call:
        - { name: limit, tools: [transfer], block: Transfers need the finance desk }
    python_path: [.]
"""
RULES = """
    async def check(ctx):
        if "password" in str(ctx.messages):
            raise ValueError("blocked")
        return ctx
"""
UPSTREAM = "gateway: {{upstreams: {{here: {{url: '{url}', format: [chat, messages]}}}}}}\n"
CALL = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Running:
    """A gateway that was started; what it printed first is in `lines`."""

    def __init__(self, process, count):
        self.process = process
        self.lines = [process.stdout.readline().rstrip("\n") for _ in range(count)]
        found = re.search(r"http://\S+", self.lines[0])
        assert found, (self.lines, process.stderr.read())
        self.url = found[0]


@pytest.fixture
def gateway(tmp_path, port):
    """Start the real command beside the files of the test, and stop it at the end."""
    with contextlib.ExitStack() as stack:

        def started(*args, **env):
            process = subprocess.Popen(
                [COMMAND, "gateway", "--port", str(port), *args],
                cwd=tmp_path,
                env=environment(**env),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate, timeout=20)
            stack.callback(process.terminate)
            return Running(process, 4)

        yield started


@pytest.fixture
def home(tmp_path_factory):
    """A folder of the user's own files, elsewhere."""
    return tmp_path_factory.mktemp("home")


def test_it_says_where_it_is_and_what_to_set(gateway, write, port, provider, tmp_path):
    write("rules.py", RULES)
    file = write("hooks.yaml", HOOKS)
    file.write_text(file.read_text() + UPSTREAM.format(url=provider.url))
    running = gateway()
    assert running.lines == [
        f"gateway  http://127.0.0.1:{port}  2 hooks of {file}",
        f"OPENAI_BASE_URL=http://127.0.0.1:{port}/v1",
        f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}",
        f"GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:{port}",
    ]
    provider.say(Say("Sure", calls=[("transfer", {"amount": 5})]))
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-caller")
    message = client.chat.completions.create(**CALL).choices[0].message
    assert message.tool_calls is None
    assert message.content == "Hello from the model."
    assert "Transfers need the finance desk" in provider.last.body.decode()


def test_a_signal_stops_it_without_a_failure(gateway, write, provider):
    write("hooks.yaml", "hooks: {}\n" + UPSTREAM.format(url=provider.url))
    for number in (signal.SIGTERM, signal.SIGINT):
        running = gateway()
        running.process.send_signal(number)
        assert running.process.wait(20) == 0
        assert "Traceback" not in running.process.stderr.read()


def test_a_file_that_changes_is_reloaded(gateway, write, provider):
    upstream = UPSTREAM.format(url=provider.url)
    write("hooks.yaml", "hooks: {}\n" + upstream)
    running = gateway()
    url = running.url + CHAT
    assert httpx2.post(url, json=CALL).status_code == 200
    rule = "hooks: {before_llm_call: [{name: closed, block: closed for today}]}\n"
    write("hooks.yaml", rule + upstream)
    while (answer := httpx2.post(url, json=CALL)).status_code == 200:
        assert running.process.poll() is None
    assert (answer.status_code, "closed for today" in answer.text) == (400, True)


def test_hooks_are_found_here_then_at_the_user_s_and_beside_a_project_both_hold(
    gateway, write, provider, home
):
    upstream = UPSTREAM.format(url=provider.url)
    (home / "checkrail").mkdir()
    own = home / "checkrail" / "hooks.yaml"
    own.write_text("hooks: {before_llm_call: [{name: mine, block: mine}]}\n" + upstream)
    env = {"XDG_CONFIG_HOME": str(home)}
    assert gateway(**env).lines[0].endswith(f"1 hook of {own}")


def test_the_hooks_of_a_project_hold_beside_those_of_hooks_yaml(gateway, write, provider):
    project = write("checkrail.yaml", "hooks: {}\n" + UPSTREAM.format(url=provider.url))
    hooks = write("hooks.yaml", "hooks: {before_llm_call: [{name: mine, block: mine}]}\n")
    running = gateway()
    assert running.lines[0].endswith(f"1 hook of {project}, {hooks}")
    answer = httpx2.post(running.url + CHAT, json=CALL)
    assert (answer.status_code, provider.requests) == (400, [])


def test_a_section_of_the_gateway_that_does_not_count_is_told(checkrail, write, provider):
    project = write("checkrail.yaml", "hooks: {}\ngateway: {blocked_tool: drop}\n")
    for section in (UPSTREAM.format(url=provider.url), "gateway: {blocked_tool: text}\n"):
        hooks = write("hooks.yaml", "hooks: {}\n" + section)
        told = " ".join(checkrail("with", "--", "true").err.split())
        assert f"what {hooks} says under `gateway` does not count: what {project} says does" in told


def test_hooks_that_have_nothing_to_do_here_are_told(gateway, write, provider):
    rules = "before_run: [{name: paid, block: pay first}, {name: later, block: b, enabled: false}]"
    rules += ", before_llm_call: [{name: closed, block: closed}]"
    write("hooks.yaml", f"hooks: {{{rules}}}\n" + UPSTREAM.format(url=provider.url))
    running = gateway()
    assert "  2 hooks of " in running.lines[0]
    running.process.terminate()
    told = running.process.stderr.read()
    assert "not called, for no point where they stand is passed here: paid\n" in told


def test_what_is_named_counts_alone(gateway, write, provider, tmp_path):
    write("hooks.yaml", "hooks: {before_llm_call: [{name: mine, block: mine}]}\n")
    (tmp_path / "other").mkdir()
    other = write("other/rules.yaml", "hooks: {}\n" + UPSTREAM.format(url=provider.url))
    running = gateway("--hooks", "other/rules.yaml")
    assert running.lines[0].endswith(f"0 hooks of {other}")
    assert httpx2.post(running.url + CHAT, json=CALL).status_code == 200


def test_without_any_file_it_says_how_to_make_one(checkrail, home):
    done = checkrail("gateway", XDG_CONFIG_HOME=str(home))
    assert done.code == 1
    told = " ".join(done.err.split())
    assert "no hooks here, expected hooks.yaml, " in told
    assert "a file that says hooks: {} has none" in told


def test_a_bad_entry_is_an_error_at_the_start_unless_it_is_optional(checkrail, gateway, write):
    entry = "hooks: {pre_request: [{name: a, module: not_there, function: f%s}]}\n"
    write("hooks.yaml", entry % "")
    done = checkrail("gateway")
    assert (done.code, done.out) == (1, "")
    assert "not_there" in done.err
    write("hooks.yaml", entry % ", optional: true")
    assert "0 hooks" in gateway().lines[0]


def test_other_machines_are_listened_to_with_keys_only(checkrail, gateway, write, provider):
    write("hooks.yaml", "hooks: {}\n" + UPSTREAM.format(url=provider.url))
    done = checkrail("gateway", "--host", "0.0.0.0")
    assert (done.code, done.out) == (4, "")
    assert "Write some under gateway.keys, or leave out --host" in " ".join(done.err.split())
    config = f"{{keys: {{ci: '${{CI_KEY}}'}}, upstreams: {{a: {{url: '{provider.url}'}}}}}}"
    text = f"hooks: {{}}\ngateway: {config}\n"
    write("hooks.yaml", text)
    running = gateway("--host", "0.0.0.0", CI_KEY="a-key-of-16-letters")
    url = running.url.replace("0.0.0.0", "127.0.0.1") + CHAT
    assert httpx2.post(url, json=CALL).status_code == 401
    headers = {"authorization": "Bearer a-key-of-16-letters"}
    assert httpx2.post(url, json=CALL, headers=headers).status_code == 200
    assert "a-key-of" not in str(provider.last.headers)


def test_a_port_that_is_taken_is_told(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = checkrail("gateway", "--port", str(taken.getsockname()[1]))
    assert (done.code, done.out) == (4, "")
    assert "cannot listen on" in done.err


def test_what_limits_count_outlives_a_restart(gateway, write, provider, tmp_path):
    limit = "{name: few, builtin: rate_limit, config: {limit: 1, per: 1d}}"
    rule = f"hooks: {{before_llm_call: [{limit}]}}\n"
    write("hooks.yaml", rule + UPSTREAM.format(url=provider.url))
    running = gateway()
    url = running.url + CHAT
    headers = {"authorization": "Bearer sk-caller"}
    assert httpx2.post(url, json=CALL, headers=headers).status_code == 200
    assert httpx2.post(url, json=CALL, headers=headers).status_code == 400
    running.process.terminate()
    running.process.wait(20)
    gateway()
    assert httpx2.post(url, json=CALL, headers=headers).status_code == 400
    assert b"sk-caller" not in (tmp_path / ".checkrail" / "gateway.db").read_bytes()


def test_records_are_kept_in_a_file_without_what_was_redacted(gateway, write, provider, tmp_path):
    rules = "{before_llm_call: [{name: no_keys, redact: secrets}], "
    rules += "before_tool_call: [{name: limit, tools: [transfer], block: Ask the finance desk}]}"
    write("hooks.yaml", f"hooks: {rules}\n" + UPSTREAM.format(url=provider.url))
    running = gateway("--records", "audit.jsonl")
    provider.say(Say("The key is safe", calls=[("transfer", {"amount": 5})]))
    asked = CALL | {"messages": [{"role": "user", "content": "Keep AKIAIOSFODNN7EXAMPLE"}]}
    ids = {"x-checkrail-run-id": "run-7", "x-request-id": "req-7"}
    assert httpx2.post(running.url + CHAT, json=asked, headers=ids).status_code == 200
    written = (tmp_path / "audit.jsonl").read_text()
    told = [json.loads(line) for line in written.splitlines()]
    assert [(each["hook"], each["event_type"]) for each in told] == [
        ("no_keys", "hook_start"),
        ("no_keys", "hook_complete"),
        ("limit", "hook_start"),
        ("limit", "hook_blocked"),
        ("no_keys", "hook_start"),  # the model is told, and called again
        ("no_keys", "hook_complete"),
    ]
    assert {(each["run_id"], each["request_id"]) for each in told} == {("run-7", "req-7")}
    assert told[3]["reason"] == "Ask the finance desk"
    assert "AKIA" not in written


def test_records_that_cannot_be_kept_are_an_error_at_the_start(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("gateway", "--records", "not/there/audit.jsonl")
    assert (done.code, done.out) == (4, "")
    assert "records cannot be written to 'not/there/audit.jsonl'" in " ".join(done.err.split())


def test_its_help_has_an_example(invoke):
    done = invoke("gateway", "--help")
    assert "Example: checkrail gateway --hooks hooks.yaml" in done.out
    assert os.linesep.join(("", "  --host")) in done.out
