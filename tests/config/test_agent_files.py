"""Agents that have files of their own, in the folder `agents` beside the project's file."""

import json

import pytest

from checkrail.config import ConfigError, Reloader, load, load_blueprint
from checkrail.config.settings import Settings
from checkrail.engine.registry import HookRegistry

PROJECT = """
    env: { allow: [MODEL] }
    defaults: { timeout: 7 }
    definitions:
      audit: { type: agent, agent_name: audit-logger, on_error: continue, timeout_seconds: 30 }
    hooks: {}
    agents:
      audit-logger: { command: [python3, log.py] }
"""

PROCESSOR = {
    "name": "data-processor",
    "type": "autonomous",
    "model": "openai/gpt-5",
    "description": "Processes data with validation and formatting",
    "parameters_schema": {
        "type": "object",
        "required": ["data_source"],
        "properties": {"data_source": {"type": "string"}, "options": {"type": "object"}},
    },
    "output_schema": {"type": "object", "required": ["processed_count", "summary"]},
    "hooks": {
        "on_run_start": {
            "type": "agent",
            "agent_name": "input-validator",
            "on_error": "block",
            "timeout_seconds": 60,
        },
        "on_run_finish": {
            "type": "agent",
            "agent_name": "audit-logger",
            "on_error": "continue",
            "timeout_seconds": 30,
        },
    },
}

VALIDATOR = """
    name: input-validator
    type: procedural
    path: ./validate.py:run
    hooks: null
"""


@pytest.fixture
def project(write):
    """Write a project whose agents are in three files, and give the first of them."""
    write("agents/processor.json", json.dumps(PROCESSOR))
    write("agents/validator.yml", VALIDATOR)
    return write("checkrail.yaml", PROJECT)


def told(path) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(path)
    folder = f"{path.parent}/"
    return [str(problem).replace(folder, "") for problem in raised.value.problems]


def test_they_join_the_agents_of_the_file(project, tmp_path):
    loaded = load(project)
    assert [*loaded.agents] == ["audit-logger", "data-processor", "input-validator"]
    processor, validator = loaded.agents["data-processor"], loaded.agents["input-validator"]
    assert processor.source == f"{tmp_path}/agents/processor.json:1"
    assert processor.parameters_schema == PROCESSOR["parameters_schema"]
    start, finish = processor.hooks
    assert (start.name, start.target_type, start.target_name, start.timeout) == (
        *("data-processor.on_run_start", "agent", "input-validator"),
        60.0,
    )
    assert (finish.target_name, finish.timeout) == ("audit-logger", 30.0)
    assert start.source == f"{tmp_path}/agents/processor.json:1"
    assert (validator.kind, validator.path, validator.hooks) == (
        *("procedural", "./validate.py:run"),
        (),
    )


def test_their_files_belong_to_the_project(project, write):
    before = load(project)
    names = [file.name for file in before.files]
    assert names == ["checkrail.yaml", "processor.json", "validator.yml"]
    assert before.folder == project.parent / "agents"
    write("agents/validator.yml", VALIDATOR + "# changed\n")
    assert load(project).digest != before.digest


def test_their_paths_start_where_those_of_the_project_do(project, write, tmp_path):
    write("hooks.py", "def watch(event): ...\n")
    write(
        "agents/more.yaml",
        """
        name: more
        model: openai/m
        mcp: { files: { command: [serve] } }
        hooks: { before_run: { path: ./hooks.py:watch } }
        """,
    )
    loaded = load(project)
    assert loaded.agents["more"].mcp[0].options["cwd"] == tmp_path
    assert tmp_path / "hooks.py" in loaded.files
    assert loaded.server.import_path == (tmp_path,)


def test_a_project_may_have_its_agents_in_files_alone(write, tmp_path):
    write("agents/a.yaml", "name: a\npath: ./graphs.py:graph\n")
    loaded = load(write("checkrail.yaml", "hooks: {}\n"))
    assert loaded.agents["a"].kind == "graph"
    assert loaded.server.import_path == (tmp_path,)


