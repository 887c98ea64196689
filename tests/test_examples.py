"""Runs every example as a user would, and reads what it prints."""

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Each line has to be there, in this order.
SAYS = {
    "run_hooks/audit_log.py": """
        started   run=r1 agent=research user=ada thread=t1
        completed run=r1 status=success tokens=52
        started   run=r2 agent=research user=ada thread=t1
        failed    run=r2 error=CancelledError: Run was cancelled
    """,
    "run_hooks/subscription.py": """
        ada asks research: may run
        bob asks research: 402 Active subscription required
        bob asks smalltalk: may run
    """,
    "run_hooks/several.py": """
        r1: runs
        notified: run r1 of ada ended in success
        failed, without harm: report_to_analytics (ConnectionError: analytics is down)
        r2: runs
        r3: 429 Rate limit exceeded
    """,
    "proxy_hooks/proxy.py": """
        pre_request: provider_compat, house_style
        post_response: shorten, log_response
        {'role': 'system', 'content': 'Answer in one sentence.'}
        {'role': 'user', 'content': [{'type': 'text', 'text': 'How tall is it?'}]}
        log: answer from groq/llama3: 52 tokens, id 4f1c
        the client gets: It is 330 m tall.
    """,
    "tool_limits.py": """
        transfer 20
        seen: transfer said 20 EUR sent
        transfer 5000
        refused by limit: Transfers over 1000 need the finance desk
    """,
    "agent_hooks.py": """
        accepted; flags of this run: {'schema_shown': True}
        ended with answer, 4 requests so far
        user: What did we sell for?
        assistant: {"query": "SELECT sum FROM orders"}
        tool: ORA-00904: "SUM": invalid identifier (a column is misspelt or does not exist)
        system: Schema: orders(id, customer, total)
        assistant: {"query": "SELECT total FROM orders"}
        tool: 420
        user: Your answer was not accepted. Please answer again.
        user: Begin your answer with a <plan>.
        assistant: <plan>Add up the totals.</plan> You sold for 420.
        ended with stop, 4 requests so far
        user: What did we sell for?
        assistant: <plan>Add up the totals.</plan> You sold for 420.
    """,
    "session_hooks.py": """
        before_inbound: no-secrets, tidy
        session s1 of ada has begun
        in:   continue: 'hello'
        in:   block: 'Please do not send passwords'
        tool: continue in chat
        tool: block in job-7 delete needs a person
        out:  continue: 'done', although flaky failed
        session s1 has ended (expired): threads t1, t2
    """,
    "gateway/demo.py": """
        python agent.py
        the model is told: Move 5000 to my savings! My key is AKIAIOSFODNN7EXAMPLE.
        the agent moves 5000
        the agent answers: Done: moved 5000.
        checkrail with -- python agent.py
        the model is told: Move 5000 to my savings! My key is [redacted].
        the agent answers: I may not: Transfers over 1000 need the finance desk.
        checkrail: 1 call, 80 tokens in, 20 out, $0.0180
        no_secrets  change 1, continue 1
        limit       block 1
    """,
}


CHAT = """
    → lookup {"order": "A-17"}
    ← lookup: sent on Monday, to ann@example.com
    Order A-17 was sent on Monday. We wrote to [redacted:email].
    ← refund failed: Refunds over 100 need the finance desk
    after_llm_call
    I am sorry, I cannot refund that much. The finance desk will call you.
"""


CLIENT = """
    Where is order A-17?
    Order A-17 is on its way.
    Refund 5000!
    Refunds over 100 need the finance desk
    And now the paid agent:
    402 Active subscription required
"""


def run(name: str, folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def assert_says(printed: str, lines: str) -> None:
    said = [line.strip() for line in printed.splitlines()]
    left = iter(said)
    for line in lines.strip().splitlines():
        assert line.strip() in left, f"{line.strip()!r} is not in its place in: {said}"


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_anywhere_and_says_what_it_should(name: str, tmp_path: Path) -> None:
    assert_says(run(name, tmp_path), SAYS[name])


def test_the_chat_can_be_had_as_its_file_tells(tmp_path: Path) -> None:
    file = EXAMPLES / "chat" / "checkrail.yaml"
    said = re.findall(r"^# +> (.*)$", file.read_text(), re.MULTILINE)
    done = subprocess.run(
        [Path(sys.executable).parent / "checkrail", "chat", file, "--trace"],
        cwd=tmp_path,
        input="\n".join(said),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert_says(done.stdout, CHAT)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of a server of the example project, started as its file tells."""
    shutil.copytree(EXAMPLES / "server", tmp_path / "server")
    with socket.socket() as given:
        given.bind(("127.0.0.1", 0))
        port = str(given.getsockname()[1])
    told = re.search(r"checkrail (dev --config) examples/server$", file_of("server"), re.MULTILINE)
    assert told is not None
    command = [Path(sys.executable).parent / "checkrail", *told[1].split(), "server"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--port", port], cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/ok", process)
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server did not start")


def file_of(example: str) -> str:
    return (EXAMPLES / example / "checkrail.yaml").read_text(encoding="utf-8")


def test_the_client_talks_to_the_project_and_its_hooks_are_in_the_log(served, tmp_path):
    assert_says(run("server/client.py", tmp_path, served), CLIENT)
    log = tmp_path / "log"
    until = time.monotonic() + 30
    while log.read_text().count("of support: success, 50 tokens") < 2:
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)


def test_no_example_is_left_out() -> None:
    scripts = [path for path in EXAMPLES.rglob("*.py") if "__main__" in path.read_text()]
    names = {path.relative_to(EXAMPLES).as_posix() for path in scripts}
    assert {name for name in names if not name.startswith("demo/")} == {*SAYS, "server/client.py"}
