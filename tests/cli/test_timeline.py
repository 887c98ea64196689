"""What `checkrail fire` shows of the hooks: each call, in order, with what it did and why."""

import json
import re
import textwrap

import pytest

OWN = """
    import asyncio
    import dataclasses
    from pathlib import Path

    from checkrail import Block, Continue

    def look(event):
        pass

    def loud(event):
        print("looking")

    async def slow(event):
        await asyncio.sleep(10)

    def boom(event):
        raise ValueError("it broke")

    def bare(event, value):
        return value

    def double(event, call):
        args = {**call.args, "amount": call.args["amount"] * 2}
        return Continue(dataclasses.replace(call, args=args))

    async def report(event):
        await asyncio.sleep(0.2)
        Path(event.config["file"]).write_text(str(event.verdict.decision))

    def draw(event):
        return Block("\\x1b[31mred\\x1b[0m and \\x07loud")
"""

RULES = """
    hooks:
      before_tool_call:
        - { name: look, path: "./own.py:look" }
        - { name: hide, redact: email }
        - { name: double, path: "./own.py:double" }
        - { name: slow, path: "./own.py:slow", timeout: 0.05 }
        - { name: boom, path: "./own.py:boom" }
        - { name: bare, path: "./own.py:bare", on_error: continue }
        - { name: trial, lane: transform, mode: shadow, block: Not on Sundays }
        - { name: trial_slow, mode: shadow, path: "./own.py:slow", timeout: 0.05 }
        - { name: elsewhere, tools: [weather], block: Never }
        - { name: last, lane: gate, block: The end }
        - { name: report, mode: async, path: "./own.py:report", config: { file: report.txt } }
"""

VALUE = '{"name": "transfer", "args": {"amount": 5, "to": "ann@example.com"}}'

CALLS = [
    ["transform", "look", "passes"],
    ["transform", "hide", "redacts"],
    ["transform", "double", "changes", "args.amount: 5 → 10"],
    ["transform", "slow", "failed (timeout)", "hook 'slow' at before_tool_call timed out after 0"],
    ["transform", "boom", "failed (error)", "ValueError: it broke"],
    ["transform", "bare", "failed (invalid)", "hook 'bare' at before_tool_call broke its contra"],
    ["transform", "trial", "in shadow: blocks", "Not on Sundays"],
    [
        "transform",
        "trial_slow",
        "in shadow: failed (timeout)",
        "hook 'trial_slow' at before_tool_cal",
    ],
    ["gate", "last", "blocks", "The end"],
]


@pytest.fixture(scope="module")
def shown(start, tmp_path_factory):
    """What is shown of a chain in which everything happens once."""
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "own.py").write_text(textwrap.dedent(OWN))
    (folder / "checkrail.yaml").write_text(textwrap.dedent(RULES))
    done = start("fire", "checkrail.yaml", "before_tool_call", "--value", VALUE, cwd=folder)
    return done, folder


def timed(rows):
    """Give the rows of the timeline without their times, which have to be there."""
    found = []
    for row in rows:
        at = [n for n, cell in enumerate(row) if re.fullmatch(r"\d+\.\d\d ms", cell)]
        if at:
            assert at == [3]
            found.append(row[:3] + row[4:])
    return found


def test_every_call_is_shown_with_what_it_did_and_why(shown):
    done, _ = shown
    assert done.code == 3
    calls = [row for row in timed(done.rows) if row[1] != "report"]
    assert len(calls) == len(CALLS)
    for row, wanted in zip(calls, CALLS, strict=True):
        assert row[:3] == wanted[:3]
        assert len(row) == len(wanted)
        assert all(cell.startswith(begin) for cell, begin in zip(row, wanted, strict=True))
    assert "elsewhere" not in done.out


def test_the_verdict_comes_after_the_timeline(shown):
    done, _ = shown
    after = done.rows[done.rows.index(["block by last (403): The end"]) :]
    assert len(after) == 2
    assert after[1][0].startswith("value: ")
    assert "10" in after[1][0]


def test_what_was_redacted_is_nowhere(shown):
    done, _ = shown
    assert "[redacted]" in done.out
    assert "ann@example.com" not in done.out + done.err


