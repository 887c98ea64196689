"""What `checkrail check` says of a file that is right, but hardly as it was meant."""

import json

import pytest

FILE = """
hooks:
  before_tool_call:
    - name: limit
      tools: [{tool}]
      block: No
  {point}:
    - {{ name: clean, builtin: redact }}
agents:
  desk:
    model: {{ provider: {provider}, model: m, replies: [Hi] }}
    tools: [./tools.py:pay]
    {more}
"""

TOOLS = """
def pay(amount: int) -> str:
    \"\"\"Pay.\"\"\"
    return "paid"
"""


@pytest.fixture
def warned(invoke, tmp_path):
    def warned(tool="pay", point="after_llm_call", provider="scripted", more=""):
        told = FILE.format(tool=tool, point=point, provider=provider, more=more)
        if provider != "scripted":
            told = told.replace(", replies: [Hi]", "")
        (tmp_path / "checkrail.yaml").write_text(told)
        (tmp_path / "tools.py").write_text(TOOLS)
        done = invoke("check", "checkrail.yaml", "--json")
        assert done.code == 0, done.out
        people = invoke("check", "checkrail.yaml")
        warnings = done.data["warnings"]
        assert all(item["found"] in people.err for item in warnings)
        return [f"{item['path']}: {item['found']} ({item['hint']})" for item in warnings]

    return warned


def test_a_file_that_is_as_it_was_meant_gets_no_advice(warned):
    assert warned() == []
    assert warned(tool='"p*"') == []


@pytest.mark.parametrize("tool", ["payy", "pays"])
def test_a_rule_for_a_tool_that_nobody_has_is_told(warned, tool):
    (told,) = warned(tool=tool)
    assert told == f"'limit': no agent of this file has a tool {tool!r} (did you mean 'pay'?)"


def test_a_tool_that_is_like_none_is_told_with_those_that_are_there(warned):
    assert warned(tool="zzz")[0].endswith("(they have: pay)")


def test_tools_of_mcp_servers_are_not_known_before_they_run(warned):
    assert warned(tool="payy", more="mcp: { notes: { command: [notes] } }") == []


def test_a_redaction_that_misses_the_text_beside_tool_calls_is_told(warned):
    (told,) = warned(point="before_final_response")
    assert told.startswith("'clean': it does not see the text beside tool calls")


def test_a_package_that_is_not_installed_is_told(warned):
    (told,) = warned(provider="litellm")
    assert told == (
        "'desk': it needs the package litellm, which is not installed here"
        ' (pip install "litellm")'
    )
    assert warned(provider="openai") == []


def test_the_module_is_the_command(tmp_path):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "checkrail", "hooks", "redact", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["name"] == "redact"
