"""How the command prints: on a terminal, without colours, into pipes that close early."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "checkrail"

RULES = """
    hooks:
      before_tool_call:
        - name: transfers_over_the_limit
          tools: [transfer, "pay_*"]
          when: tool_call.args.amount > 1000
          block: Transfers over 1000 need the finance desk
        - name: weather_in_celsius
          set: { args.unit: celsius }
        - name: nothing_is_deleted
          mode: shadow
          timeout: 0.25
          block: Nothing is deleted without a ticket
"""

NAMES = ("transfers_over_the_limit", "weather_in_celsius", "nothing_is_deleted")
ESCAPE = "\x1b"


def on_terminal(*args: str, cwd: Path, columns: int = 80, **env: str) -> str:
    """Start the command on a terminal, and give what it wrote there."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unset = ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [COMMAND, *args],
        cwd=cwd,
        env={**inherited, "TERM": "xterm-256color", **env},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    written = b""
    try:
        while part := os.read(mine, 1 << 16):
            written += part
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(mine)
    process.wait(60)
    return written.decode().replace("\r\n", "\n")


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def folder(write, tmp_path):
    write("checkrail.yaml", RULES)
    return tmp_path


def test_a_terminal_gets_colours_and_names_in_one_piece(folder):
    text = on_terminal("check", "checkrail.yaml", cwd=folder)
    assert f"{ESCAPE}[" in text
    plan = uncoloured(text)
    for whole in (*NAMES, "transform", "shadow", "enforce", "0.25 s"):
        assert whole in plan
    assert "…" not in plan


def test_a_terminal_shows_all_of_the_timeline(folder):
    text = uncoloured(on_terminal("fire", "checkrail.yaml", "before_tool_call", cwd=folder))
    assert "weather_in_celsius" in text
    assert "in shadow: blocks" in text
    assert "Nothing is deleted without a ticket" in " ".join(text.split())


def test_a_narrow_terminal_does_not_cut_the_names_of_points(folder):
    text = uncoloured(on_terminal("schema", cwd=folder, columns=60))
    assert "before_final_response" in text


def test_no_color_means_no_escape_codes(folder):
    text = on_terminal("check", "checkrail.yaml", cwd=folder, NO_COLOR="1")
    assert "weather_in_celsius" in text
    assert not re.search(r"\x1b\[(3|4|9|10)\d(;|m)", text), "a colour"
    assert ESCAPE not in text


@pytest.mark.parametrize(
    "args",
    [
        ("check", "checkrail.yaml"),
        ("check", "gone.yaml"),
        ("fire", "checkrail.yaml", "before_tool_call"),
        ("fire", "checkrail.yaml", "nowhere"),
        ("hooks",),
        ("hooks", "redact"),
        ("schema",),
    ],
)
def test_a_pipe_gets_no_escape_codes(args, folder, invoke):
    done = invoke(*args)
    assert done.out + done.err
    assert ESCAPE not in done.out + done.err


def test_into_a_pipe_a_hook_is_one_line_however_long(invoke, write):
    name = "a_name_" * 20
    text = f"hooks: {{before_tool_call: {{name: {name}, tools: ['{'x' * 150}'], block: no}}}}"
    write("long.yaml", text)
    done = invoke("check", "long.yaml")
    (row,) = [line for line in done.out.splitlines() if line.startswith("  1")]
    assert name in row
    assert "x" * 150 in row


@pytest.mark.parametrize(
    "args",
    [
        ("check", "checkrail.yaml"),
        ("fire", "checkrail.yaml", "before_tool_call", "--json"),
        ("hooks",),
        ("schema", "before_llm_call"),
    ],
)
def test_a_pipe_that_closes_early_is_no_accident(args, folder):
    process = subprocess.Popen(
        [COMMAND, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    process.wait(60)
    assert said == ""


def test_head_gets_its_line(folder):
    shell = f"'{COMMAND}' schema before_llm_call | head -n 1"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_a_terminal_without_unicode_is_no_accident(folder, installed):
    done = installed("fire", "checkrail.yaml", "before_tool_call", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "celsius" in done.out


def test_half_a_character_is_no_accident(folder, installed):
    given = ("--value", '"\\ud800"', "--json")
    done = installed("fire", "checkrail.yaml", "before_run", *given)
    assert (done.code, done.err) == (0, "")
    assert done.data["value"] == "\ud800"