def test_hooks_that_fail_are_told_in_the_timeline_alone(shown):
    done, _ = shown
    assert "Traceback" not in done.err
    assert "on_error" not in done.err


def test_an_observer_in_the_background_ends_before_the_command(shown):
    _, folder = shown
    assert (folder / "report.txt").read_text() == "block"


def test_an_observer_in_the_background_is_in_the_timeline_too(shown):
    done, _ = shown
    assert ["observe", "report", "passes"] in timed(done.rows)


def test_the_records_of_a_failing_chain(invoke, write):
    write("own.py", OWN)
    write("checkrail.yaml", RULES)
    told = invoke("fire", "checkrail.yaml", "before_tool_call", "--value", VALUE, "--json").data
    ended = {
        record["hook"]: record
        for record in told["records"]
        if record["kind"] != "hook_start" and record["hook"] != "report"
    }
    assert list(ended) == [call[1] for call in CALLS]
    failures = {name: record.get("failure") for name, record in ended.items()}
    assert failures == {
        **dict.fromkeys(ended),
        "slow": "timeout",
        "boom": "error",
        "bare": "invalid",
        "trial_slow": "timeout",
    }
    assert ended["hide"]["redacted"] is True
    assert "before" not in ended["hide"]
    assert ended["double"]["before"]["args"]["amount"] == 5
    assert ended["double"]["after"]["args"]["amount"] == 10
    assert (ended["trial"]["shadow"], ended["trial"]["kind"]) == (True, "hook_blocked")
    assert ended["last"]["kind"] == "hook_blocked"
    assert "ann@example.com" not in str(told)
    hooks = [record["hook"] for record in told["records"] if record["kind"] == "hook_start"]
    assert [name for name in hooks if name != "report"] == [call[1] for call in CALLS]


def test_what_a_hook_prints_does_not_spoil_the_json(checkrail, write):
    write("own.py", OWN)
    write("checkrail.json", '{"hooks": {"before_run": {"path": "./own.py:loud"}}}')
    done = checkrail("fire", "checkrail.json", "before_run", "--json")
    assert done.code == 0
    assert done.data["decision"] == "continue"
    assert done.err == "looking\n"


def test_what_a_hook_says_cannot_draw_on_the_terminal(invoke, write):
    write("own.py", OWN)
    write("checkrail.json", '{"hooks": {"before_run": {"path": "./own.py:draw"}}}')
    done = invoke("fire", "checkrail.json", "before_run")
    assert done.code == 3
    assert "red" in done.out
    assert not {"\x1b", "\x07"} & {*done.out}


def test_what_a_hook_says_is_no_markup_and_no_emoji(invoke, write):
    text = ":key: [bold]x[/bold] [/nope]"
    rule = {"name": "a[red]b", "set": {"note": text}}
    write("checkrail.json", json.dumps({"hooks": {"before_run": rule}}))
    done = invoke("fire", "checkrail.json", "before_run", "--value", "{}")
    assert done.rows[1][:3] == ["transform", "a[red]b", "changes"]
    assert done.rows[1][4] == f'note: (nothing) → "{text}"'
    assert done.rows[-1] == [f'value: note: (nothing) → "{text}"']


@pytest.mark.parametrize("history", ["digest", "off"])
def test_the_history_of_the_file_holds(history, invoke, write):
    text = f"""
        history: {history}
        hooks:
          before_tool_call:
            - {{ name: city, set: {{ args.city: Rome }} }}
    """
    write("checkrail.yaml", text)
    told = invoke("fire", "checkrail.yaml", "before_tool_call", "--json").data
    assert told["value"]["args"] == {"city": "Rome"}
    assert "Rome" not in str(told["records"])


def test_the_retries_of_the_file_hold(invoke, write):
    write("checkrail.yaml", "max_retries: 0\nhooks: {after_llm_call: {retry: again}}\n")
    done = invoke("fire", "checkrail.yaml", "after_llm_call", "--json")
    assert (done.code, done.data["code"]) == (4, "retries_exhausted")
