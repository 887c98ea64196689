import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import uvloop

from checkrail.actions import ActionError, command
from checkrail.actions.command import STDERR_LIMIT, STDOUT_LIMIT
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.outcomes import Ask, Block, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

CALL = ToolCall("c1", "transfer", {"amount": 5})


def script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def says(answer: object) -> list[str]:
    return script(f"print({json.dumps(answer)!r})")


@pytest.fixture(scope="module", autouse=True)
def _uvloop_has_what_it_keeps():
    async def start_one():
        await (await asyncio.create_subprocess_exec("true")).wait()

    uvloop.run(start_one())


@pytest.fixture
def ask(event_at):
    async def answer(argv, point="before_tool_call", *, lane=None, value=..., **options):
        return await command(argv, **options)(await event_at(point, value, lane=lane, run_id="r1"))

    return answer


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process is being waited for
            await asyncio.sleep(0.01)


async def test_the_event_is_json_on_its_input_and_the_answer_on_its_output(ask, tmp_path):
    code = (
        "import json, sys; told = json.load(sys.stdin);"
        "args = told['tool_call']['args'] | {'amount': 1, 'run': told['run_id']};"
        "print(json.dumps({'action': 'continue', 'tool_call': {'args': args}}))"
    )
    answer = await ask(script(code), value=CALL)
    assert answer == Continue(ToolCall("c1", "transfer", {"amount": 1, "run": "r1"}))


async def test_it_can_take_every_decision(ask):
    assert await ask(says({"action": "block", "reason": "no"})) == Block("no")
    assert await ask(says({"action": "ask", "reason": "ok?"})) == Ask("ok?")


@pytest.mark.parametrize("code", ["", "print()", "print('  ')"])
async def test_an_observer_need_not_say_anything(code, ask):
    assert await ask(script(code), "after_run") is None


@pytest.mark.parametrize("point", ["before_tool_call", "on_session_start"])
@pytest.mark.parametrize("code", ["", "print()", "print('  ')"])
async def test_where_something_is_decided_silence_is_no_answer(point, code, ask):
    with pytest.raises(InvalidOutcomeError, match=r'"action": "continue"'):
        await ask(script(code), point)


async def test_a_program_need_not_read_what_it_is_told(ask):
    big = ToolCall(args={"text": "x" * 3_000_000})
    closes = """import os; os.close(0); print('{"action": "continue"}')"""
    assert await ask(script(closes), value=big) == Continue()
    assert await ask(["echo", '{"action": "continue"}'], value=big) == Continue()


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_on_the_loop_of_a_server_too(size, event_at):
    code = (
        "import json, sys; n = len(json.load(sys.stdin)['tool_call']['args']['text']);"
        "print(json.dumps({'action': 'block', 'reason': str(n)}))"
    )

    async def answer():
        call = ToolCall(args={"text": "x" * size})
        return await command(script(code))(await event_at("before_tool_call", call))

    assert uvloop.run(answer()) == Block(str(size))


async def test_a_large_event_arrives_whole(ask):
    big = ToolCall(args={"text": "é" * 1_000_000})
    code = (
        "import json, sys; n = len(json.load(sys.stdin)['tool_call']['args']['text']);"
        "print(json.dumps({'action': 'block', 'reason': str(n)}))"
    )
    assert await ask(script(code), value=big) == Block("1000000")


async def test_exit_code_2_blocks_with_what_was_said_on_stderr(ask):
    code = (
        "import sys; print('ignored'); print(' too much\\n\\x1b[31m', file=sys.stderr); sys.exit(2)"
    )
    assert await ask(script(code)) == Block("too much\n[31m")
    assert await ask(script("raise SystemExit(2)")) == Block("")


async def test_a_long_reason_is_bounded(ask):
    code = "import sys; sys.stderr.write('a' * 100_000 + 'end'); sys.exit(2)"
    answer = await ask(script(code))
    assert len(answer.reason) == STDERR_LIMIT
    assert answer.reason.endswith("aend")


