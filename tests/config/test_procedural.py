"""Procedural agents, and what agents of all kinds have in common."""

import sys

import pytest

from checkrail.config import load_text, missing_files


def only(text: str):
    """Load a text with one agent, and give that agent."""
    (agent,) = load_text(text).agents.values()
    return agent


def agent(text: str) -> str:
    """Write keys as those of the agent `a`; its first key is on line 3."""
    return "agents:\n  a:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def test_a_function_by_its_path_is_not_imported():
    found = only("agents: {a: {type: procedural, path: './none.py:run'}}")
    assert (found.kind, found.path, found.command) == ("procedural", "./none.py:run", ())
    assert (found.on_crash, found.timeout_seconds, found.enabled) == ("fail", None, True)
    assert (found.model, found.tools, found.hooks, found.demands) == (None, (), (), ())


def test_a_server_is_told_that_the_file_of_a_function_is_not_there(tmp_path):
    text = "agents: {a: {type: procedural, path: './none.py:run'}}"
    (problem,) = missing_files(load_text(text, base=tmp_path))
    assert "none.py" in str(problem)


def test_everything_that_can_be_said_of_a_program(monkeypatch):
    monkeypatch.setenv("REPORT_TOKEN", "very-secret-token")
    loaded = load_text(
        """
        env: { allow: [REPORT_TOKEN] }
        agents:
          report:
            type: procedural
            description: Writes reports.
            command: [python3, report.py, "--key=${REPORT_TOKEN}"]
            parameters_as: arguments
            cwd: ./reports
            env: { TOKEN: "${REPORT_TOKEN}", LEVEL: debug }
            parameters_schema: { type: object, required: [report_id] }
            output_schema: { type: object }
            hooks:
              on_run_start: { set: { language: en } }
            tags: [desk]
            demands: [gpu, eu-west.1, gpu]
            on_crash: restart
            timeout_seconds: 90
            enabled: false
        """
    )
    found = loaded.agents["report"]
    assert found.command == ("python3", "report.py", "--key=very-secret-token")
    assert (found.parameters_as, found.cwd) == ("arguments", "./reports")
    assert found.env == {"TOKEN": "very-secret-token", "LEVEL": "debug"}
    assert found.parameters_schema == {"type": "object", "required": ["report_id"]}
    assert found.output_schema == {"type": "object"}
    assert [spec.name for spec in found.hooks] == ["report.on_run_start"]
    assert (found.tags, found.demands) == (("desk",), ("gpu", "eu-west.1"))
    assert (found.on_crash, found.timeout_seconds, found.enabled) == ("restart", 90, False)
    assert found.description == "Writes reports."
    assert "very-secret-token" not in repr(loaded)


def test_a_command_says_what_kind_of_agent_it_is():
    found = only("agents: {a: {command: [run, it]}}")
    assert (found.kind, found.parameters_as, found.cwd) == ("procedural", "stdin", None)


@pytest.mark.parametrize("kind", ["model: openai/m", "path: './x.py:y'", "command: [x]"])
def test_agents_of_all_kinds_share_these_keys(kind):
    found = only(
        agent(
            f"{kind}\nhooks: null\ntags: [a]\ndemands: [b]\non_crash: restart\n"
            "timeout_seconds: 3\nparameters_schema: {type: object}\noutput_schema: {type: object}\n"
            "description: d\nenabled: false"
        )
    )
    assert (found.hooks, found.tags, found.demands) == ((), ("a",), ("b",))
    assert (found.on_crash, found.timeout_seconds, found.enabled) == ("restart", 3, False)
    assert found.parameters_schema == found.output_schema == {"type": "object"}
    assert found.description == "d"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("type: procedural", 2, "a procedural agent that has nothing to do, expected path: ./file"),
        ("type: procedural\npath: ./x.py", 4, ".path: found the text './x.py', expected ./file"),
        ("type: procedural\npath: 5", 4, ".path: found the number 5, expected a text"),
        ("command: run it", 3, ".command: found the text 'run it', expected a program and its arg"),
        ("command: []", 3, ".command: found an empty list, expected a program"),
        ("command: [run, 5]", 3, ".command[1]: found the number 5, expected a text"),
        (
            "type: procedural\npath: ./x.py:y\ncommand: [x]",
            5,
            ".command: both `path` and `command`, expected one of them",
        ),
        ("type: procedural\npath: ./x.py:y\ncwd: .", 5, ".cwd: `cwd`, which is for a `command`"),
        ("type: procedural\npath: ./x.py:y\nenv: {}", 5, ".env: `env`, which is for a `command`"),
        ("command: [x]\nparameters_as: stdn", 4, "unknown word 'stdn' (did you mean 'stdin'?)"),
        ("command: [x]\nenv: {KEY: 12345}", 4, ".env.KEY: found something else, expected a text"),
        ("command: [x]\nenv: [KEY]", 4, ".env: found a list, expected a mapping"),
        ("command: [x]\ncwd: ''", 4, ".cwd: found an empty text, expected a text"),
        ("command: ['${HOME}']", 3, "${HOME} is not allowed here"),
        ("command: [x]\nmodle: y", 4, ".modle: unknown key 'modle'"),
        ("command: [x]\nmax_iterations: 3", 4, ".max_iterations: unknown key 'max_iterations'"),
        ("type: procedural\nscript: x.sh", 4, ".script: unknown key 'script' (did you mean 'comm"),
        ("command: [x]\nschema: {}", 4, "did you mean 'output_schema'?"),
    ],
)
def test_problems_of_a_procedural_agent(told, text, line, expected):
    (problem,) = told(agent(text))
    assert problem.startswith(f"checkrail.yaml:{line} agents.a")
    assert expected in problem


