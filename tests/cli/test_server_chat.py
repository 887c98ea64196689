"""`checkrail chat --server` with a real server: replies, refusals, questions, and leaving."""

import contextlib
import json
import subprocess
import sys
import textwrap
import threading
import time

import httpx2
import pytest
from tests.processes import until as wait_until
from tests.server.harness import Served, free_port, on_sqlite

from .run_site import Site
from .test_chat_terminal import CTRL_C, CTRL_D, Terminal

PROJECT = """
    python_path: ["."]
    auth: { keys: true }
    agents:
      parrot: { model: "./agents.py:parrot" }
      slow: { model: "./agents.py:slow" }
      careful:
        model: "./agents.py:parrot"
        hooks:
          on_run_start: [{ name: four_eyes, ask: May it speak? }]
      discreet:
        model: "./agents.py:parrot"
        hooks:
          before_outbound: [{ name: cards, block: A card number }]
    sessions: { agent: parrot }
    hooks:
      before_inbound:
        - { name: closed, when: 'content == "closed"', block: We are closed, status: 429 }
        - { name: reader, when: 'content == "secret"', ask: "May it be read?\\u001b[31m" }
"""

AGENTS = """
    import asyncio

    from checkrail.testing import ScriptedModel

    def repeat(request):
        said = [each for each in request.messages if each["role"] == "user"][-1]["content"]
        return f"{said}, you say?"

    class Slow(ScriptedModel):
        async def stream(self, request):
            async for piece in super().stream(request):
                yield piece
                if piece == "Once":
                    await asyncio.sleep(600)

    parrot, slow = ScriptedModel(repeat), Slow(["Once upon a time"])
"""


@contextlib.contextmanager
def serve(folder, more=""):
    """Serve the project, with more in its file."""
    for name, text in (("checkrail.yaml", PROJECT), ("agents.py", AGENTS)):
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    config = folder / "checkrail.yaml"
    config.write_text(config.read_text() + more)
    served = Served(on_sqlite(folder), folder / "log", config=config).start()
    try:
        yield Site(served)
    finally:
        served.stop()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("desk")) as site:
        yield site


@pytest.fixture(scope="module")
def ann(desk):
    return desk.key_for("ann", "member")


@pytest.fixture
def chat(desk, invoke, ann):
    """Call `checkrail chat --server` as ann."""

    def called(*args, stdin="", key=ann):
        return invoke("chat", "--server", desk.url, "--key", key, *args, stdin=stdin)

    return called


@pytest.fixture
def terminal(desk, ann, tmp_path):
    """Start the command at a terminal, as ann, or as somebody of another server."""
    opened = []

    def start(*args, url=desk.url, key=ann):
        words = ("chat", "--server", url, "--key", key, *args)
        opened.append(Terminal(*words, cwd=tmp_path))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def sessions(desk, invoke, *args):
    done = invoke("sessions", "ls", "--json", "--server", desk.url, "--key", desk.key, *args)
    return [json.loads(line) for line in done.out.splitlines()]


def test_lines_of_a_pipe_are_said_and_replies_alone_are_printed(desk, chat, invoke):
    done = chat(stdin="Good morning\n\nAnd now?\n")
    assert (done.code, done.err) == (0, "")
    assert done.out == "Good morning, you say?\nAnd now?, you say?\n"
    [session] = sessions(desk, invoke, "--channel", "terminal", "--user", "ann")
    again = chat("-m", "Hello", "--session", session["session_id"], "--json")
    reply = json.loads(again.out.splitlines()[-1])
    assert (reply["event"], reply["reply"]) == ("reply", "Hello, you say?")
    assert (reply["session_id"], reply["channel"]) == (session["session_id"], "terminal")


def test_machines_get_each_frame_as_a_line(chat):
    done = chat("--json", "--channel", "pipe", "-m", "Hello", "-m", "closed")
    assert done.code == 3
    frames = [json.loads(line) for line in done.out.splitlines()]
    names = [frame["event"] for frame in frames]
    assert names[0] == "message"
    assert names[-2:] == ["reply", "error"]
    told = "".join(frame["text"] for frame in frames if frame["event"] == "delta")
    assert told == frames[-2]["reply"] == "Hello, you say?"
    assert (frames[-1]["message"], frames[-1]["info"]["blocked_by"]) == ("We are closed", "closed")