@pytest.mark.parametrize(
    ("point", "lane"),
    [("after_run", None), ("query_end", None), ("before_tool_call", "observe")],
)
async def test_exit_code_2_is_an_error_where_nothing_can_be_blocked(point, lane, ask):
    code = "import sys; sys.stderr.write('no'); sys.exit(2)"
    with pytest.raises(ActionError, match="ended with exit code 2: no"):
        await ask(script(code), point, lane=lane)


async def test_other_exit_codes_are_errors_with_the_last_of_stderr(ask):
    code = "import sys; sys.stderr.write('x' * 100_000 + ' the end'); sys.exit(3)"
    with pytest.raises(ActionError, match=r"ended with exit code 3: x+ the end$") as caught:
        await ask(script(code))
    assert len(str(caught.value)) < STDERR_LIMIT + 200
    with pytest.raises(ActionError, match=r"exit code 1: (?s:.)*ZeroDivisionError"):
        await ask(script("1/0"))
    with pytest.raises(ActionError, match=r"ended with exit code 1$"):
        await ask(["false"])


async def test_a_program_that_is_killed_names_the_signal(ask):
    with pytest.raises(ActionError, match="was ended by SIGTERM"):
        await ask(script("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"))
    with pytest.raises(ActionError, match="was ended by signal 40"):
        await ask(script("import os; os.kill(os.getpid(), 40)"))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("hello", "that are no JSON"),
        ("{'action': 'block'}", "that are no JSON"),
        ('{"action": "block"} {}', "that are no JSON"),
        ('{"action": "block", "status": NaN}', "NaN is not JSON"),
        ("[]", "at $: found a list, expected an object"),
        ("{}", "at $.action: found nothing"),
        ('{"action": "no"}', "at $.action: found 'no'"),
    ],
)
async def test_output_that_is_no_answer_is_invalid(written, told, ask):
    with pytest.raises(InvalidOutcomeError) as caught:
        await ask(script(f"print({written!r})"))
    assert told in str(caught.value)


async def test_output_that_is_no_text_is_invalid(ask):
    with pytest.raises(InvalidOutcomeError, match="that are no JSON"):
        await ask(script("import os; os.write(1, b'\\xff\\xfe\\xfd')"))


async def test_an_observer_may_answer_with_an_empty_object(ask):
    assert await ask(says({}), lane="observe") is None
    assert await ask(says({}), "after_run") is None


async def test_too_much_output_ends_the_program(ask):
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(InvalidOutcomeError, match=f"more than {STDOUT_LIMIT} bytes"):
        await ask(script(code))


async def test_output_up_to_the_limit_is_read_whole(ask):
    room = STDOUT_LIMIT - len(json.dumps({"action": "block", "reason": ""}))
    code = (
        "import json, sys; reason = 'x' * int(sys.argv[1]);"
        "print(json.dumps({'action': 'block', 'reason': reason}), end='')"
    )
    assert len((await ask([*script(code), str(room)])).reason) == room
    with pytest.raises(InvalidOutcomeError):
        await ask([*script(code), str(room + 1)])


async def test_a_program_that_floods_its_errors_goes_on(ask):
    code = "import sys; sys.stderr.write('x' * 3_000_000); print('{\"action\": \"block\"}')"
    assert await ask(script(code)) == Block()


async def test_it_sees_a_small_environment(ask, monkeypatch):
    monkeypatch.setenv("SERVER_SECRET", "sk-1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    code = (
        "import json, os; seen = json.dumps(dict(os.environ));"
        "print(json.dumps({'action': 'block', 'reason': seen}))"
    )
    seen = json.loads((await ask(script(code), env={"MINE": "1", "LANG": "de"})).reason)
    seen.pop("LC_CTYPE", None)  # Python's own
    assert seen == {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "MINE": "1",
        "LANG": "de",
    }
    monkeypatch.delenv("LANG")
    seen = json.loads((await ask(script(code))).reason)
    assert seen.keys() - {"LC_CTYPE"} == {"PATH", "HOME"}