def test_variables_defaults_and_definitions_of_the_project_hold(project, write, monkeypatch):
    monkeypatch.setenv("MODEL", "gpt-5")
    write(
        "agents/more.yaml",
        """
        name: more
        model: openai/${MODEL}
        definitions: { own: { block: No } }
        hooks:
          on_run_finish: { $ref: audit }
          before_tool_call: { $ref: own }
        """,
    )
    more = load(project).agents["more"]
    assert more.model.name == "gpt-5"
    finish, own = more.hooks
    assert (finish.target_name, finish.timeout) == ("audit-logger", 30.0)
    assert (own.target_type, own.timeout) == ("rule", 7.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1: found nothing, expected an agent: a mapping with its `name`"),
        ("[a]", "1: found a list, expected an agent"),
        ("model: openai/m\n", "1: `name` is missing, expected the name of the agent"),
        ("name: a/b\nmodel: openai/m\n", "1 name: the agent name 'a/b', expected letters"),
        ("name: a\n", "1: `model` is missing, expected a model to ask"),
        ("name: a\ntype: autonomous\n", "1: `model` is missing, expected a model to ask"),
        ("name: a\ntype: procedural\n", "1: a procedural agent that has nothing to do"),
        ("name: a\ntype: graph\n", "1: `path` is missing"),
        ("name: a\ntype: grph\n", "2 type: unknown word 'grph' (did you mean 'graph'?)"),
        ("name: a\nmodel: openai/m\ntols: []\n", "3 tols: unknown key 'tols' (did you mean"),
        (
            "name: a\nmodel: openai/m\nhooks: { before_rn: { block: No } }\n",
            "3 hooks.before_rn: unknown",
        ),
        ("name: a\nmodel: openai/m\nhooks: { before_run: { $ref: x } }\n", "unknown definition"),
        ("name: a\nmodel: openai/m\nparameters_schema: {type: x}\n", "3 parameters_schema: found"),
        ("name: a\nmodel: openai/m\nname: b\n", "3 name: the key 'name' a second time"),
        ("name: audit-logger\ncommand: [x]\n", "1 name: the name 'audit-logger' a second time"),
        ("name: a\nmodel: openai/m\ntools: ['agent:b']\n", "3 tools[0]: unknown agent 'b'"),
        (
            "name: a\ncommand: [x]\nhooks: { on_run_finish: { $ref: lost } }\n",
            "3 hooks.on_run_finish: there is no agent 'nobody'",
        ),
        ("name: a\nmodel: openai/${HOME}\n", "2 model: ${HOME} is not allowed here"),
        ("name: [\n", "while parsing a flow node"),
    ],
)
def test_problems_have_the_file_and_line_where_they_are(write, text, expected):
    write("agents/a.yaml", text)
    lost = "  lost: { type: agent, agent_name: nobody, on_error: block }\n"
    project = PROJECT.replace("      audit:", f"      {lost.strip()}\n      audit:")
    (problem,) = told(write("checkrail.yaml", project))
    assert problem.startswith("agents/a.yaml:")
    assert expected in problem


def test_a_name_that_is_taken_is_told_with_who_has_it(write):
    write("agents/a.yaml", "name: a\ncommand: [x]\n")
    write("agents/b.json", '{"name": "a", "command": ["x"]}')
    (problem,) = told(write("checkrail.yaml", "hooks: {}\n"))
    assert problem.startswith(
        "agents/b.json:1 name: the name 'a' a second time, expected each name"
    )
    assert "agents/a.yaml:1 has it already" in problem


def test_problems_of_all_files_are_told_at_once(write):
    write("agents/a.yaml", "name: a\n\nmodel: gpt\n")
    write("agents/b.yaml", "name: b\nmodel: gpt\n")
    found = told(write("checkrail.yaml", "hooks: { before_rn: { block: No } }\nagents: { c: 5 }\n"))
    places = [problem.partition(" ")[0] for problem in found]
    assert places == ["checkrail.yaml:1", "checkrail.yaml:2", "agents/a.yaml:3", "agents/b.yaml:2"]