def test_a_refusal_is_shown_with_its_reason_and_the_talk_goes_on(chat):
    done = chat("-m", "closed", "-m", "Hello")
    assert (done.code, done.out, done.err) == (3, "Hello, you say?\n", "blocked: We are closed\n")
    withheld = chat("-m", "4111", "--agent", "discreet")
    assert withheld.code == 3
    assert withheld.err == "withheld: A card number\n"
    assert "4111" not in withheld.out


def test_a_server_that_is_away_or_refuses_is_an_error_with_a_remedy(desk, invoke, chat):
    away = invoke("chat", "--server", f"http://127.0.0.1:{free_port()}", "-m", "Hello")
    assert (away.code, away.out) == (1, "")
    assert "Start one with `checkrail dev`, or say where it is with --server" in away.err
    for key, says in (("crk_wrong", "CHECKRAIL_API_KEY"), (desk.key_for("v", "viewer"), "member")):
        refused = chat("-m", "Hello", key=key)
        assert (refused.code, refused.out) == (1, "")
        assert says in refused.err
    nobody = chat("-m", "Hello", "--agent", "nobody")
    assert (nobody.code, "nobody" in nobody.err) == (1, True)
    assert chat("-m", "Hello", "--channel", "a b").code == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "FILE, or --server URL"),
        (("a.yaml", "--server", "http://127.0.0.1:1"), "leave out FILE"),
        (("a.yaml", "--session", "x"), "leave out FILE"),
        (("--server", "http://127.0.0.1:1", "--trace"), "--trace is for a FILE"),
        (("--server", "http://127.0.0.1:1", "-m", " "), "--message is empty"),
        (("--server", "elsewhere", "-m", "x"), "--server is a URL"),
    ],
)
def test_misuse_is_told(invoke, monkeypatch, args, says):
    monkeypatch.delenv("CHECKRAIL_SERVER", raising=False)
    done = invoke("chat", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_a_file_is_talked_to_whatever_server_the_environment_names(write, invoke, monkeypatch):
    monkeypatch.setenv("CHECKRAIL_SERVER", "http://127.0.0.1:1")
    write("a.yaml", "agents: { a: { model: { provider: scripted, replies: [Hi] } } }\n")
    assert invoke("chat", "a.yaml", "-m", "x").out == "Hi\n"


@pytest.mark.parametrize("agent", ["parrot", "careful"])
@pytest.mark.parametrize("answer", ["y", "n"])
def test_what_waits_is_answered_at_the_terminal(terminal, agent, answer):
    said = "secret" if agent == "parrot" else "aloud"
    talk = terminal("--agent", agent, "--channel", f"{agent}-{answer}")
    talk.until("> ")
    talk.type(f"{said}\n")
    shown = talk.until("Let it pass? [y/N] ")
    hook = "reader at before_inbound" if agent == "parrot" else "four_eyes at on_run_start"
    assert f"{hook} asks: May it" in shown
    assert said in shown.partition("asks:")[2]
    assert "\x1b[31m" not in shown
    talk.type(f"{answer}\n")
    shown = talk.until("> ")
    assert (f"{said}, you say?" in shown) == (answer == "y")
    assert ("blocked" in shown) == (answer == "n")
    talk.type(CTRL_D)
    assert talk.left()[0] == 0


def test_what_waits_for_somebody_else_says_so(desk, ann, invoke, tmp_path):
    """Without a terminal the question is shown, and whoever may answers it elsewhere."""
    log = tmp_path / "told"

    words = ["chat", "--server", desk.url, "--key", ann, "--channel", "elsewhere", "-m", "secret"]
    with log.open("wb") as told:
        command = [sys.executable, "-m", "checkrail", *words]
        talk = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told
        )
    try:
        wait_until(lambda: "it waits: checkrail approvals approve" in log.read_text(), "the note")
        approval_id = log.read_text().split()[-1]
        done = invoke("approvals", "approve", approval_id, "--server", desk.url, "--key", ann)
        assert done.code == 0
        out, _ = talk.communicate(timeout=60)
        assert (talk.returncode, out) == (0, b"secret, you say?\n")
    finally:
        talk.kill()
        talk.wait(60)