async def test_it_runs_in_its_folder_and_without_a_shell(ask, tmp_path):
    code = (
        "import json, os, sys; reason = os.getcwd() + sys.argv[1];"
        "print(json.dumps({'action': 'block', 'reason': reason}))"
    )
    answer = await ask([*script(code), "; echo $HOME *"], cwd=tmp_path)
    assert answer == Block(f"{tmp_path}; echo $HOME *")


async def test_a_program_beside_the_config(ask, tmp_path):
    path = tmp_path / "check.sh"
    path.write_text('#!/bin/sh\necho \'{"action": "block", "reason": "script"}\'\n')
    path.chmod(0o755)
    assert await ask(["./check.sh"], cwd=tmp_path) == Block("script")


async def test_what_cannot_be_started_is_unreachable(ask, tmp_path):
    with pytest.raises(UnreachableError, match="there is no program no-such-program-anywhere"):
        await ask(["no-such-program-anywhere"])
    with pytest.raises(
        UnreachableError, match=f"could not be started in {tmp_path}/no: there is no"
    ):
        await ask(["true"], cwd=tmp_path / "no")
    (tmp_path / "plain").write_text("text")
    with pytest.raises(UnreachableError, match="is not executable"):
        await ask(["./plain"], cwd=tmp_path)
    (tmp_path / "plain").chmod(0o755)
    with pytest.raises(UnreachableError, match="begin a script with a line such as #!"):
        await ask(["./plain"], cwd=tmp_path)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("#!/no/such/python3 -u\n", "interpreter '/no/such/python3' of the script .* is not there"),
        ("#! /no/such/python3\n", "interpreter '/no/such/python3' of the script"),
        ("#!/bin/sh\r\n", "end the lines of the script with LF, not with CR LF"),
        ("#!/usr/bin/env no-python3\n", "interpreter 'no-python3' of the script .* is not there"),
        ("#!/usr/bin/env -S A=b no-python3 -u\n", "interpreter 'no-python3' of the script"),
        ("#!/usr/bin/env sh\r\n", "end the lines of the script with LF, not with CR LF"),
    ],
)
async def test_a_script_without_its_interpreter_is_named_with_it(ask, tmp_path, first, told):
    (tmp_path / "check").write_bytes(f"{first}print('{{}}')\n".encode())
    (tmp_path / "check").chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for argv in (["./check"], [str(tmp_path / "check")], ["check"]):
        with pytest.raises(UnreachableError, match=told):
            await ask(argv, cwd=tmp_path, env=path)


async def test_a_value_is_sent_once_and_unescaped(ask):
    text = "süß und köstlich " * 80_000  # about 1.5 MB
    call = ToolCall("c1", "write", {"text": text})
    code = (
        "import json, sys; data = sys.stdin.buffer.read(); told = json.loads(data);"
        "args = {'size': len(data), 'same': told['tool_call']['args']['text'].count('süß')};"
        "print(json.dumps({'action': 'continue', 'tool_call': {'args': args}}))"
    )
    answer = await ask(script(code), value=call)
    assert answer.value.args["same"] == 80_000
    assert len(text.encode()) < answer.value.args["size"] < len(text.encode()) + 1000


async def test_what_utf8_cannot_hold_is_escaped(ask):
    code = (
        "import json, sys; told = json.load(sys.stdin);"
        "args = {'text': told['tool_call']['args']['text']};"
        "print(json.dumps({'action': 'continue', 'tool_call': {'args': args}}))"
    )
    call = ToolCall("c1", "write", {"text": "half \ud800 of ü"})
    assert (await ask(script(code), value=call)).value.args == call.args


