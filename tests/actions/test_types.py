import pytest
from pydantic import ValidationError

from checkrail import actions
from checkrail.actions import ACTION_TYPES, ActionError
from checkrail.engine.outcomes import Ask, Block
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall

POINTS = ("before_tool_call",)


def refused(kind, fields, points=POINTS) -> str:
    with pytest.raises(ActionError) as caught:
        ACTION_TYPES[kind].build(fields, points)
    return str(caught.value)


def test_the_types():
    assert list(ACTION_TYPES) == ["python", "rule", "command", "http", "agent", "approval"]
    assert [name for name, kind in ACTION_TYPES.items() if kind.served] == ["agent"]
    assert all(name == kind.name for name, kind in ACTION_TYPES.items())


def test_the_public_names():
    assert all(hasattr(actions, name) for name in actions.__all__)
    assert not hasattr(actions, "nothing")


@pytest.mark.parametrize("name", list(ACTION_TYPES))
def test_unknown_keys_are_refused(name):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ACTION_TYPES[name].fields.model_validate({"nothing_of_this_name": 1})


@pytest.mark.parametrize(
    "fields",
    [{"path": "./hooks.py:limit"}, {"module": "./hooks.py", "function": "limit"}],
)
def test_a_python_action(fields, tmp_path):
    (tmp_path / "hooks.py").write_text("def limit(event): return 'limited'")
    hook, decisions = ACTION_TYPES["python"].build(fields, POINTS, tmp_path)
    assert hook(None) == "limited"
    assert decisions is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "either path, or module and function"),
        ({"module": "os"}, "either path, or module and function"),
        ({"function": "os"}, "either path, or module and function"),
        ({"path": "os:getcwd", "module": "os", "function": "getcwd"}, "either path, or module"),
        ({"path": "os:sep"}, "'os:sep' is str, which cannot be called"),
        ({"path": "os:nothing"}, "os has no 'nothing'"),
        ({"path": 5}, "the python action is wrong at $.path: found 5, expected a text"),
        ({"pth": "x"}, "at $.pth: found a key that is not known here (did you mean 'path'?)"),
    ],
)
def test_a_python_action_that_cannot_be(fields, told):
    assert told in refused("python", fields)


async def test_a_rule_action(event_at):
    hook, decisions = ACTION_TYPES["rule"].build({"block": "no", "status": 418}, POINTS)
    assert hook(await event_at("before_tool_call")) == Block("no", 418)
    assert decisions == {Decision.BLOCK}
    fields = {"redact": {"patterns": ["b[o]b"], "with": "#", "fields": ["args.to"]}}
    hook, _ = ACTION_TYPES["rule"].build(fields, POINTS)
    assert hook(await event_at("before_tool_call")).value.args["to"] == "#"
    assert "does nothing" in refused("rule", {})


async def test_a_command_action(event_at, tmp_path):
    (tmp_path / "inner").mkdir()
    fields = {"command": ["sh", "-c", "pwd >&2; echo $A >&2; exit 2"], "env": {"A": "b"}}
    event = await event_at("before_tool_call")
    hook, decisions = ACTION_TYPES["command"].build(fields, POINTS, tmp_path)
    assert await hook(event) == Block(f"{tmp_path}\nb")
    assert decisions is None
    hook, _ = ACTION_TYPES["command"].build({**fields, "cwd": "inner"}, POINTS, tmp_path)
    assert await hook(event) == Block(f"{tmp_path}/inner\nb")
    assert "at $.command: found 'ls', expected a list" in refused("command", {"command": "ls"})


async def test_an_approval_asks_a_person():
    fields = {"question": "Pay?", "timeout": 60, "on_deny": "fail", "on_timeout": "continue"}
    hook, decisions = ACTION_TYPES["approval"].build(fields, POINTS)
    assert decisions == {Decision.ASK}
    assert hook(None) == Ask("Pay?", 60, "fail", "continue")
    registry = HookRegistry()
    registry.register(hook, *POINTS, name="approve", decisions=decisions)
    verdict = await registry.fire("before_tool_call", ToolCall())
    assert (verdict.decision, verdict.code) == (Decision.BLOCK, "ask_unanswered")
    for wrong in (
        {},
        {"question": ""},
        {"question": "x", "timeout": 0},
        {"question": "x", "on_deny": "allow"},
    ):
        refused("approval", wrong)


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("http", {}, "at $.url: found nothing"),
        ("http", {"url": "ftp://example.org"}, "at $.url: found 'ftp://example.org'"),
        ("http", {"url": "https://example.org", "method": "GET"}, "at $.method: found 'GET'"),
        ("http", {"url": "https://example.org", "headers": {"X": 5}}, "at $.headers.X: found 5"),
        ("agent", {"agent_name": "validator"}, "at $.on_error: found nothing"),
        ("agent", {"on_error": "block"}, "at $.agent_name: found nothing"),
        ("agent", {"agent_name": "../x", "on_error": "block"}, "at $.agent_name: found '../x'"),
        ("agent", {"agent_name": "a", "on_error": "maybe"}, "at $.on_error: found 'maybe'"),
        ("agent", {"agent_name": "a", "on_error": {"erorr": "block"}}, "at $.on_error.erorr"),
        (
            "agent",
            {"agent_name": "a", "on_error": "block", "timeout_seconds": 0},
            "at $.timeout_seconds: found 0",
        ),
    ],
)
def test_the_fields_of_http_and_agent(name, fields, told):
    assert told in refused(name, fields)


def test_an_agent_has_five_minutes_unless_said():
    fields = {"agent_name": "a", "on_error": "continue"}
    assert ACTION_TYPES["agent"].fields.model_validate(fields).timeout_seconds == 300
