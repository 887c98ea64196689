"""Programs as the bodies of runs."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import uvloop

from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.executors.command import STDERR_LIMIT, STDOUT_LIMIT, TOLD_LIMIT, run_command

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture(scope="module", autouse=True)
def _uvloop_has_what_it_keeps():
    async def start_one():
        await (await asyncio.create_subprocess_exec("true")).wait()

    uvloop.run(start_one())


@pytest.fixture
def program(make_work, tmp_path):
    """Make a run of a program in Python, in a folder of its own."""

    def made(code, parameters=None, *, command=None, words=(), most=None, context=None, **agent):
        agent["command"] = command or (sys.executable, "-c", code, *words)
        work, told = make_work(parameters, agent=agent, most=most, context=context or {})
        return run_command(work, tmp_path), told

    return made


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def reaped(pid):
    """Whether a child of ours is gone from the process table."""
    return not Path(f"/proc/{pid}").exists()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - another process is being waited for
            await asyncio.sleep(0.01)


async def test_parameters_are_json_on_its_input(program):
    code = "import json, sys; got = json.load(sys.stdin); print(json.dumps({'got': got}))"
    given = {"text": "é\ud800", "list": [1, None], "deep": {"a": True}}
    running, told = program(code, given)
    done = await running
    assert (done.output, done.error) == ({"got": given}, None)
    assert json.loads(told.text("stdout"))["got"]["list"] == [1, None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "a b; $HOME *", "n": 3, "x": 1.5}, "--name|a b; $HOME *|--n|3|--x|1.5"),
        ({"yes": True, "no": False, "none": None}, "--yes"),
        ({"tag": ["a", "b", 3, True]}, "--tag|a|--tag|b|--tag|3|--tag|true"),
        ({"empty": [], "text": ""}, "--text|"),
        ({"where": {"ä": [1]}}, '--where|{"ä": [1]}'),
        ({"pairs": [{"a": 1}, [2]]}, '--pairs|{"a": 1}|--pairs|[2]'),
        ({"file": "--delete", "n": -3}, "--file=--delete|--n=-3"),
        ({"dry-run": True, "a.b": "c", "first_name": "d"}, "--dry-run|--a.b|c|--first_name|d"),
        ({}, None),
    ],
)
async def test_or_they_are_arguments(program, given, words):
    schema = {"type": "object", "properties": {name: {} for name in given}}
    running, _ = program(ECHO, given, parameters_as="arguments", parameters_schema=schema)
    assert (await running).output == ([] if words is None else words.split("|"))


async def test_as_arguments_its_input_is_empty(program):
    code = "import sys; print(repr(sys.stdin.read()))"
    running, _ = program(code, {"prompt": "hello"}, parameters_as="arguments")
    assert (await running).output == "''"


@pytest.mark.parametrize(
    ("given", "schema", "told"),
    [
        ({"exec": "rm"}, {"properties": {"n": {}}}, "the parameter 'exec' is no option"),
        ({"exec": "rm"}, {"type": "object"}, "the parameter 'exec' is no option"),
        ({"prompt": "hello", "exec": "rm"}, None, "the parameter 'exec' is no option"),
        ({"-x": 1}, {"additionalProperties": True}, "the parameter '-x' is no option"),
        ({"a=b": 1}, {"additionalProperties": True}, "the parameter 'a=b' is no option"),
        ({"n": "a\0b"}, {"properties": {"n": {}}}, "'n' holds characters that no argument"),
        ({"n": "\ud800"}, {"properties": {"n": {}}}, "'n' holds characters that no argument"),
        ([1], {"type": "array"}, "send an object, not list"),
    ],
)
async def test_nobody_gives_a_program_options_that_were_not_declared(program, given, schema, told):
    running, heard = program(ECHO, given, parameters_as="arguments", parameters_schema=schema)
    done = await running
    assert done.error_type == "InvalidParameters"
    assert told in done.error
    assert heard.events == []


async def test_a_schema_that_is_open_is_trusted(program):
    schema = {"additionalProperties": {"type": "string"}}
    running, _ = program(ECHO, {"any": "x"}, parameters_as="arguments", parameters_schema=schema)
    assert (await running).output == ["--any", "x"]


@pytest.mark.parametrize(
    ("written", "output"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]\n", [1, 2]),
        ("42\n", 42),
        ("hello\n", "hello"),
        ("two\nlines\n\n", "two\nlines"),
        ("", ""),
        ("NaN", "NaN"),
        ('{"a": 1} {}', '{"a": 1} {}'),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
    ],
)
async def test_its_output_is_data_if_it_is_json_else_text(program, written, output):
    running, _ = program("import sys; sys.stdout.write(sys.argv[1])", words=[written])
    done = await running
    assert (done.output, done.error) == (output, None)


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(program):
    running, _ = program("import os; os.write(1, b'a\\xff\\xfeb')")
    assert (await running).output == "a\ufffd\ufffdb"


async def test_what_it_writes_is_told_while_it_runs(program, tmp_path):
    code = (
        "import os, sys, time; print('first', flush=True); print('aside', file=sys.stderr)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "print('second')"
    )
    running, told = program(code)
    task = asyncio.ensure_future(running)
    await until(lambda: "first" in told.text("stdout") and "aside" in told.text("stderr"))
    assert not task.done()
    (tmp_path / "go").touch()
    assert (await task).output == "first\nsecond"
    assert told.text("stdout") == "first\nsecond\n"
    assert told.text("stderr") == "aside\n"


async def test_characters_that_are_cut_in_two_are_told_whole(program):
    code = (
        "import os, sys\n"
        "for byte in '€ und 🦜'.encode():\n"
        "    os.write(1, bytes([byte])); sys.stdin.readline()\n"
    )
    running, told = program(code)
    assert (await running).output == "€ und 🦜"
    assert told.text("stdout") == "€ und 🦜"
    big = "import sys; sys.stdout.write('x' + '🦜' * 60_000)"
    running, told = program(big)
    assert (await running).output == "x" + "🦜" * 60_000
    assert told.text("stdout") == "x" + "🦜" * 60_000


async def test_a_character_that_is_cut_off_is_told_in_the_end(program):
    running, told = program("import os; os.write(1, '€'.encode()[:2])")
    assert (await running).output == "\ufffd"
    assert told.text("stdout") == "\ufffd"


async def test_too_much_output_ends_it(program, tmp_path):
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "sys.stdout.write('x' * 5_000_000)\n"
        "open('over', 'w')\n"
    )
    running, told = program(code)
    done = await running
    assert (done.output, done.error_type) == (None, "TooMuchOutput")
    assert f"wrote more than {STDOUT_LIMIT} bytes" in done.error
    assert len(told.text("stdout")) <= STDOUT_LIMIT + 65536
    assert not (tmp_path / "over").exists()
    await until(lambda: not alive(int((tmp_path / "pid").read_text())))


async def test_output_up_to_the_limit_is_taken(program):
    running, _ = program(f"import sys; sys.stdout.write('x' * {STDOUT_LIMIT})")
    assert len((await running).output) == STDOUT_LIMIT


async def test_a_flood_of_errors_is_read_but_not_told_without_end(program):
    running, told = program("import sys; sys.stderr.write('x' * 5_000_000); print('done')")
    assert (await running).output == "done"
    text = told.text("stderr")
    assert text == "x" * TOLD_LIMIT + "\n[the rest is not told]\n"


async def test_an_exit_code_is_an_error_with_the_last_of_what_it_said(program):
    code = (
        "import sys; print('{}'); sys.stderr.write('x' * 99_999 + ' the end\\x1b\\n'); sys.exit(3)"
    )
    running, told = program(code)
    done = await running
    assert (done.output, done.error_type) == (None, "CommandFailed")
    assert done.error.startswith(f"{sys.executable} ended with exit code 3: xxx")
    assert done.error.endswith("x the end")
    assert len(done.error) < STDERR_LIMIT + 500
    assert told.text("stdout") == "{}\n"


async def test_a_program_that_is_killed_names_the_signal(program):
    running, _ = program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (await running).error == f"{sys.executable} was ended by SIGKILL"


async def test_it_sees_a_small_environment_and_its_run(program, monkeypatch):
    monkeypatch.setenv("SERVER_SECRET", "sk-1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    env = {"MINE": "1", "CHECKRAIL_RUN_ID": "forged"}
    running, _ = program(code, env=env, context={"tenant": "é"})
    seen = (await running).output
    seen.pop("LC_CTYPE", None)  # Python's own
    assert json.loads(seen.pop("CHECKRAIL_SCOPE")) == {"tenant": "é"}
    assert seen == {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "LANG": "C.UTF-8",
        "MINE": "1",
        "CHECKRAIL_RUN_ID": "r-1",
        "CHECKRAIL_SESSION_ID": "s-1",
        "CHECKRAIL_IDEMPOTENCY_KEY": "r-1:2",
    }


async def test_a_run_without_a_session_names_none(make_work, tmp_path):
    code = "import os; print('CHECKRAIL_SESSION_ID' in os.environ)"
    work, _ = make_work({}, session_id=None, agent={"command": (sys.executable, "-c", code)})
    assert (await run_command(work, tmp_path)).output == "False"


async def test_it_runs_in_its_folder(program, tmp_path):
    (tmp_path / "sub").mkdir()
    script = tmp_path / "sub" / "it.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    running, _ = program("import os; print(os.getcwd())")
    assert (await running).output == str(tmp_path)
    running, _ = program("", command=("./it.sh",), cwd="sub")
    assert (await running).output == str(tmp_path / "sub")


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ({"command": ("no-such-program",)}, "there is no program no-such-program: install it"),
        ({"command": ("true",), "cwd": "no"}, "/no: there is no such folder"),
        ({"command": ("./plain",)}, "./plain is not executable"),
        ({"command": ("./script",)}, "the interpreter 'no-python3' of the script ./script"),
    ],
)
async def test_what_cannot_be_started_is_said(program, tmp_path, agent, told):
    (tmp_path / "plain").write_text("text")
    (tmp_path / "script").write_text("#!/usr/bin/env no-python3\n")
    (tmp_path / "script").chmod(0o755)
    running, _ = program("", **agent)
    done = await running
    assert done.error_type == "CommandFailed"
    assert told in done.error


async def test_a_program_need_not_read_what_it_is_told(program):
    running, _ = program("print('done')", {"text": "x" * 3_000_000})
    assert (await running).output == "done"


async def test_one_that_tells_too_much_is_ended(program):
    code = (
        "import sys, time\n"
        "for line in range(1000): print(line, flush=True); time.sleep(0.01)\n"
        "time.sleep(300)"
    )
    running, told = program(code, most=3)
    with pytest.raises(EventLimitError):
        await running
    assert len(told.events) == 3


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
time.sleep(300)
"""

