"""`checkrail with` runs a command behind a gateway, and tells what passed it."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from tests.gateway.provider import Provider, Say

from .conftest import COMMAND, environment

HOOKS = """
    hooks:
      before_llm_call:
        - { name: no_secrets, when: 'request.messages[0].content.contains("secret")', block: no }
      before_tool_call:
        - { name: limit, tools: [transfer], block: Transfers need the finance desk }
    gateway:
      blocked_tool: text
      prices: { "model-*": { input: 1000, output: 2000 } }
"""
AGENT = """
    import anthropic, openai, os, sys

    chat = openai.OpenAI(api_key="sk-caller", max_retries=0)
    print(chat.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}]
    ).choices[0].message.content)
    try:
        chat.chat.completions.create(model="m", messages=[{"role": "user", "content": "secret"}])
    except openai.BadRequestError as error:
        print("refused:", error.status_code)
    with anthropic.Anthropic(api_key="sk-caller").messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        print(stream.get_final_text())
    sys.exit(7)
"""
SHOW = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if 'BASE' in k}))"


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def upstream(provider):
    """Where the command would have gone."""
    names = ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
    return {"OPENAI_BASE_URL": f"{provider.url}/v1", **dict.fromkeys(names, provider.url)}


def test_a_summary_that_cannot_be_written_is_told_before_anything_is_run(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("with", "--json", "not/there.json", "--", "echo", "it ran")
    assert (done.code, done.out) == (4, "")
    assert "the summary cannot be written to 'not/there.json'" in " ".join(done.err.split())


def test_a_command_goes_by_the_hooks_and_what_passed_is_told(
    checkrail, write, tmp_path, provider, upstream
):
    write("hooks.yaml", HOOKS)
    write("agent.py", AGENT)
    provider.always(Say("Sure", [("transfer", {"amount": 5})], usage=(10, 5)))
    done = checkrail("with", "--json", "summary.json", "--", sys.executable, "agent.py", **upstream)
    assert done.code == 7, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("Sure")
    assert "Transfers need the finance desk" in done.out
    assert "refused: 400" in lines
    assert len(provider.requests) == 2
    assert done.err.splitlines()[-3:] == [
        "checkrail: 3 calls, 20 tokens in, 10 out, $0.0400",
        "  limit       block 2",
        "  no_secrets  block 1",
    ]
    assert "sk-caller" not in done.err
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "calls": 3,
        "input_tokens": 20,
        "output_tokens": 10,
        "total_tokens": 30,
        "cost": pytest.approx(0.04),
        "hooks": {"limit": {"block": 2}, "no_secrets": {"block": 1}},
        "exit_code": 7,
    }


def test_the_command_finds_the_gateway_in_its_environment(checkrail, write, upstream):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("with", "--", sys.executable, "-c", SHOW, **upstream)
    found = json.loads(done.out)
    address = found["ANTHROPIC_BASE_URL"]
    assert address.startswith("http://127.0.0.1:")
    assert found["OPENAI_BASE_URL"] == found["OPENAI_API_BASE"] == f"{address}/v1"
    assert address not in upstream.values()
    assert done.code == 0
    assert done.err.startswith("checkrail: 0 calls, 0 tokens in, 0 out\n")


def test_a_command_past_which_nothing_was_seen_is_told_of_loudly(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    loud = "NO HOOK SAW ANYTHING"
    done = checkrail("with", "--", "true")
    assert (done.code, loud in done.err) == (0, True)
    done = checkrail("with", "--require", "--json", "summary.json", "--", "true")
    assert (done.code, loud in done.err) == (1, True)
    assert checkrail("with", "--require", "--", sys.executable, "-c", "exit(3)").code == 3


def test_what_is_seen_is_enough(checkrail, write, provider, upstream):
    write("hooks.yaml", "hooks: {}\n")
    write("agent.py", AGENT.replace("sys.exit(7)", ""))
    done = checkrail("with", "--require", "--", sys.executable, "agent.py", **upstream)
    assert done.code == 0, done.err
    assert "NO HOOK" not in done.err


def test_programs_that_read_no_variables_get_arguments(checkrail, write, tmp_path):
    write("hooks.yaml", "hooks: {}\n")
    for name in ("codex", "pi", "other"):
        file = write(name, '#!/bin/sh\necho "$@"\ncase $1 in --ext*) cat "$2";; esac\n')
        file.chmod(0o755)
    codex, pi, other = (
        checkrail("with", "--", str(tmp_path / name), "exec", "hi").out
        for name in ("codex", "pi", "other")
    )
    assert re.fullmatch(r'-c openai_base_url="http://127\.0\.0\.1:\d+/v1" exec hi\n', codex)
    words, _, extension = pi.partition("\n")
    assert re.fullmatch(r"--extension \S+/checkrail-gateway\.js exec hi", words)
    anthropic, openai, google = re.findall(r'"(\w+)": "http://127\.0\.0\.1:\d+(\S*?)"', extension)
    assert anthropic == ("anthropic", "")
    assert (openai, google) == (("openai", "/v1"), ("google", "/v1beta"))
    assert other == "exec hi\n"


def test_input_output_and_options_pass_through(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); print('to stderr', file=sys.stderr)"
    words = [sys.executable, "-c", code, "--json", "-c", "--help"]
    for given in (["--", *words], words):
        done = checkrail("with", *given, stdin="typed")
        assert (done.code, done.out) == (0, "['--json', '-c', '--help'] typed\n")
        assert done.err.startswith("to stderr\n")


def test_a_command_that_is_not_there_is_told(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("with", "--", "no-such-command")
    assert done.code == 127
    assert "no-such-command: No such file or directory" in done.err
    assert checkrail("with", "--", ".").code == 126


def test_without_a_command_it_is_misused(invoke):
    done = invoke("with")
    assert done.code == 2
    assert "Missing argument" in done.err


def test_without_hooks_it_does_not_run_the_command(checkrail, tmp_path):
    done = checkrail(
        "with", "--", sys.executable, "-c", "print('ran')", XDG_CONFIG_HOME=str(tmp_path)
    )
    assert (done.code, done.out) == (1, "")
    assert "no hooks here" in done.err


def test_a_base_url_that_is_none_is_told(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    done = checkrail("with", "--", "true", OPENAI_BASE_URL="api.example")
    assert done.code == 4
    assert "OPENAI_BASE_URL is something that is no URL of the web" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command_and_its_end_is_ours(number, write, tmp_path):
    write("hooks.yaml", "hooks: {}\n")
    code = (
        "import os, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: (os.write(1, b'got it\\n'), sys.exit(9)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [COMMAND, "with", "--", sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (9, "got it\n")
    assert err.startswith("checkrail: 0 calls")


def test_a_command_that_a_signal_ended_leaves_with_128_and_its_number(checkrail, write):
    write("hooks.yaml", "hooks: {}\n")
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    assert checkrail("with", "--", sys.executable, "-c", code).code == 128 + signal.SIGKILL


def test_proxies_are_not_asked_for_the_gateway(checkrail, write, upstream):
    write("hooks.yaml", "hooks: {}\n")
    code = "import os; print(os.environ['NO_PROXY'])"
    done = checkrail("with", "--", sys.executable, "-c", code, NO_PROXY="corp.example")
    assert done.out == f"corp.example,127.0.0.1{os.linesep}"
