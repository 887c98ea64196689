"""`checkrail chat` with messages and from pipes: what it says, traces, and leaves with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MCP_SERVER = Path(__file__).parents[1] / "agent" / "tools" / "mcp_server.py"

TOOLS = """
    import logging

    from checkrail import tool

    @tool
    def lookup(order: str) -> str:
        "Look up an order."
        print("looking it up")
        return f"{order} goes to ann@example.com"

    @tool
    async def refund(order: str, amount: int) -> str:
        "Give money back."
        return f"{amount} for {order}"

    def noisy(event):
        print("noise")
        logging.getLogger("checkrail.hooks").info("logged at info")
        logging.getLogger("checkrail.hooks").warning("logged at warning")

    def broken(event):
        raise OSError("the disk is full")

    async def late(event):
        import asyncio
        await asyncio.sleep(0.05)
"""

SUPPORT = """
    hooks:
      before_tool_call:
        - name: limit
          tools: [refund]
          when: tool_call.args.amount > 100
          block: Refunds over 100 need the desk
      after_llm_call:
        - name: no_addresses
          builtin: redact
          config: { kinds: [email] }
    agents:
      support:
        model:
          provider: scripted
          replies:
            - content: One moment.
              tool_calls: [{ tool: lookup, args: { order: A-17 } }]
            - It goes to ann@example.com.
            - { tool: refund, args: { order: A-17, amount: 5000 } }
            - I cannot do that.
            - You asked twice.
        tools: [./tools.py:lookup, ./tools.py:refund]
        hooks:
          after_llm_call:
            - name: polite
              when: message.content.startsWith("I cannot")
              retry: Say sorry first