# What a handler writes goes past `sys.stdout`: the signal may come while that is being written to.
ORDERLY = """
import os, signal, sys, time
def end(*_):
    os.write(1, b"cleaned up\\n")
    open("cleaned", "w")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(300)
"""

PARENT_GOES = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(300)
"""


async def cancelled_when(running, said):
    """Cancel a program once it has said something."""
    task = asyncio.ensure_future(running)
    await until(lambda: said() or task.done())
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_one_that_ignores_it_is_killed_with_its_children(program):
    running, told = program(STUBBORN)
    await cancelled_when(running, lambda: "\n" in told.text("stdout"))
    own, child = map(int, told.text("stdout").split())
    assert reaped(own)
    await until(lambda: not alive(child))


async def test_cancelled_a_child_that_ignores_it_does_not_outlive_its_parent(program):
    running, told = program(PARENT_GOES)
    await cancelled_when(running, lambda: "\n" in told.text("stdout"))
    await until(lambda: not alive(int(told.text("stdout"))))


@pytest.fixture
def patient(monkeypatch):
    """Have a program keep its time to clean up on a busy machine."""
    monkeypatch.setattr("checkrail.runs.executors.command.GRACE", 60.0)


@pytest.mark.usefixtures("patient")
async def test_cancelled_one_may_clean_up(program, tmp_path):
    running, told = program(ORDERLY)
    await cancelled_when(running, lambda: "ready\n" in told.text("stdout"))
    assert (tmp_path / "cleaned").exists()


@pytest.mark.usefixtures("patient")
async def test_cancelled_before_it_is_known_to_be_there_it_may_clean_up(
    program, tmp_path, monkeypatch
):
    real, there = asyncio.create_subprocess_exec, asyncio.Event()

    async def slowly(*argv, **options):
        process = await real(*argv, **options)
        await until((tmp_path / "ready").exists)
        there.set()
        await asyncio.sleep(0.1)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    running, _ = program(ORDERLY.replace('print("ready"', 'print(open("ready", "w")'))
    task = asyncio.ensure_future(running)
    await there.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "cleaned").exists()


async def test_cancelled_again_it_is_killed_at_once(program):
    running, told = program(STUBBORN)
    task = asyncio.ensure_future(running)
    await until(lambda: "\n" in told.text("stdout"))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    own, child = map(int, told.text("stdout").split())
    assert reaped(own)
    await until(lambda: not alive(child))


async def limited_when(running, said):
    """Run a program under a time limit, which is over once it has said something."""
    async with asyncio.timeout(None) as limit:
        task = asyncio.ensure_future(running)
        await until(said)
        limit.reschedule(asyncio.get_running_loop().time())
        await task


async def test_a_time_limit_ends_it(program):
    running, told = program(STUBBORN)
    with pytest.raises(TimeoutError):
        await limited_when(running, lambda: "\n" in told.text("stdout"))
    own, child = map(int, told.text("stdout").split())
    assert reaped(own)
    await until(lambda: not alive(child))


async def test_what_it_leaves_behind_does_not_hold_up_its_end(program):
    code = "import subprocess; print(subprocess.Popen(['sleep', '300']).pid)"
    running, _ = program(code)
    left = (await running).output
    assert alive(left)
    os.kill(left, signal.SIGKILL)


async def test_many_at_once(program):
    started = [program("import sys; print(sys.argv[1])", words=[str(n)])[0] for n in range(20)]
    found = await asyncio.gather(*started)
    assert [done.output for done in found] == [*range(20)]


@pytest.mark.parametrize("given", [{}, {"text": "x" * 3_000_000}])
def test_on_the_loop_of_a_server(make_work, tmp_path, given):
    code = "import json, sys; print(len(json.load(sys.stdin).get('text', '')))"

    async def story():
        work, told = make_work(given, agent={"command": (sys.executable, "-c", code)})
        done = await run_command(work, tmp_path)
        assert told.text("stdout") == f"{done.output}\n"
        stubborn, said = make_work({}, agent={"command": (sys.executable, "-c", STUBBORN)})
        running = run_command(stubborn, tmp_path)
        await cancelled_when(running, lambda: "\n" in said.text("stdout"))
        assert reaped(int(said.text("stdout").split()[0]))
        return done

    done = uvloop.run(story())
    assert (done.output, done.error) == (len(given.get("text", "")), None)
