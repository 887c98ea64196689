"""`checkrail chat` at a real terminal: the prompt, questions of hooks, Ctrl-C and Ctrl-D."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "checkrail"
CTRL_C, CTRL_D = "\x03", "\x04"
PATIENCE = 30  # seconds: only a broken test waits that long

# The terminal has to be the command's own for its keys to become signals.
LAUNCH = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may have it ignored
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

AGENT = """
    hooks:
      before_tool_call:
        - name: careful
          tools: [transfer]
          ask: This moves money
    agents:
      support:
        model:
          provider: scripted
          replies:
            - Hello, I am the desk.
            - { tool: transfer, args: { amount: 50 } }
            - It is settled.
            - You said hello before.
        tools: [./tools.py:transfer]
"""

TOOLS = """
    from checkrail import tool

    @tool
    def transfer(amount: int) -> str:
        "Move money."
        open("moved", "a").write(f"{amount}\\n")
        return f"moved {amount}"
"""

SLOW = """
    import asyncio
    import pathlib

    from checkrail.testing import ScriptedModel

    class Slow(ScriptedModel):
        async def stream(self, request):
            async for piece in super().stream(request):
                yield piece
                if piece == "Once":
                    try:
                        await asyncio.sleep(60)
                    finally:
                        pathlib.Path("cancelled").write_text("yes")
                if piece == "Stubborn":
                    while True:
                        try:
                            await asyncio.sleep(60)
                        except asyncio.CancelledError:
                            pathlib.Path("stubborn").write_text("yes")

    model = Slow(["Once upon a time", "A short one.", "Stubborn as a mule"])
"""


class Terminal:
    """A command on a terminal: what is typed, and what is read there."""

    def __init__(self, *args: str, cwd: Path) -> None:
        self.mine, its = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, COMMAND, *args],
            cwd=cwd,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)

    def type(self, text: str) -> None:
        os.write(self.mine, text.encode())

    def until(self, text: str) -> str:
        """Read until a text is there, and give everything up to it, which is then forgotten."""
        while text not in self.seen:
            more = self._read()
            assert more, f"{text!r} did not come, but: {self.seen!r}"
            self.seen += more
        found, _, self.seen = self.seen.partition(text)
        return found + text

    def left(self) -> tuple[int, str]:
        """Wait for the command to leave, and give its exit code and the rest."""
        while more := self._read():
            self.seen += more
        return self.process.wait(PATIENCE), self.seen

    def _read(self) -> str:
        ready, _, _ = select.select([self.mine], [], [], PATIENCE)
        assert ready, f"nothing more came after: {self.seen!r}"
        try:
            return os.read(self.mine, 4096).decode().replace("\r\n", "\n")
        except OSError:  # on Linux, what a terminal without its command answers
            return ""

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.mine)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*args: str) -> Terminal:
        opened.append(Terminal(*args, cwd=tmp_path))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture
def support(terminal, write):
    """A chat with the support desk, up to its first prompt."""
    write("tools.py", TOOLS)
    write("checkrail.yaml", AGENT)
    chat = terminal("chat", "checkrail.yaml")
    greeting = chat.until("> ")
    assert "support (scripted). Ctrl-C stops an answer, Ctrl-D leaves." in greeting
    return chat


def test_it_answers_at_a_prompt_and_ctrl_d_leaves(support):
    support.type("hello\n")
    assert "\nHello, I am the desk.\n" in support.until("> ")
    support.type("\n")
    support.until("> ")
    support.type(CTRL_D)
    assert support.left() == (0, "\n")


def test_ctrl_c_at_the_prompt_leaves(support):
    for _ in range(3):  # Python misses one that comes in the moment of its prompt
        support.type(CTRL_C)
        with contextlib.suppress(subprocess.TimeoutExpired):
            support.process.wait(PATIENCE / 3)
            break
    assert support.left()[0] == 0


@pytest.mark.parametrize(
    ("answer", "moved"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("yet\n", False)],
)
def test_a_hook_asks_the_person_and_only_yes_is_yes(answer, moved, support, tmp_path):
    support.type("hello\n")
    support.until("> ")
    support.type("transfer 50\n")
    question = support.until("[y/N] ")
    assert "careful at before_tool_call asks: This moves money" in question
    assert '"name": "transfer", "args": {"amount": 50}' in question
    support.type(answer)
    assert "It is settled." in support.until("> ")
    assert (tmp_path / "moved").exists() is moved
    support.type("and now?\n")
    assert "You said hello before." in support.until("> ")
    support.type(CTRL_D)
    assert support.left()[0] == 0


def test_what_was_typed_before_a_question_is_no_answer_to_it(support, tmp_path):
    support.type("hello\n")
    support.until("> ")
    support.type("transfer 50\ny\n")
    support.until("[y/N] ")
    support.type("n\n")
    support.until("It is settled.")
    assert not (tmp_path / "moved").exists()


def test_a_question_can_be_put_when_one_message_was_given(terminal, write, tmp_path):
    write("tools.py", TOOLS)
    write("checkrail.yaml", AGENT)
    chat = terminal("chat", "checkrail.yaml", "-m", "hello", "-m", "transfer 50", "--json")
    chat.until("[y/N] ")
    chat.type("y\n")
    code, rest = chat.left()
    assert (code, (tmp_path / "moved").read_text()) == (0, "50\n")
    assert re.search(r'"stop_reason": "answer"', rest)


@pytest.fixture
def slow(terminal, write):
    """A chat with a model that takes its time, in the middle of its first answer."""
    write("model.py", SLOW)
    write("checkrail.yaml", "agents: {teller: {model: './model.py:model'}}\n")
    chat = terminal("chat", "checkrail.yaml")
    chat.until("> ")
    chat.type("tell me\n")
    chat.until("Once")
    return chat


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(slow, tmp_path):
    slow.type(CTRL_C)
    assert re.search(r"\ncancelled\n", slow.until("> "))
    assert (tmp_path / "cancelled").exists()
    slow.type("something else\n")
    assert "A short one." in slow.until("> ")
    slow.type(CTRL_D)
    assert slow.left()[0] == 0


def test_ctrl_c_twice_leaves_though_the_answer_cannot_be_stopped(slow, tmp_path):
    slow.type(CTRL_C)
    slow.until("> ")
    slow.type("short\n")
    slow.until("> ")
    slow.type("stubborn\n")
    slow.until("Stubborn")
    slow.type(CTRL_C)
    end = time.monotonic() + PATIENCE
    while not (tmp_path / "stubborn").exists() and time.monotonic() < end:
        time.sleep(0.01)
    slow.type(CTRL_C)
    assert slow.left()[0] == 130


@pytest.mark.parametrize(
    ("form", "says"), [((), "cancelled"), (("--json",), '"stop_reason": "cancelled"')]
)
def test_ctrl_c_during_one_message_leaves_with_130(form, says, terminal, write):
    write("model.py", SLOW)
    write("checkrail.yaml", "agents: {teller: {model: './model.py:model'}}\n")
    chat = terminal("chat", "checkrail.yaml", "-m", "tell me", "-m", "and then?", *form)
    chat.until("Once")
    chat.type(CTRL_C)
    code, rest = chat.left()
    assert code == 130
    assert says in rest
    assert "A short one." not in rest
