"""What hooks of a file can say, and what comes of it."""

import dataclasses
import sys

import pytest

from checkrail import HookRegistry
from checkrail.builtin import BUILTINS
from checkrail.config import ConfigError, load, load_text
from checkrail.engine.points import Lane
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall
from checkrail.regex import compile_pattern


def specs(text, **options):
    return {spec.name: spec for spec in load_text(text, **options).specs}


def registry_of(loaded) -> HookRegistry:
    registry = HookRegistry()
    registry.swap(loaded.specs)
    return registry


def test_unnamed_hooks_are_named_after_their_point():
    found = specs("""
        hooks:
          pre_request:
            - block: a
            - block: b
          before_llm_call: {block: c}
          on_run_finish: {command: [x]}
          before_run:
            - {block: d, name: before_run_2}
            - block: e
            - block: f
    """)
    assert [*found] == [
        *("before_llm_call", "before_llm_call_2", "before_llm_call_3", "on_run_finish"),
        *("before_run_2", "before_run", "before_run_3"),
    ]


def test_every_option_reaches_the_engine():
    (spec,) = specs("""
        hooks:
          before_tool_call:
            - name: all
              block: x
              mode: shadow
              lane: gate
              priority: 7
              tools: [a*, /b$/]
              agents: helper
              models: gpt-*
              users: u
              channels: [c]
              tags: t
              timeout_seconds: 2
              on_error: {timeout: block, error: ignore}
              max_retries: 1
              optional: true
              thread: true
              stream: whole
              config: {x: 1}
    """).values()
    assert (spec.mode, spec.lane, spec.priority, spec.timeout) == ("shadow", Lane.GATE, 7, 2.0)
    assert spec.match == {
        "tools": ("a*", compile_pattern("b$")),
        "agents": ("helper",),
        "models": ("gpt-*",),
        "users": ("u",),
        "channels": ("c",),
        "tags": ("t",),
    }
    assert spec.on_error == {"timeout": "block", "error": "continue"}
    assert (spec.max_retries, spec.optional, spec.thread, spec.stream) == (1, True, True, "whole")
    assert spec.config == {"x": 1}


def test_async_means_an_observer_in_the_background():
    (spec,) = specs("hooks: {before_run: {command: [x], mode: async}}").values()
    assert (spec.background, spec.lane, spec.mode) == (True, Lane.OBSERVE, "enforce")


@pytest.mark.parametrize("off", ["enabled: false", "mode: off"])
def test_a_hook_that_is_off_is_checked_but_not_imported(write, off):
    write("explosive.py", "raise RuntimeError('imported')\n")
    loaded = load(
        write(
            "checkrail.yaml",
            f"""
            hooks:
              before_run:
                - {{name: a, path: "./explosive.py:fn", {off}}}
                - {{name: b, module: no_such_module_here, function: fn, {off}}}
                - {{name: c, block: x, {off}}}
                - {{name: d, type: agent, agent_name: x, on_error: block, {off}}}
            """,
        ),
    )
    assert {spec.mode for spec in loaded.specs} == {"off"}
    assert loaded.specs[0].target_name == "./explosive.py:fn"
    assert not registry_of(loaded).has("before_run")
    assert loaded.warnings == ()
    with pytest.raises(ConfigError, match="unknown word 'x'"):
        load_text(f"hooks: {{before_run: {{path: 'a:b', lane: x, {off}}}}}")


def test_an_optional_hook_that_cannot_be_loaded_is_left_out_and_told(write):
    path = write(
        "checkrail.yaml",
        """
        hooks:
          before_run:
            - name: gone
              optional: true
              path: ./gone.py:fn
            - name: stays
              block: x
            - name: builtin
              optional: true
              builtin: none_such
        """,
    )
    loaded = load(path)
    assert [spec.name for spec in loaded.specs] == ["stays"]
    first, second = loaded.warnings
    assert (first.line, first.path) == (5, "hooks.before_run[0].path")
    assert "left out, for it is optional: there is no file" in str(first)
    assert (second.line, second.path) == (10, "hooks.before_run[2].builtin")
    assert path.parent / "gone.py" in loaded.files


def test_optional_forgives_no_mistake():
    with pytest.raises(ConfigError, match="unknown key 'blok'"):
        load_text("hooks: {before_run: {optional: true, blok: x}}")


def test_defaults_hold_for_what_is_not_said():
    found = specs("""
        defaults: {timeout: 2, on_error: block}
        hooks:
          before_run:
            - {name: a, block: x}
            - {name: b, block: x, timeout: 9, on_error: continue}
          on_run_start:
            - {name: c, type: agent, agent_name: x}
          after_run:
            - {name: d, command: [x]}
          before_tool_call:
            - {name: e, command: [x], lane: observe}
            - {name: f, command: [x], mode: async}
    """)
    assert {name: (spec.timeout, spec.on_error_text) for name, spec in found.items()} == {
        "a": (2.0, "block"),
        "b": (9.0, "continue"),
        "c": (2.0, "block"),
        "d": (2.0, "default"),
        "e": (2.0, "default"),
        "f": (2.0, "default"),
    }