def test_an_answer_that_somebody_else_gave_first_holds(terminal, desk, ann, invoke):
    talk = terminal("--channel", "first")
    talk.until("> ")
    talk.type("secret\n")
    talk.until("Let it pass? [y/N] ")
    known = ("--server", desk.url, "--key", ann)
    assert invoke("approvals", "deny", "last", *known).code == 0
    talk.type("y\n")
    shown = talk.until("blocked")
    assert "denied by ann already (409)" in shown
    talk.until("> ")


def test_who_may_not_answer_is_told_so_and_waits(terminal, tmp_path, invoke):
    folder = tmp_path / "strict"
    folder.mkdir()
    with serve(folder, "approvals: { roles: [admin] }\n") as strict:
        talk = terminal(url=strict.url, key=strict.key_for("ann", "member"))
        talk.until("> ")
        talk.type("secret\n")
        talk.until("Let it pass? [y/N] ")
        talk.type("y\n")
        assert "you are member" in talk.until("(403)")
        known = ("--server", strict.url, "--key", strict.key)
        assert invoke("approvals", "approve", "last", *known).code == 0
        assert "secret, you say?" in talk.until("> ")


def test_a_reply_is_waited_for_however_long_another_message_waits(
    desk, ann, chat, invoke, monkeypatch
):
    monkeypatch.setattr("checkrail.cli.server_client._SILENCE", 1.0)
    known = {"headers": {"x-api-key": ann}, "timeout": 60}
    body = {"content": "secret", "channel": "behind", "wait": False}
    httpx2.post(f"{desk.url}/messages", json=body, **known)

    def approve():
        url = f"{desk.url}/messages?channel=behind"
        wait_until(lambda: len(httpx2.get(url, **known).json()) == 2, "the second message")
        time.sleep(2.5)  # more than once the silence that is too long
        asked = httpx2.get(f"{desk.url}/approvals?status=open", **known).json()
        [row] = [row for row in asked if "behind" in json.dumps(row["value"])]
        httpx2.post(f"{desk.url}/approvals/{row['approval_id']}/approve", **known)

    approving = threading.Thread(target=approve)
    approving.start()
    done = chat("--channel", "behind", "-m", "Hello")
    approving.join()
    assert (done.code, done.out, done.err) == (0, "Hello, you say?\n", "")


def test_replies_come_as_they_are_made_and_ctrl_c_leaves(desk, terminal, invoke):
    talk = terminal("--agent", "slow", "--channel", "slow")
    assert "Ctrl-C and Ctrl-D leave." in talk.until("> ")
    talk.type("Tell me a story\n")
    talk.until("Once")
    talk.type(CTRL_C)
    code, shown = talk.left()
    assert code == 130
    assert "Traceback" not in shown
    run_id = shown.split("checkrail runs cancel ")[1].split()[0]
    key = ("--server", desk.url, "--key", desk.key)
    assert invoke("runs", "cancel", run_id, "--wait", *key).code == 0


def test_a_reply_is_shown_once_at_the_terminal(terminal):
    talk = terminal("--channel", "once")
    talk.until("> ")
    talk.type("Hello\n")
    assert talk.until("> ").count("Hello, you say?") == 1
    talk.type("closed\n")
    assert "blocked: We are closed" in talk.until("> ")
    talk.type(CTRL_D)
    assert talk.left()[0] == 0


def test_a_talk_goes_on_where_its_server_was_started_anew(terminal, desk):
    talk = terminal("--channel", "anew")
    talk.until("> ")
    talk.type("secret\n")
    talk.until("Let it pass? [y/N] ")
    desk.served.stop()
    desk.served.start()
    talk.type("y\n")
    assert talk.until("> ").count("secret, you say?") == 1
    talk.type(CTRL_D)
    assert talk.left()[0] == 0