def test_circles_over_several_files_are_found(write):
    for name, target in (("a", "b"), ("b", "c"), ("c", "a")):
        hook = f"{{ type: agent, agent_name: {target}, on_error: block }}"
        text = f"name: {name}\ncommand: [x]\nhooks: {{ on_run_finish: {hook} }}\n"
        write(f"agents/{name}.yaml", text)
    (problem,) = told(write("checkrail.yaml", "hooks: {}\n"))
    assert problem.startswith("agents/c.yaml:3 hooks.on_run_finish.agent_name: a circle: a → b → c")


def test_agents_of_one_file_may_be_tools_of_another(write):
    write("agents/a.yaml", "name: a\nmodel: openai/m\ntools: ['agent:b']\n")
    write("agents/b.yaml", "name: b\nmodel: openai/m\n")
    assert load(write("checkrail.yaml", "hooks: {}\n")).agents["a"].tools[0].agent == "b"
    write("agents/b.yaml", "name: b\nmodel: openai/m\ntools: ['agent:a']\n")
    (problem,) = told(write("checkrail.yaml", "hooks: {}\n"))
    assert problem.startswith("agents/b.yaml:3 tools[0]: a circle: a → b → a")


def test_warnings_have_their_file(project, tmp_path):
    found = [str(warning).replace(f"{tmp_path}/", "") for warning in load(project).warnings]
    assert [text.partition(":")[0] for text in found] == ["agents/processor.json"] * 2
    assert all("agent hooks need the run server" in text for text in found)


def test_other_files_of_the_folder_are_left_alone(project, write):
    for name in (".hidden.yaml", "notes.md", "tools.py", "a.yaml~", "deep/b.yaml", "c.toml"):
        write(f"agents/{name}", "name: [\n")
    (project.parent / "agents" / "folder.yaml").mkdir()
    assert len(load(project).agents) == 3


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("checkrail.yaml", "hooks: {}\n", True),
        ("checkrail.json", '{"hooks": {}}', True),
        ("prod.yaml", "server: { port: 80 }\n", True),
        ("prod.yaml", "agents: {}\n", True),
        ("hooks.yaml", "hooks: {}\n", False),
        ("langgraph.json", '{"graphs": {}}', False),
        ("single.yaml", "name: single\nmodel: openai/m\n", False),
    ],
)
def test_the_folder_is_that_of_a_project(write, name, text, read):
    write("agents/a.yaml", "name: a\ncommand: [x]\n")
    loaded = load(write(name, text))
    assert ("a" in loaded.agents) is read
    assert (loaded.folder is not None) is read


def test_a_reload_sees_agents_come_change_and_go(project, write):
    reloader = Reloader(project, HookRegistry())
    assert len(reloader.load().agents) == 3
    write("agents/more.yaml", "name: more\ncommand: [x]\n")
    assert reloader.reload() is True
    assert "more" in reloader.loaded.agents
    write("agents/more.yaml", "name: more\ncommand: []\n")
    assert reloader.reload() is False
    assert "agents/more.yaml:2 command: found an empty list" in str(reloader.last_error)
    assert reloader.loaded.agents["more"].command == ("x",)
    (project.parent / "agents" / "more.yaml").unlink()
    assert reloader.reload() is True
    assert len(reloader.loaded.agents) == 3


def test_a_blueprint_that_is_no_file_is_read_the_same_way(write, tmp_path, caplog):
    write("hooks.py", "def watch(event): ...\n")
    agent = load_blueprint(
        PROCESSOR | {"hooks": {"before_run": {"$ref": "watch"}}},
        base=tmp_path,
        settings=Settings(),
        definitions={"watch": {"path": "./hooks.py:watch"}},
    )
    assert (agent.name, agent.model.name) == ("data-processor", "gpt-5")
    assert [spec.name for spec in agent.hooks] == ["data-processor.before_run"]
    assert agent.source == "agent 'data-processor'"
    with pytest.raises(ConfigError, match=r"agent 'a' tols: unknown key 'tols'"):
        load_blueprint({"name": "a", "model": "openai/m", "tols": []})
    with pytest.raises(ConfigError, match="`name` is missing"):
        load_blueprint({"model": "openai/m"})
    assert load_blueprint({"name": "a", "model": "openai/m", "hooks": None}).hooks == ()


def test_the_definitions_of_a_file_are_kept_as_they_stand(project):
    assert load(project).definitions["audit"]["agent_name"] == "audit-logger"
