"""The hooks of an agent's blueprint."""

import logging

import pytest

from checkrail import HookRegistry
from checkrail.config import ConfigError, Settings, load_blueprint_hooks
from checkrail.config.hook_objects import Defaults

BLUEPRINT = {
    "name": "data-processor",
    "hooks": {
        "on_run_start": {
            "type": "agent",
            "agent_name": "input-validator",
            "on_error": "block",
            "timeout_seconds": 60,
        },
        "on_run_finish": {"type": "agent", "agent_name": "audit-logger", "on_error": "block"},
    },
}


def test_unnamed_hooks_are_named_after_agent_and_point(caplog):
    with caplog.at_level(logging.WARNING, "checkrail"):
        start, finish = load_blueprint_hooks("data-processor", BLUEPRINT["hooks"])
    assert (start.name, start.timeout) == ("data-processor.on_run_start", 60.0)
    assert (finish.name, finish.timeout) == ("data-processor.on_run_finish", 300.0)
    assert finish.target_name == "audit-logger"
    assert "agent hooks need the run server" in caplog.text
    HookRegistry().swap([start, finish])


def test_several_hooks_of_a_point_and_aliases():
    hooks = {"before_run": [{"block": "a"}, {"block": "b"}], "pre_tool_call": {"block": "c"}}
    assert [spec.name for spec in load_blueprint_hooks("a", hooks)] == [
        *("a.before_run", "a.before_run_2", "a.before_tool_call"),
    ]


def test_a_blueprint_shares_definitions_and_settings(monkeypatch):
    monkeypatch.setenv("DESK", "the desk")
    settings = Settings(defaults=Defaults(timeout=3), env_allow=("DESK",))
    (spec,) = load_blueprint_hooks(
        "a",
        {"before_run": {"$ref": "ask-first"}},
        settings=settings,
        definitions={"ask-first": {"block": "Ask ${DESK}"}},
    )
    assert spec.timeout == 3.0


async def test_paths_start_from_the_base(write, tmp_path):
    write("mine.py", "from checkrail import Block\nfn = lambda event: Block('mine')\n")
    hooks = {"before_run": {"path": "./mine.py:fn"}}
    (spec,) = load_blueprint_hooks("a", hooks, base=tmp_path)
    registry = HookRegistry()
    registry.register(spec)
    assert (await registry.fire("before_run", {})).reason == "mine"


def test_problems_of_a_blueprint_name_the_agent():
    hooks = {"on_run_start": {"type": "agent", "agent_nam": "x"}, "befor_run": {"block": "x"}}
    with pytest.raises(ConfigError) as raised:
        load_blueprint_hooks("data-processor", hooks)
    assert [str(problem) for problem in raised.value.problems] == [
        (
            "agent 'data-processor' hooks.on_run_start.agent_nam: unknown key 'agent_nam' "
            "(did you mean 'agent_name'?)"
        ),
        (
            "agent 'data-processor' hooks.befor_run: unknown point 'befor_run' "
            "(did you mean 'before_run'?)"
        ),
    ]


def test_lines_of_the_document_can_be_given():
    lines = {("hooks",): 7, ("hooks", "before_run"): 8}
    with pytest.raises(ConfigError, match=r"^agents/a\.json:8 hooks\.before_run\.blok: "):
        load_blueprint_hooks(
            "a",
            {"before_run": {"blok": "x"}},
            name="agents/a.json",
            lines=lines,
        )


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "a b", "..", "a\0"])
def test_an_agents_name_is_no_path(name):
    with pytest.raises(ConfigError, match="the agent name"):
        load_blueprint_hooks(name, {"before_run": {"block": "no"}})


@pytest.mark.parametrize("name", ["data-processor", "a.b", "support_2"])
def test_names_of_agents(name):
    (spec,) = load_blueprint_hooks(name, {"before_run": {"block": "no"}})
    assert spec.name == f"{name}.before_run"