def test_defaults_by_kind_of_failure():
    (spec,) = specs("""
        defaults:
          on_error: {timeout: ignore, unreachable: block}
        hooks: {before_run: {block: x}}
    """).values()
    assert spec.on_error == {"timeout": "continue", "unreachable": "block"}


def test_defaults_hold_for_objects_too(write):
    write(
        "objects.py",
        """
        from checkrail.hooks import RunHooks
        from checkrail.styles.decorators import Hooks

        runs, hooks = RunHooks(), Hooks()

        @runs.before_run
        async def first(ctx):
            pass

        @hooks.before_tool_call(on_error="continue")
        def second(event):
            pass

        @hooks.before_tool_call
        def third(event):
            pass

        both = [runs, hooks]
        """,
    )
    loaded = load(
        write(
            "checkrail.toml",
            """
            [defaults]
            timeout = 4
            on_error = "block"
            [hooks]
            path = "./objects.py:both"
            """,
        ),
    )
    assert [(spec.name, spec.timeout, spec.on_error_text) for spec in loaded.specs] == [
        ("first", 4.0, "block"),
        ("second", 4.0, "continue"),
        ("third", 4.0, "block"),
    ]


def test_a_reference_brings_the_keys_of_a_definition():
    found = specs("""
        definitions:
          base: {timeout: 3, tools: [a]}
          limit: {$ref: base, block: Too much, timeout_seconds: 4}
        hooks:
          before_tool_call:
            - $ref: limit
            - {$ref: limit, name: own, block: Other, timeout: 5}
            - {$ref: base, name: mine, command: [x]}
    """)
    assert {name: (spec.timeout, spec.target_type) for name, spec in found.items()} == {
        "before_tool_call": (4.0, "rule"),
        "own": (5.0, "rule"),
        "mine": (3.0, "command"),
    }
    assert {spec.match["tools"] for spec in found.values()} == {("a",)}


def test_problems_of_definitions_have_their_lines(told):
    found = told("""
        definitions:
          one: {$ref: two, timout: 1}
          two: {$ref: one, block: x}
          three:
            name: x
            block: [1]
          four: text
        hooks:
          before_run:
            - $ref: thre
            - {$ref: three, name: a}
            - {$ref: one, name: b}
    """)
    assert [line.partition(", expected")[0] for line in found] == [
        "checkrail.yaml:2 definitions.one.timout: unknown key 'timout' (did you mean 'timeout'?)",
        "checkrail.yaml:2 definitions.one.$ref: a circle: two → one → two",
        "checkrail.yaml:3 definitions.two.$ref: a circle: one → two → one",
        "checkrail.yaml:5 definitions.three.name: a name inside a definition",
        "checkrail.yaml:6 definitions.three.block: found a list",
        "checkrail.yaml:7 definitions.four: found the text 'text'",
        (
            "checkrail.yaml:10 hooks.before_run[0].$ref: unknown definition 'thre' "
            "(did you mean 'three'?)"
        ),
    ]


def test_a_definition_that_nobody_uses_is_checked_and_needs_not_be_whole(told):
    assert load_text("definitions: {base: {timeout: 3}, half: {module: x}}").specs == ()
    assert len(told("definitions: {base: {block: x, status: 999}}")) == 1


async def test_built_in_hooks_by_name_and_by_module(caplog):
    loaded = load_text("""
        hooks:
          before_llm_call:
            - name: log
              builtin: log_request
              config: {verbose: true}
          before_tool_call:
            - name: policy
              module: checkrail.builtin
              function: tool_policy
              config: {deny: [rm]}
    """)
    log, policy = loaded.specs
    assert (log.lane, log.target_name) == (Lane.OBSERVE, "log_request")
    assert (policy.lane, policy.target_name) == (Lane.GATE, "tool_policy")
    registry = registry_of(loaded)
    with caplog.at_level("INFO", "checkrail"):
        said = [{"role": "user", "content": "hello"}]
        await registry.fire("before_llm_call", ModelRequest(model="m", messages=said))
    assert "hello" in caplog.text
    verdict = await registry.fire("before_tool_call", ToolCall(id="1", name="rm", args={}))
    assert verdict.decision == "block"


def test_a_built_in_hook_in_the_background():
    (spec,) = specs("hooks: {pre_request: {builtin: log_request, mode: async}}").values()
    assert (spec.background, spec.lane) == (True, Lane.OBSERVE)


