"""The demo, run as a user would: all of the points, something of everything, nothing leaked."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from checkrail.engine.points import HookPoint

DEMO = Path(__file__).parents[1] / "examples" / "demo"
COMMAND = Path(sys.executable).parent / "checkrail"
CALL = re.compile(r"  (transform|gate     |observe  ) +(\w+) +(\S.*?) +\d+\.\d\d ms(?: +(\S.*))?")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    unset = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints, started from somewhere else."""
    somewhere = tmp_path_factory.mktemp("somewhere")
    done = run(sys.executable, "-W", "error", DEMO / "demo.py", cwd=somewhere)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def calls(printed: str) -> dict[str, tuple[str, str]]:
    """What each hook did first, and why: something else than to let a value pass, if it did."""
    found = [CALL.fullmatch(line.rstrip()) for line in printed.splitlines()]
    told = [(call[2], (call[3], call[4] or "")) for call in found if call]
    passed = [each for each in told if each[1][0] == "passes"]
    return dict(reversed(passed)) | dict(reversed([each for each in told if each not in passed]))


def test_it_reaches_all_of_the_points(printed):
    first = [line.partition("  ")[0] for line in printed.splitlines()]
    reached = [word for word in first if word in set(HookPoint)]
    assert set(reached) == set(HookPoint)
    order = list(dict.fromkeys(reached))
    assert (order[0], order[-1]) == ("on_session_start", "on_session_end")
    assert "16 of 16 points." in printed


@pytest.mark.parametrize(
    ("hook", "does", "why"),
    [
        ("five_a_minute", "passes", ""),
        ("language", "changes", 'language: (nothing) → "en"'),
        ("hide_contacts", "redacts", ""),
        ("no_secrets", "redacts", ""),
        ("house_rules", "injects", ""),
        ("wants_a_plan", "retries", "Start with your plan between <plan> and </plan>."),
        ("limit", "blocks", "Transfers over 1000 need the finance desk"),
        ("no_more_deletes", "in shadow: blocks", "Nothing is deleted without a ticket"),
        ("audit_session", "passes", ""),
    ],
)
def test_it_shows_what_a_hook_does(hook, does, why, calls):
    assert calls[hook] == (does, why)


def test_it_shows_a_timeout(calls):
    does, why = calls["risk_score"]
    assert does == "failed (timeout)"
    assert why.startswith("hook 'risk_score' at after_tool_call timed out after 0.2 s")


def test_it_shows_what_was_decided(printed):
    lines = [line.strip() for line in printed.splitlines()]
    refused = "Transfers over 1000 need the finance desk Ask the user for a smaller amount."
    assert f"the model is told: {refused}" in lines
    assert "the model is told: note 7 is gone" in lines
    assert not any(line.startswith("the model is told: moved") for line in lines)


def test_an_answer_that_was_sent_back_is_never_said(printed):
    said = re.findall(r"the agent says: (.*)", printed)
    assert [text.strip() for text in said] == ["I deleted your note. Trace key: [redacted:secrets]"]


def test_the_last_lines_count_what_was_shown(printed):
    summary = next(line for line in printed.splitlines() if "16 of 16 points." in line)
    counts = {what: int(count) for count, what in re.findall(r"(\d+) × ([^,.]+)", summary)}
    shown = [call[3] for line in printed.splitlines() if (call := CALL.fullmatch(line.rstrip()))]
    assert counts == {
        "pass": shown.count("passes"),
        "change": shown.count("changes"),
        "redaction": shown.count("redacts"),
        "injection": shown.count("injects"),
        "retry": shown.count("retries"),
        "block": shown.count("blocks"),
        "decision in shadow": shown.count("in shadow: blocks"),
        "hook that failed (timeout)": shown.count("failed (timeout)"),
    }
    assert all(counts.values())


def test_it_asks_agents_on_a_server(printed):
    lines = [line.strip() for line in printed.splitlines()]
    head = "the run server  LangGraph graphs, called by LangGraph's client"
    served = lines[lines.index(head) :]
    assert "Ann asks the paid agent: 402 Active subscription required" in served
    assert "Ann reads: Refunds over 100 need the finance desk" in served
    called = [call[2] for line in printed.splitlines() if (call := CALL.fullmatch(line.rstrip()))]
    assert called[-3:] == ["subscribed", "refund_limit", "completed"]


def test_nothing_that_was_redacted_is_printed(printed, monkeypatch):
    monkeypatch.syspath_prepend(DEMO)
    script = runpy.run_path(str(DEMO / "demo.py"))
    spoken = script["QUESTION"] + runpy.run_path(str(DEMO / "agents.py"))["ANSWER"]
    hidden = ["ann@example.com", "4111 1111 1111 1111", "sk-proj-" + "a1B2c3D4" * 5]
    assert all(text in spoken for text in hidden)
    for text in (*hidden, "ann@", "4111", "sk-proj"):
        assert text not in printed
    assert "[redacted:secrets]" in printed


def test_it_prints_no_escape_codes_into_a_pipe(printed):
    assert "\x1b" not in printed


def test_its_rules_are_right_and_cover_the_life(tmp_path):
    done = run(COMMAND, "check", DEMO / "checkrail.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("hooks at 16 of 16 points, 2 agents\n")


def test_the_file_that_it_names_is_there(printed):
    named = re.search(r"The rules are in (\S+):", printed)
    assert named is not None
    assert (DEMO.parents[1] / named[1]).is_file()
