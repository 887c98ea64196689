"""What somebody wrote is printed as it stands, by every command: markup, emoji and all."""

import ast
import json
import re
from pathlib import Path

import pytest

import checkrail
from checkrail.cli.output import console

SOURCES = sorted(Path(checkrail.__file__).parent.rglob("*.py"))
TAGS = "[a-c]* [bold]b[/bold] [/nope] [link=https://x.example]l[/link] :key:"
WHEN = 'tool_call.args.names[size(tool_call.args.names)-1] == "[/x] [red]"'


def names_of(node):
    """The names that a node of a module's source uses to say something to rich."""
    if isinstance(node, ast.Call):
        called = node.func
        yield called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        yield from (keyword.arg for keyword in node.keywords if keyword.arg == "markup")
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{each.name}" for each in node.names)
    elif isinstance(node, ast.Import):
        yield from (each.name for each in node.names)


def test_one_console_prints_everything_and_reads_no_markup():
    reading = {"rich.print", "rich.markup", "rich.markup.render", "from_markup", "RichHandler"}
    making = {"Console", "markup", "rich.get_console"}
    for file in SOURCES:
        text = file.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text)) if re.search("rich|markup|Console", text) else ()
        used = {name for node in nodes for name in names_of(node)}
        assert not used & reading, file
        assert file.parts[-2:] == ("cli", "output.py") or not used & making, file


def test_the_console_reads_no_markup_in_any_form():
    out = console()
    for told in (TAGS, f"[/] {TAGS}"):
        with out.capture() as text:
            out.print(told)
        assert text.get() == f"{told}\n"


@pytest.fixture
def tagged(write):
    """A file in which everything that may be written freely looks like markup."""
    rule = {"name": f"rule {TAGS}", "tools": ["[a-c]*", "[/red]"], "when": WHEN, "block": TAGS}
    model = {"provider": "scripted", "model": "[bold]m[/]", "replies": [TAGS]}
    upstream = {"format": "openai", "url": "http://127.0.0.1:9", "models": ["[ab]*"]}
    off = {"name": "off [red]", "mode": "off", "block": "no"}
    file = {
        "hooks": {"before_tool_call": [rule, off], "after_llm_call": {"set": {"content": TAGS}}},
        "agents": {"desk": {"model": model, "system_prompt": TAGS}},
        "gateway": {"upstreams": {"up": upstream}},
    }
    return write("[bold]tagged[red].json", json.dumps(file)).name


def test_the_plan_is_what_the_file_says(invoke, tagged):
    done = invoke("check", tagged)
    assert done.code == 0, done.err
    (row,) = [row for row in done.rows if row[:1] == ["1"] and row[1].startswith("rule")]
    assert row[1] == f"rule {TAGS}"
    assert f"tools: [a-c]*, [/red]; when: {WHEN}" in row
    assert "switched off: off [red]" in done.out
    assert "[ab]*" in done.out
    assert f"{tagged}: 2 hooks at 2 of 16 points, 1 agent" in done.out


def test_an_event_is_told_as_it_was(invoke, tagged):
    call = {"name": "bash", "args": {"names": ["[/x] [red]"]}}
    done = invoke("fire", tagged, "before_tool_call", "--value", json.dumps(call))
    assert done.code == 3
    assert done.rows[-1] == [f"block by rule {TAGS} (403): {TAGS}"]


def test_a_chat_is_told_as_it_was(invoke, tagged):
    done = invoke("chat", tagged, "-m", "[/hello]", "--trace")
    assert (done.code, done.out) == (0, f"{TAGS}\n")
    assert "after_llm_call" in done.err


def test_problems_name_what_was_found(invoke, write):
    write("broken.json", json.dumps({"hooks": {"[/before]": {"block": TAGS}}, "[/key]": 1}))
    done = invoke("check", "broken.json")
    assert done.code == 1
    assert "unknown point '[/before]'" in done.err
    assert "unknown key '[/key]'" in done.err


def test_what_is_shown_cannot_draw_on_the_terminal(invoke, write):
    rule = {"name": "n\x1b[31m", "tools": ["\x1b[2J*"], "block": "no"}
    write("drawn.json", json.dumps({"hooks": {"before_tool_call": rule}, "\x1b[2J": 1}))
    assert "\x1b" not in invoke("check", "drawn.json").err
    write("drawn.json", json.dumps({"hooks": {"before_tool_call": rule}}))
    done = invoke("check", "drawn.json")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "tools: \\x1b[2J*" in done.out


def test_folders_and_keys_are_named_as_they_are(invoke, write, tmp_path):
    made = invoke("init", "[bold]shop[/]")
    assert made.code == 0
    assert made.out.startswith("[bold]shop[/]: made checkrail.yaml")
    write("checkrail.yaml", "hooks: {}\nauth: {keys: true}\n")
    created = invoke("keys", "create", "ci [/red]", "--role", "member")
    assert created.code == 0
    assert "member ci [/red], for ci [/red]" in created.err
    assert "ci [/red]" in invoke("keys", "ls").out
