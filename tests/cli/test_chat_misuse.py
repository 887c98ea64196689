"""`checkrail chat` where it cannot talk: one clear line, and no traceback."""

import subprocess
import sys

import pytest

TWO = """
    agents:
      support: { model: { provider: scripted, replies: [Hi] } }
      billing: { model: { provider: scripted, replies: [Hello] } }
      graph: ./support.py:graph
      job: { type: procedural, command: [job] }
"""

WITHOUT = """
import sys
sys.modules[{package!r}] = None
sys.argv = ["checkrail", "chat", "checkrail.yaml", "-m", "x"]
from checkrail.cli import main
main()
"""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "checkrail.yaml has 4 agents, say which: --agent support, billing, graph, job"),
        (
            ("--agent", "suport"),
            "there is no agent 'suport' (did you mean 'support'?) in checkrail",
        ),
        (("--agent", "nobody"), "It has: support, billing, graph, job"),
        (("--agent", "graph"), "the agent 'graph' is of type graph: chat can talk to autonomous"),
        (("--agent", "job"), "the agent 'job' is of type procedural"),
        (("--agent", "support", "-m", " "), "--message is empty"),
    ],
)
def test_misuse_is_told_and_leaves_with_2(args, says, write, invoke):
    write("checkrail.yaml", TWO)
    done = invoke("chat", "checkrail.yaml", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_an_agent_is_chosen_by_its_name(write, invoke):
    write("checkrail.yaml", TWO)
    done = invoke("chat", "checkrail.yaml", "--agent", "billing", "-m", "x")
    assert (done.code, done.out, done.err) == (0, "Hello\n", "")


def test_a_file_without_agents_says_how_to_declare_one(write, invoke):
    write("checkrail.yaml", "hooks: {}\n")
    done = invoke("chat", "checkrail.yaml", "-m", "x")
    assert done.code == 2
    assert "checkrail.yaml has no agents: declare one, as in agents: {support: {mod" in done.err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_broken_file_is_told_as_anywhere(form, write, invoke):
    write("checkrail.yaml", "agents:\n  a:\n    modle: openai/m\n    tools: [json:nope]\n")
    done = invoke("chat", "checkrail.yaml", "-m", "x", *form)
    assert done.code == 1
    if form:
        assert [problem["line"] for problem in done.data["problems"]] == [3, 4]
    else:
        assert "checkrail.yaml:3 agents.a.modle: unknown key 'modle'" in done.err
        assert done.err.endswith("2 problems in checkrail.yaml\n")


@pytest.mark.parametrize(
    ("package", "agent", "says"),
    [
        ("openai", "model: openai/m", 'OpenAIModel needs openai: pip install "checkrail[openai]"'),
        ("anthropic", "model: anthropic/m", 'pip install "checkrail[anthropic]"'),
        ("mcp", "model: {replies: [x]}, mcp: {x: {url: 'http://h'}}", '"checkrail[mcp]"'),
    ],
)
def test_a_missing_extra_is_one_line(package, agent, says, write, tmp_path):
    write("checkrail.yaml", f"agents: {{a: {{{agent}}}}}\n")
    code = WITHOUT.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("checkrail.yaml:1 agents.a: ")
    assert says in line


def test_a_missing_key_is_one_line(write, checkrail, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    write("checkrail.yaml", "agents: {a: {model: openai/gpt-5}}\n")
    done = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert (done.code, done.out) == (4, "")
    (line,) = done.err.splitlines()
    assert line.startswith("failed: there is no API key for openai model 'gpt-5'")
    assert "OPENAI_API_KEY" in line


def test_a_model_that_breaks_otherwise_is_one_line(write, checkrail):
    write(
        "model.py",
        """
        class Broken:
            name, provider, params = "broken", None, {}

            async def complete(self, request): ...

            async def stream(self, request):
                raise RuntimeError("no model today")
                yield

        model = Broken()
        """,
    )
    write("checkrail.yaml", "agents: {a: {model: './model.py:model'}}\n")
    done = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert (done.code, done.out) == (4, "")
    assert done.err == "failed: model 'broken' failed with RuntimeError: no model today\n"


def test_a_source_of_tools_that_breaks_otherwise_is_one_line(write, checkrail):
    write(
        "tools.py",
        """
        class Source:
            async def tools(self):
                raise ZeroDivisionError("no tools today")

            async def aclose(self): ...

        source = Source()
        """,
    )
    text = "agents: {a: {model: {replies: [x]}, tools: ['./tools.py:source']}}\n"
    write("checkrail.yaml", text)
    done = checkrail("chat", "checkrail.yaml", "-m", "x")
    assert (done.code, done.out) == (4, "")
    assert done.err == "failed: ZeroDivisionError: no tools today\n"