@pytest.mark.parametrize("kind", ["model: openai/m", "path: './x.py:y'", "command: [x]"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parameters_schema: {type: objct}", "parameters_schema: found {'type': 'objct'}, expec"),
        ("output_schema: {type: objct}", "output_schema: found {'type': 'objct'}, expected a JSON"),
        ("parameters_schema: {$ref: 'http://h/x'}", "is not fetched"),
        ("parameters_schema: [x]", "parameters_schema: found a list, expected a mapping"),
        ("demands: gpu", "demands: found the text 'gpu', expected a list of tags"),
        ("demands: [gpu, 'a b']", "demands[1]: found the text 'a b', expected a tag of letters"),
        ("demands: ['']", "demands[0]: found an empty text, expected a tag"),
        ("demands: [a, b, c, d, e, f, g, h, i]", "demands: a list of 9, expected 8 at most"),
        ("on_crash: retry", "unknown word 'retry', expected one of: resume, fail, restart"),
        ("timeout_seconds: 0", "timeout_seconds: found the number 0, expected seconds"),
        ("enabled: perhaps", "enabled: found the text 'perhaps', expected true or false"),
        ("tags: x", "tags: found the text 'x', expected a list of texts"),
    ],
)
def test_problems_of_what_all_kinds_share(told, kind, text, expected):
    (problem,) = told(agent(f"{kind}\n{text}"))
    assert problem.startswith("checkrail.yaml:4 agents.a")
    assert expected in problem


def test_no_secret_of_a_program_is_told(told, monkeypatch):
    monkeypatch.setenv("TOKEN", "very-secret-token")
    text = "command: ['${TOKEN}']\nenv: {A: '${TOKEN}', B: 5}\ncwd: '${TOKEN}'"
    (problem,) = told("env: {allow: [TOKEN]}\n" + agent(text))
    assert "very-secret-token" not in problem


def test_a_file_may_be_the_blueprint_of_a_procedural_agent(write):
    from checkrail.config import load

    path = write(
        "report.yaml",
        """
        name: report-generator
        type: procedural
        command: [python3, report.py]
        env: { LEVEL: debug }
        timeout_seconds: 20
        hooks:
          on_run_start: { set: { language: en } }
        """,
    )
    loaded = load(path)
    (found,) = loaded.agents.values()
    assert (found.name, found.command) == ("report-generator", ("python3", "report.py"))
    assert (found.env, found.timeout_seconds) == ({"LEVEL": "debug"}, 20)
    assert [spec.name for spec in loaded.specs] == ["report-generator.on_run_start"]


def test_a_blueprint_may_say_that_it_has_no_hooks():
    assert load_text("name: a\nmodel: openai/m\nhooks: null\n").specs == ()


def test_without_its_package_a_schema_says_what_to_install(told, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    (problem,) = told(agent("command: [x]\nparameters_schema: {type: object}"))
    assert "a.parameters_schema: `parameters_schema` needs jsonschema-rs: pip install" in problem
