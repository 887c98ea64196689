"""Hooks that are left out, switched off or loud: told, without spoiling anything."""

from pathlib import Path

import pytest

PROBLEM = {"file", "line", "path", "found", "expected", "hint"}

OPTIONAL = """
    hooks:
      before_run:
        - name: kept
          set: { language: en }
        - name: perhaps
          path: ./gone.py:hook
          optional: true
        - name: served
          type: agent
          agent_name: checker
          on_error: block
        - name: asleep
          path: ./gone.py:hook
          mode: off
        - name: tired
          enabled: false
          block: Never
"""


def test_optional_hooks_that_are_not_there_are_warned_of(checkrail, write):
    write("checkrail.yaml", OPTIONAL)
    done = checkrail("check", "checkrail.yaml")
    assert done.code == 0
    missing, served, older = done.err.splitlines()
    assert "checkrail.yaml:6 hooks.before_run[1].path: left out, for it is optional" in missing
    assert "gone.py" in missing
    assert "checkrail.yaml:8 hooks.before_run[2]: agent hooks need the run server" in served
    assert missing.startswith("warning: ")
    assert served.startswith("warning: ")
    at = "note: checkrail.yaml:16 hooks.before_run[4].enabled: "
    assert older == f"{at}`enabled: false` is an older spelling (write mode: off)"
    assert [row[1] for row in done.rows if len(row) == 9] == ["hook", "kept", "served"]
    assert done.rows[-2:] == [
        ["switched off: asleep, tired"],
        ["checkrail.yaml: 2 hooks at 1 of 16 points"],
    ]


def test_warnings_as_json_tell_where_they_are(invoke, write):
    write("checkrail.yaml", OPTIONAL)
    told = invoke("check", "checkrail.yaml", "--json").data
    assert told["ok"] is True
    assert told["off"] == ["asleep", "tired"]
    assert [(found["line"], found["path"]) for found in told["warnings"]] == [
        (6, "hooks.before_run[1].path"),
        (8, "hooks.before_run[2]"),
    ]
    (note,) = told["notes"]
    assert (note["line"], note["path"], note["hint"]) == (
        16,
        "hooks.before_run[4].enabled",
        "write mode: off",
    )
    assert all(found.keys() == PROBLEM for found in (*told["warnings"], note))


OLDER_OPTIONS = """
from checkrail import Hook, Hooks

hooks = Hooks()


@hooks.before_run(timeout_seconds=2, enabled=False)
def slow(event):
    pass


@hooks.before_run(timeout=2, mode="off", on_error="block")
def current(event):
    pass


class Door(Hook):
    name = "door"
    points = ("before_run",)
    failure_mode = "FailClosed"

    def execute(self, event):
        pass


every = [hooks, Door()]
"""


def test_options_of_hooks_in_python_are_noted_too(invoke, write):
    write("rules.py", OLDER_OPTIONS)
    write("checkrail.yaml", "hooks: {path: ./rules.py:every}")
    notes = invoke("check", "checkrail.yaml", "--json").data["notes"]
    assert [(Path(note["file"]).name, note["path"], note["hint"]) for note in notes] == [
        ("rules.py", "'slow'", "write timeout"),
        ("rules.py", "'slow'", 'write mode="off"'),
        ("rules.py", "'door'", "write on_error"),
    ]
    assert all(note["line"] for note in notes)


def test_what_hooks_print_when_they_are_imported_does_not_spoil_the_json(checkrail, write):
    write("loud.py", "print('hello from a hook')\ndef watch(event):\n    pass\n")
    write("checkrail.json", '{"hooks": {"before_run": {"path": "./loud.py:watch"}}}')
    done = checkrail("check", "checkrail.json", "--json")
    assert done.code == 0
    assert done.data["ok"] is True
    assert done.err == "hello from a hook\n"


def test_warnings_are_told_when_the_hooks_are_fired_too(invoke, write):
    write("checkrail.yaml", OPTIONAL)
    done = invoke("fire", "checkrail.yaml", "before_outbound")
    assert (done.code, len(done.err.splitlines())) == (0, 2)
    told = invoke("fire", "checkrail.yaml", "before_outbound", "--json")
    found = told.data.get("warnings") or told.err.splitlines()
    assert len(found) == 2


LIFECYCLE = """\
from checkrail import Reject
from checkrail.styles import LifecycleHook


class Bouncer(LifecycleHook):
    hook_points = ("before_inbound",)

    async def execute(self, event, ctx):
        return Reject("no")


class Closed(Bouncer):
    failure_mode = "fail_closed"


every = [Bouncer(), Closed()]
"""


def test_a_lifecycle_hook_that_fails_open_is_told_the_word_of_its_style(invoke, write):
    write("rules.py", LIFECYCLE)
    write("checkrail.yaml", "hooks: {path: ./rules.py:every}")
    told = invoke("check", "checkrail.yaml", "--json").data
    assert "notes" not in told
    (warning,) = told["warnings"]
    assert warning["path"] == "'Bouncer'"
    assert warning["hint"] == 'say failure_mode="fail_closed"'


@pytest.mark.parametrize("said", ["block", "continue"])
def test_the_files_default_is_for_lifecycle_hooks_too(said, invoke, write):
    write("rules.py", LIFECYCLE)
    write("checkrail.yaml", f"hooks: {{path: ./rules.py:every}}\ndefaults: {{on_error: {said}}}\n")
    told = invoke("check", "checkrail.yaml", "--json").data
    assert told["warnings"] == []
    fired = [hook for hook in told["plan"]["before_inbound"] if hook["name"] == "Bouncer"]
    assert set(fired[0]["on_error"].values()) == {said}