"""


def replies(*texts: str, more: str = "") -> str:
    """Write a file with one agent that says these texts, and has these other keys."""
    said = ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)
    return f"agents:\n  a:\n    model: {{provider: scripted, replies: [{said}]}}\n{more}"


HOOKS = "hooks:\n  before_final_response:\n    - {{name: gate, {}}}\n"


@pytest.fixture
def support(write):
    write("tools.py", TOOLS)
    return write("checkrail.yaml", SUPPORT)


def test_an_answer_is_all_that_stands_on_standard_output(support, checkrail):
    done = checkrail("chat", "checkrail.yaml", "-m", "Where is A-17?")
    assert (done.code, done.out) == (0, "One moment.\nIt goes to [redacted:email].\n")
    assert done.err == "looking it up\n"


def test_several_messages_are_one_conversation(support, checkrail):
    done = checkrail("chat", "checkrail.yaml", "-m", "Where is A-17?", "-m", "Refund me 5000")
    assert done.out == "One moment.\nIt goes to [redacted:email].\nYou asked twice.\n"
    assert done.code == 0


def test_lines_of_standard_input_are_said_one_after_the_other(support, checkrail):
    done = checkrail("chat", "checkrail.yaml", stdin="Where is A-17?\n\n  \nRefund me 5000")
    assert (done.code, done.out) == (
        0,
        "One moment.\nIt goes to [redacted:email].\nYou asked twice.\n",
    )


def test_standard_input_need_not_be_text(write, invoke):
    write("checkrail.yaml", replies("Fine."))
    done = invoke("chat", "checkrail.yaml", stdin=b"\xff\xfe\n")
    assert (done.code, done.out) == (0, "Fine.\n")


def test_it_leaves_quietly_when_nobody_reads_its_answers(write, tmp_path):
    write("checkrail.yaml", replies("One.", "Two."))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [Path(sys.executable).parent / "checkrail", "chat", "checkrail.yaml", *("-m", "x") * 2],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_nothing_to_say_is_no_mistake(write, invoke):
    write("checkrail.yaml", replies("Fine."))
    done = invoke("chat", "checkrail.yaml")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_the_trace_tells_each_hook_and_tool_in_order(support, checkrail):
    args = ("chat", "checkrail.yaml", "--trace", "-m", "Where is A-17?", "-m", "Refund me 5000")
    done = checkrail(*args)
    lines = [" ".join(line.split()) for line in done.err.splitlines()]
    told = [line for line in lines if " passes " not in line and not line.endswith("_call")]
    left = iter(told)
    for start in (
        '→ lookup {"order": "A-17"}',
        "← lookup: A-17 goes to ann@example.com",
        "transform no_addresses redacts",
        "answer, ",
        "gate limit blocks",
        "← refund failed: Refunds over 100 need the desk",
        "transform polite retries",
        "answer, ",
    ):
        assert any(line.startswith(start) for line in left), (start, told)
    assert "Refunds over 100 need the desk" in done.err
    assert "Say sorry first" in done.err
    assert done.out == "One moment.\nIt goes to [redacted:email].\nYou asked twice.\n"


def test_the_trace_tells_the_agents_beneath(write, checkrail):
    write(
        "checkrail.yaml",
        """
        hooks:
          before_llm_call: { name: watch, lane: observe, command: ["true"] }
        agents:
          lead:
            model: { replies: [{ tool: helper, args: { query: x } }, Done.] }
            tools: [agent:helper]
          helper: { model: { replies: [Helped.] } }
        """,
    )
    done = checkrail("chat", "checkrail.yaml", "--agent", "lead", "--trace", "-m", "Go")
    lines = done.err.splitlines()
    order = [line for line in lines if not line.startswith((" ", "answer"))]
    assert order == [
        "before_llm_call",
        '→ helper {"query": "x"}',
        "before_llm_call of helper",
        "← helper: Helped.",
        "before_llm_call",
    ]
    assert done.out == "Done.\n"


def test_each_event_is_a_line_of_json(support, checkrail):
    done = checkrail("chat", "checkrail.yaml", "--json", "-m", "Where is A-17?", "-m", "Refund")
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [event["event"] for event in events if event["event"] != "hook"]
    assert kinds == [
        *("text", "tool_started", "tool_finished", "text", "finished"),
        *("tool_finished", "text", "finished"),
    ]
    by_kind = {event["event"]: event for event in reversed(events)}
    assert by_kind["text"] == {"event": "text", "text": "One moment.", "iteration": 1}
    started, finished = by_kind["tool_started"], by_kind["tool_finished"]
    assert (started["name"], started["args"]) == ("lookup", {"order": "A-17"})
    assert (finished["name"], finished["is_error"]) == ("lookup", False)
    end = by_kind["finished"]
    assert (end["content"], end["stop_reason"]) == ("It goes to [redacted:email].", "answer")
    assert end["usage"]["total_tokens"] > 0
    assert "messages" not in end
    hooks = [event for event in events if event["event"] == "hook"]
    assert {event["hook"] for event in hooks} == {"limit", "no_addresses", "polite"}
    blocked = next(event for event in hooks if event["kind"] == "hook_blocked")
    assert blocked["block_reason"] == "Refunds over 100 need the desk"


@pytest.mark.parametrize(
    ("hook", "code", "says"),
    [
        ("block: Not today", 3, "blocked: Not today\n"),
        ("fail: It is broken", 4, "failed: It is broken\n"),
        ("ask: Really, lane: gate", 3, "blocked: Really, but there is nobody to ask\n"),
    ],
)
def test_the_exit_code_says_what_hooks_did(hook, code, says, write, checkrail):
    write("checkrail.yaml", replies("Secret plans.") + HOOKS.format(hook))
    done = checkrail("chat", "checkrail.yaml", "-m", "Go")
    assert (done.code, done.out, done.err) == (code, "", says)
    data = checkrail("chat", "checkrail.yaml", "-m", "Go", "--json")
    last = json.loads(data.out.splitlines()[-1])
    assert (data.code, last["event"]) == (code, "finished")
    assert says.strip().endswith(last["error"])
    assert "Secret plans" not in data.out


@pytest.mark.parametrize(
    ("finish", "says"),
    [("stop", ""), ("length", "cut off at its token limit"), ("refusal", "refused to answer")],
)
def test_an_answer_that_is_not_whole_gets_a_warning(finish, says, write, checkrail):
    hook = f"set: {{ stop_reason: {finish} }}"
    write("checkrail.yaml", replies("So lo") + HOOKS.format(hook))
    done = checkrail("chat", "checkrail.yaml", "-m", "Go")
    assert (done.code, done.out) == (0, "So lo\n")
    assert says in done.err
    assert done.err.startswith("warning: ") is bool(says)


def test_the_worst_of_several_is_the_exit_code(write, checkrail):
    hook = 'when: message.content == "Bad", block: Not that'
    write("checkrail.yaml", replies("Bad", "Good") + HOOKS.format(hook))
    done = checkrail("chat", "checkrail.yaml", stdin="one\ntwo\n")
    assert (done.code, done.out, done.err) == (3, "Good\n", "blocked: Not that\n")
    done = checkrail("chat", "checkrail.yaml", *("-m", "x") * 3)
    assert (done.code, done.out) == (4, "Good\n")
    assert "failed: the script has 2 replies, but the model was asked 3 times" in done.err


def test_an_agent_that_comes_to_no_end_has_failed(write, checkrail):
    write("tools.py", TOOLS)
    calls = "[{tool: lookup, args: {order: x}}, {tool: lookup, args: {order: x}}]"
    more = "    tools: ['./tools.py:lookup']\n    max_iterations: 2\n"
    write("checkrail.yaml", f"agents:\n  a:\n    model: {{replies: {calls}}}\n{more}")
    done = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert done.code == 4
    assert "failed: the limit of 2 iterations was reached before an answer" in done.err


def test_what_a_hook_prints_and_logs_is_no_answer(write, checkrail):
    write("tools.py", TOOLS)
    hook = "hooks: {before_llm_call: {name: n, path: './tools.py:noisy'}}\n"
    write("checkrail.yaml", replies("Hello.") + hook)
    plain = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert (plain.out, plain.err) == ("Hello.\n", "noise\nlogged at warning\n")
    traced = checkrail("chat", "checkrail.yaml", "-m", "x", "--trace")
    assert traced.out == "Hello.\n"
    assert "noise\nlogged at info\nlogged at warning\n" in traced.err


def test_a_hook_that_fails_is_told_without_a_trace_too(write, checkrail):
    write("tools.py", TOOLS)
    hook = "hooks: {before_llm_call: {name: disk, path: './tools.py:broken'}}\n"
    write("checkrail.yaml", replies("Hello.") + hook)
    done = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert (done.code, done.out) == (0, "Hello.\n")
    told = "warning: hook 'disk' at before_llm_call failed (error): OSError: the disk is full\n"
    assert done.err == told
    traced = checkrail("chat", "checkrail.yaml", "-m", "x", "--trace")
    assert "failed (error)" in traced.err
    assert "Traceback" not in traced.err


def test_hooks_in_the_background_are_waited_for_and_told(write, checkrail):
    write("tools.py", TOOLS)
    hook = "hooks: {query_end: {name: late, path: './tools.py:late', mode: async}}\n"
    write("checkrail.yaml", replies("Hello.") + hook)
    done = checkrail("chat", "checkrail.yaml", "-m", "x", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    told = [(event["hook"], event["kind"]) for event in events if event["event"] == "hook"]
    assert told == [("late", "hook_start"), ("late", "hook_complete")]


def test_hooks_that_a_chat_never_calls_are_named(write, invoke):
    points = "before_run: {block: x}, on_result: {block: x}, query_end: {set: {content: Bye.}}"
    hook = f"hooks: {{{points}}}\n"
    write("checkrail.yaml", replies("Hello.") + hook)
    done = invoke("chat", "checkrail.yaml", "-m", "x")
    assert (done.code, done.out) == (0, "Bye.\n")
    assert done.err == (
        "warning: hooks at before_run, on_result are not called in a chat: "
        "they are for served runs\n"
    )


def test_an_answer_cannot_draw_on_the_terminal(write, invoke):
    write("checkrail.yaml", replies("a\x1b[2Jb\tc\u202ed\nça va\u00a0? 👩\u200d💻"))
    done = invoke("chat", "checkrail.yaml", "-m", "x")
    assert done.out == "a\\x1b[2Jb\tc\\u202ed\nça va\u00a0? 👩\u200d💻\n"


def test_a_terminal_of_few_signs_gets_json_all_the_same(write, checkrail):
    write("checkrail.yaml", replies("ça va"))
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = checkrail("chat", "checkrail.yaml", "-m", "x", "--json", **env)
    assert json.loads(done.out.splitlines()[-1])["content"] == "ça va"


def test_no_secret_is_shown(write, checkrail):
    text = """
        env: { allow: [TOKEN] }
        hooks:
          before_tool_call:
            - { name: stamp, set: { args.order: "${TOKEN}" } }
          before_final_response:
            - { name: no, block: "Call ${TOKEN}" }
        agents:
          a:
            model: { replies: [{ tool: lookup, args: { order: x } }, Done.] }
            tools: [./tools.py:lookup]
    """
    write("tools.py", TOOLS)
    write("checkrail.yaml", text)
    for more in ((), ("--trace",), ("--json",)):
        args = ("chat", "checkrail.yaml", "-m", "x", *more)
        done = checkrail(*args, TOKEN="very-secret-token")
        assert done.code == 3
        assert "very-secret-token" not in done.out + done.err
        assert "Call ${TOKEN}" in done.out + done.err


def test_structured_answers_are_shown_as_they_are(write, checkrail):
    more = "    output_schema: {type: object, required: [answer]}\n"
    write("checkrail.yaml", replies('{"answer": 5}', more=more))
    done = checkrail("chat", "checkrail.yaml", "-m", "x", "--json")
    end = json.loads(done.out.splitlines()[-1])
    assert (end["content"], end["output"]) == ('{"answer": 5}', {"answer": 5})


def test_an_mcp_server_stays_between_the_messages_and_ends_with_the_chat(
    write, checkrail, tmp_path
):
    write(
        "checkrail.yaml",
        f"""
        agents:
          a:
            model:
              replies:
                - {{ tool: add, args: {{ a: 2, b: 3 }} }}
                - Five.
                - {{ tool: add, args: {{ a: 4, b: 3 }} }}
                - Seven.
            mcp:
              sums:
                command: ["{sys.executable}", "{MCP_SERVER}", stdio]
                env: {{ STARTED: "{tmp_path / "started"}" }}
        """,
    )
    done = checkrail("chat", "checkrail.yaml", "-m", "x", "-m", "y", "--trace")
    assert (done.code, done.out) == (0, "Five.\nSeven.\n")
    assert "← add: 5" in done.err
    assert "← add: 7" in done.err
    assert (tmp_path / "started").read_text() == "started\n"


def test_a_blueprint_is_talked_to_as_well(write, checkrail):
    write("tools.py", TOOLS)
    write(
        "processor.yaml",
        """
        name: processor
        model: { replies: [{ tool: lookup, args: { order: x } }, Done.] }
        tools: [./tools.py:lookup]
        hooks:
          before_tool_call: { block: Not now }
        """,
    )
    done = checkrail("chat", "processor.yaml", "-m", "x", "--trace")
    assert (done.code, done.out) == (0, "Done.\n")
    assert "gate       processor.before_tool_call  blocks" in done.err