async def test_a_caller_reads_how_it_ended_and_not_what_it_wrote():
    registry = HookRegistry()
    failing = command(script("import sys; sys.exit('the password is 1234')"))
    registry.register(failing, "before_tool_call", name="check", lane="gate")
    verdict = await registry.fire("before_tool_call", CALL)
    how = f"{sys.executable} ended with exit code 1"
    assert verdict.reason == f"hook 'check' at before_tool_call failed: {how}"
    assert "1234" in verdict.records[1].error


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("jq -c .", r"There is no shell: write \['jq', '-c', '\.'\]"),
        ([], "the command is empty"),
        ([""], "the command is empty"),
        (["a", 5], "5 cannot be part of a command"),
        (["a\0b"], "cannot be part of a command"),
    ],
)
def test_what_is_no_command_is_refused(argv, told):
    with pytest.raises(ActionError, match=told):
        command(argv)


async def test_what_a_program_leaves_behind_does_not_hold_up_its_answer(ask, tmp_path):
    code = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '300']);"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid));"
        'print(\'{"action": "block"}\')'
    )
    async with asyncio.timeout(60):
        assert await ask(script(code)) == Block()
    left = int((tmp_path / "pid").read_text())
    assert alive(left)
    os.kill(left, signal.SIGKILL)


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
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(300)
"""


@pytest.fixture
def stubborn(tmp_path):
    """A program that ignores SIGTERM, with a child that does too; and how to learn their ids."""
    path = tmp_path / "pids"
    return [*script(STUBBORN), str(path)], path


def reaped(pid: int) -> bool:
    """Whether a child of ours is gone from the process table."""
    return not Path(f"/proc/{pid}").exists()


async def test_cancelled_it_is_killed_with_its_children_and_reaped(stubborn, event_at):
    argv, path = stubborn
    task = asyncio.ensure_future(command(argv)(await event_at("before_tool_call")))
    await until(path.exists)
    program, child = map(int, path.read_text().split())
    assert alive(program)
    assert alive(child)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reaped(program)
    await until(lambda: not alive(child))


async def test_a_timeout_in_the_engine_kills_it(stubborn):
    argv, path = stubborn
    for timeout in (1, 5, 25, 125):  # a busy machine may need longer to start it at all
        registry = HookRegistry()
        registry.register(command(argv), "before_tool_call", name="c", lane="gate", timeout=timeout)
        verdict = await registry.fire("before_tool_call", CALL)
        assert (verdict.decision, verdict.status) == (Decision.BLOCK, 504)
        if path.exists():
            break
    program, child = map(int, path.read_text().split())
    assert reaped(program)
    await until(lambda: not alive(child))


async def test_cancelled_while_it_starts_it_is_killed(event_at, tmp_path):
    event = await event_at("before_tool_call")
    for turns in range(8):
        mark = tmp_path / f"{turns}"
        task = asyncio.ensure_future(command(["sh", "-c", f"sleep 1; touch {mark}"])(event))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(1.5)
    assert list(tmp_path.iterdir()) == []


async def test_cancelled_where_it_cannot_start_it_is_just_cancelled(event_at):
    event = await event_at("before_tool_call")
    task = asyncio.ensure_future(command(["no-such-program-anywhere"])(event))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_at_once(ask):
    answers = await asyncio.gather(
        *(ask(says({"action": "block", "reason": str(n)})) for n in range(20))
    )
    assert [answer.reason for answer in answers] == [str(n) for n in range(20)]


async def test_in_the_engine_failures_have_their_kinds():
    for argv, kind, status in (
        (["no-such-program-anywhere"], "unreachable", 502),
        (script("print('hm')"), "invalid", 500),
        (["false"], "error", 500),
    ):
        registry = HookRegistry()
        registry.register(
            command(argv), "before_tool_call", name="c", lane="gate", on_error="block", timeout=60
        )
        verdict = await registry.fire("before_tool_call", CALL)
        assert (verdict.records[-1].failure, verdict.status) == (kind, status)