async def test_functions_classes_and_objects(write):
    write(
        "mine.py",
        """
        from checkrail import Block, Hook

        def fn(event, value):
            if event.config["no"] in str(value):
                return Block("no")

        class Audit(Hook):
            timeout = 9
            seen = []

            async def execute(self, event):
                self.seen.append(event.point)

        audit = Audit()
        """,
    )
    loaded = load(
        write(
            "checkrail.yaml",
            """
            defaults: {timeout: 2}
            hooks:
              before_run:
                - {name: fn, path: "./mine.py:fn", config: {no: secret}}
                - {name: audit, path: "./mine.py:audit", lane: observe}
              after_llm_call:
                - {name: method, path: "./mine.py:audit.execute"}
            """,
        ),
    )
    assert [(spec.name, spec.timeout) for spec in loaded.specs] == [
        ("fn", 2.0),
        ("audit", 9.0),
        ("method", 2.0),
    ]
    registry = registry_of(loaded)
    assert (await registry.fire("before_run", {"a": "secret"})).decision == "block"
    assert (await registry.fire("before_run", {"a": "b"})).decision == "continue"
    await registry.fire("after_llm_call", AssistantMessage(content="x"))
    (module,) = [sys.modules[name] for name in loaded.modules]
    assert module.Audit.seen == ["before_run", "before_run", "after_llm_call"]


def test_modules_are_found_on_python_path_and_beside_files(write):
    write("lib/my_lib_hooks.py", "from my_lib_helper import fn\n")
    write("lib/my_lib_helper.py", "def fn(event):\n    pass\n")
    write("mine.py", "from mine_helper import fn\n")
    write("mine_helper.py", "def fn(event):\n    pass\n")
    loaded = load(
        write(
            "checkrail.yaml",
            """
            python_path: lib
            hooks:
              before_run:
                - {name: a, module: my_lib_hooks, function: fn}
                - {name: b, path: "./mine.py:fn"}
            """,
        ),
    )
    assert [path.name for path in loaded.files] == [
        *("checkrail.yaml", "my_lib_helper.py", "my_lib_hooks.py", "mine.py", "mine_helper.py"),
    ]


def test_a_file_that_fails_leaves_the_search_path_as_it_was(write):
    before = [*sys.path]
    with pytest.raises(ConfigError) as raised:
        load(write("checkrail.yaml", "python_path: [.]\nhooks: {before_run: {block: 5}}\n"))
    assert sys.path == before
    assert [path.name for path in raised.value.files] == ["checkrail.yaml"]


def test_settings_are_read():
    loaded = load_text("history: digest\nmax_retries: 4\ndefaults: {timeout: 1}\n")
    assert (loaded.settings.history, loaded.settings.max_retries) == ("digest", 4)
    assert loaded.settings.defaults.timeout == 1
    assert load_text("hooks: {}").settings.history is None


def test_the_digest_changes_with_the_file_and_with_its_python_files(write):
    text = "hooks: {before_run: {path: './mine.py:fn'}}\n"
    config = write("checkrail.yaml", text)
    write("mine.py", "def fn(event):\n    pass\n")
    first = load(config).digest
    assert load(config).digest == first
    write("mine.py", "def fn(event):\n    return None\n")
    second = load(config).digest
    write("checkrail.yaml", f"# changed\n{text}")
    assert len({first, second, load(config).digest}) == 3


def test_the_engine_judges_names_of_one_level():
    with pytest.raises(ConfigError, match="the name 'a' a second time"):
        load_text("hooks: {before_run: {name: a, block: x}, on_run_start: {name: a, block: x}}")


def test_a_hook_that_cannot_be_made_hides_no_other(monkeypatch, told):
    def broken(_options):
        raise OSError("disk full")

    monkeypatch.setitem(
        BUILTINS,
        "log_request",
        dataclasses.replace(BUILTINS["log_request"], build=broken),
    )
    found = told("""
        hooks:
          pre_request:
            - {name: a, builtin: log_request}
            - {name: b, blok: x}
    """)
    assert found[0].startswith(
        "checkrail.yaml:3 hooks.pre_request[0]: the hook cannot be made: OSError: disk full",
    )
    assert len(found) == 2


def test_a_default_leaves_alone_what_a_hook_says_even_if_that_is_what_it_would_be_anyway():
    loaded = load_text("""
defaults: {timeout: 60}
hooks:
  before_run:
    - {name: a, timeout: 5, block: no}
    - {name: b, block: no}
""")
    assert [(spec.name, spec.timeout) for spec in loaded.specs] == [("a", 5), ("b", 60)]


async def test_a_schema_is_checked_on_what_a_change_has_made_of_the_parameters():
    loaded = load_text("""
hooks:
  before_run:
    - {name: breaks, set: {amount: plenty}}
    - name: checks
      builtin: schema_check
      config: {schema: {properties: {amount: {type: integer}}}}
""")
    registry = HookRegistry()
    registry.swap(loaded.specs)
    verdict = await registry.fire("before_run", {"amount": 5})
    assert (verdict.decision, verdict.hook, verdict.status) == ("block", "checks", 422)
