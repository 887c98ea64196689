"""Variables: by allow-list only, and their values are told to nobody."""

import json

import pytest

from checkrail import HookRegistry
from checkrail.config import ConfigError, load_text
from checkrail.engine.values import ToolCall

SECRET = "s3cr3t-value-of-the-token"


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    monkeypatch.setenv("API_TOKEN", SECRET)
    monkeypatch.setenv("APP_REGION", "north")
    monkeypatch.setenv("OTHER", "other-value")
    monkeypatch.delenv("APP_UNSET", raising=False)


def refused(text) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value)
    return [str(problem) for problem in raised.value.problems]


HEAD = 'env: {allow: [API_TOKEN, "APP_*"]}\n'


def test_allowed_variables_are_expanded_in_every_text_of_a_hook():
    loaded = load_text(
        HEAD
        + """
hooks:
  before_tool_call:
    - name: a
      tools: ["${APP_REGION}_*"]
      block: "Not in ${APP_REGION}, and $${APP_REGION} stays"
      config:
        headers: {authorization: "Bearer ${API_TOKEN}"}
        list: [1, "${API_TOKEN}", plain]
""",
    )
    (spec,) = loaded.specs
    assert spec.config == {
        "headers": {"authorization": f"Bearer {SECRET}"},
        "list": [1, SECRET, "plain"],
    }
    assert json.loads(json.dumps(spec.config)) == spec.config
    assert spec.match["tools"] == ("north_*",)
    assert loaded.settings.env_allow == ("API_TOKEN", "APP_*")


async def test_a_reason_is_expanded_and_the_escape_is_not():
    loaded = load_text(
        HEAD + 'hooks: {before_run: {block: "Not in ${APP_REGION}, $${APP_REGION} stays"}}',
    )
    registry = HookRegistry()
    registry.swap(loaded.specs)
    verdict = await registry.fire("before_run", {})
    assert verdict.reason == "Not in north, ${APP_REGION} stays"


async def test_a_use_that_is_not_closed_is_text_and_escapes_behind_it_are_read():
    loaded = load_text(HEAD + "hooks: {before_run: {block: '${APP_REGION} ${API $${APP_ $$${'}}")
    registry = HookRegistry()
    registry.swap(loaded.specs)
    verdict = await registry.fire("before_run", {})
    assert verdict.reason == "north ${API ${APP_ $${"


def test_values_are_not_in_any_repr():
    loaded = load_text(
        HEAD
        + """
hooks:
  before_tool_call:
    - {name: a, command: ["audit", "${API_TOKEN}"], env: {T: "${API_TOKEN}"}}
    - {name: b, builtin: tool_policy, tools: "${API_TOKEN}", config: {deny: ["${API_TOKEN}"]}}
    - {name: c, block: "${API_TOKEN}", config: {deep: [{x: "Bearer ${API_TOKEN}"}]}}
""",
    )
    shown = repr(loaded) + "".join(map(repr, loaded.specs)) + str(loaded.specs)
    assert SECRET not in shown
    assert "Bearer ${API_TOKEN}" in shown


async def test_a_command_gets_the_value(write, tmp_path):
    write("echo.sh", 'printf "%s" "$TOKEN" > "$1"\n')
    loaded = load_text(
        HEAD
        + """
hooks:
  before_tool_call:
    command: [sh, ./echo.sh, ./out.txt]
    env: {TOKEN: "${API_TOKEN}"}
""",
        base=tmp_path,
    )
    registry = HookRegistry()
    registry.swap(loaded.specs)
    await registry.fire("before_tool_call", ToolCall(id="1", name="x", args={}))
    assert (tmp_path / "out.txt").read_text() == SECRET


def test_what_is_not_allowed_says_how_to_allow_it():
    assert refused(
        HEAD
        + """
hooks:
  before_run:
    - name: a
      block: "${OTHER}"
    - name: b
      block: "${APP_UNSET}"
    - name: c
      block: "${no name}"
    - name: d
      when: "'${API_TOKEN}' == ''"
      block: x
    - name: e
      config: {x: {y: ["${OTHER}"]}}
      block: x
""",
    ) == [
        (
            "<text>:6 hooks.before_run[0].block: ${OTHER} is not allowed here, "
            "expected a variable of env.allow "
            "(add OTHER to env.allow, or write $${OTHER} for the text itself)"
        ),
        (
            "<text>:8 hooks.before_run[1].block: ${APP_UNSET} is not set in the environment, "
            "expected a variable that is set"
        ),
        (
            "<text>:10 hooks.before_run[2].block: ${no name}, which names no variable, "
            "expected ${NAME} ($${no name} stands for the text ${no name})"
        ),
        "<text>:12 hooks.before_run[3].when: a variable in `when`, expected the thing itself",
        (
            "<text>:15 hooks.before_run[4].config.x.y[0]: ${OTHER} is not allowed here, "
            "expected a variable of env.allow "
            "(add OTHER to env.allow, or write $${OTHER} for the text itself)"
        ),
    ]


def test_without_a_list_nothing_is_allowed():
    (problem,) = refused("hooks: {path: './${API_TOKEN}.py:hooks'}")
    assert "hooks.path: ${API_TOKEN} is not allowed here" in problem


@pytest.mark.parametrize(
    "keys",
    [
        'path: "./${API_TOKEN}.py:fn"',
        'path: "${API_TOKEN}"',
        'command: ["${API_TOKEN}", 5]',
        'block: x\n      status: "${API_TOKEN}"',
        'block: x\n      tools: "/${API_TOKEN}[/"',
        'builtin: tool_policy\n      config: {deny: "${API_TOKEN}"}',
        'builtin: tool_policy\n      config: {deny: [x], status: "${API_TOKEN}"}',
        'type: http\n      url: "${API_TOKEN}"',
        'set: {"no such path": "${API_TOKEN}"}',
        'replace: {nonsense: "${API_TOKEN}"}',
    ],
)
def test_values_are_in_no_problem(keys):
    problems = refused(f"{HEAD}hooks:\n  before_tool_call:\n    - name: a\n      {keys}\n")
    assert problems
    assert SECRET[:12] not in "".join(problems)


def test_values_are_in_no_warning():
    loaded = load_text(
        f'{HEAD}hooks: {{before_run: {{optional: true, path: "./${{API_TOKEN}}.py:fn"}}}}',
    )
    assert loaded.specs == ()
    (warning,) = loaded.warnings
    assert SECRET not in str(warning)
    assert "${API_TOKEN}" in str(warning)


def test_a_path_that_is_named_by_a_variable_is_shown_as_written(write, tmp_path, monkeypatch):
    monkeypatch.setenv("APP_HOOKS", str(tmp_path))
    write("mine.py", "def fn(event):\n    pass\n")
    loaded = load_text(f'{HEAD}hooks: {{before_run: {{path: "${{APP_HOOKS}}/mine.py:fn"}}}}')
    assert loaded.specs[0].target_name == "${APP_HOOKS}/mine.py:fn"
