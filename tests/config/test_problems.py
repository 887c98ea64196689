"""Everything that can be wrong in a file, with its line."""

import time

import pytest

from checkrail.config import ConfigError, load_text
from checkrail.config.problems import Problem, Report, format_path

TEN_YAML = """
    histroy: full                              # 1: mistyped
    max_retries: -1                            # 2: too few
    defaults:
      timeout: 5s                              # 3: a text
    hooks:
      before_tool_cal: []                      # 4: no such point
      before_tool_call:
        - name: limit
          timout: 3                            # 5: mistyped
          block: Too much
        - name: audit
          path: ./missing.py:audit             # 6: no such file
        - name: limit                          # 7: twice
          when: tool_call.args.amount >        # 8: no expression
          block: Too much
        - name: tidy
          command: tidy --all                  # 9: no list
      after_run:
        - name: last
          on_error: block                      # 10: too late for that
          command: [tidy]
"""

TEN_JSON = """
    {
      "histroy": "full",
      "max_retries": -1,
      "defaults": {"timeout": "5s"},
      "hooks": {
        "before_tool_cal": [],
        "before_tool_call": [
          {"name": "limit",
           "timout": 3,
           "block": "Too much"},
          {"name": "audit",
           "path": "./missing.py:audit"},
          {"name": "limit",
           "when": "tool_call.args.amount >",
           "block": "Too much"},
          {"name": "tidy",
           "command": "tidy --all"}
        ],
        "after_run": {
          "name": "last",
          "on_error": "block",
          "command": ["tidy"]
        }
      }
    }
"""

TEN_TOML = """
    histroy = "full"
    max_retries = -1
    defaults.timeout = "5s"

    [hooks]
    before_tool_cal = []

    [[hooks.before_tool_call]]
    name = "limit"
    timout = 3
    block = "Too much"

    [[hooks.before_tool_call]]
    name = "audit"
    path = "./missing.py:audit"

    [[hooks.before_tool_call]]
    name = "limit"
    when = "tool_call.args.amount >"
    block = "Too much"

    [[hooks.before_tool_call]]
    name = "tidy"
    command = "tidy --all"

    [hooks.after_run]
    name = "last"
    on_error = "block"
    command = ["tidy"]
"""

TEN = [
    ("histroy", "unknown key 'histroy' (did you mean 'history'?)"),
    ("max_retries", "found the number -1, expected a whole number, 0 or more"),
    ("defaults.timeout", "found the text '5s', expected seconds, a number more than 0"),
    (
        "hooks.before_tool_cal",
        "unknown point 'before_tool_cal' (did you mean 'before_tool_call'?)",
    ),
    ("hooks.before_tool_call[0].timout", "unknown key 'timout' (did you mean 'timeout'?)"),
    ("hooks.before_tool_call[1].path", "there is no file "),
    (
        "hooks.before_tool_call[2].name",
        "the name 'limit' a second time, expected each name once (it is on line ",
    ),
    ("hooks.before_tool_call[2].when", "the expression 'tool_call.args.amount >' is wrong"),
    ("hooks.before_tool_call[3].command", "found the text 'tidy --all', expected a list"),
    ("hooks.after_run{0}.on_error", "on_error: block cannot be honoured by observe at after_run"),
]


@pytest.mark.parametrize(
    ("name", "text", "lines", "index"),
    [
        ("ten.yaml", TEN_YAML, [1, 2, 4, 6, 9, 12, 13, 14, 17, 20], "[0]"),
        ("ten.json", TEN_JSON, [2, 3, 4, 6, 9, 12, 13, 14, 17, 21], ""),
        ("ten.toml", TEN_TOML, [1, 2, 3, 6, 10, 15, 18, 19, 24, 28], ""),
    ],
)
def test_ten_mistakes_are_told_at_once(problems, name, text, lines, index):
    found = problems(text, name)
    assert [problem.line for problem in found] == lines
    for problem, line, (path, told) in zip(found, lines, TEN, strict=True):
        place = f"{name}:{line} {path.replace('{0}', index)}: "
        assert f"/{place}{told}" in str(problem)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- hooks\n", ["checkrail.yaml:1: found a list, expected a mapping"]),
        (
            "hooks: ./hooks.py:hooks\n",
            [
                (
                    "checkrail.yaml:1 hooks: found the text './hooks.py:hooks', "
                    "expected a mapping: `path`, or points and their hooks "
                    "(write hooks: {path: ./hooks.py:hooks})"
                ),
            ],
        ),
        (
            "hooks:\n  before_run: 5\n",
            [
                (
                    "checkrail.yaml:2 hooks.before_run: found the number 5, "
                    "expected a hook, or a list of hooks (a hook is a mapping, such as "
                ),
            ],
        ),
        (
            "hooks:\n  before_run: ./hooks.py:check\n",
            [
                (
                    "checkrail.yaml:2 hooks.before_run: found the text './hooks.py:check', "
                    "expected a hook, or a list of hooks (write {path: ./hooks.py:check})"
                ),
            ],
        ),
        (
            "hooks:\n  before_run: [my.hooks:check]\n",
            [
                (
                    "checkrail.yaml:2 hooks.before_run[0]: found the text 'my.hooks:check', "
                    "expected a mapping (write {path: my.hooks:check})"
                ),
            ],
        ),
        (
            "before_tool_call:\n  block: x\n",
            [
                (
                    "checkrail.yaml:1 before_tool_call: "
                    "the key 'before_tool_call' at the top of the file "
                    "(points go under `hooks`, as in hooks: {before_tool_call: …})"
                ),
            ],
        ),
        (
            "timeout: 5\non_error: block\nhistory: off\n",
            [
                (
                    "checkrail.yaml:1 timeout: the key 'timeout' at the top of the file "
                    "(it goes under `defaults`, as in defaults: {timeout: …})"
                ),
                (
                    "checkrail.yaml:2 on_error: the key 'on_error' at the top of the file "
                    "(it goes under `defaults`, as in defaults: {on_error: …})"
                ),
            ],
        ),
        (
            "on_error:\n  - path: ./hooks.py:tell\n",
            [
                (
                    "checkrail.yaml:1 on_error: the key 'on_error' at the top of the file "
                    "(points go under `hooks`, as in hooks: {on_error: …})"
                ),
            ],
        ),
        (
            "hooks:\n  before_run:\n    - x\n    - []\n",
            [
                "checkrail.yaml:3 hooks.before_run[0]: found the text 'x', expected a mapping",
                "checkrail.yaml:4 hooks.before_run[1]: found an empty list, expected a mapping",
            ],
        ),
        (
            "hooks:\n  timeout: 5\n",
            [
                (
                    "checkrail.yaml:2 hooks.timeout: `timeout` without `path`, "
                    "expected a `path` that it is for (defaults.timeout is for all hooks)"
                ),
            ],
        ),
        (
            "hooks:\n  path: ''\n  timeout: -1\n",
            [
                "checkrail.yaml:2 hooks.path: found an empty text, expected a text",
                (
                    "checkrail.yaml:3 hooks.timeout: found the number -1, "
                    "expected seconds, a number more than 0"
                ),
            ],
        ),
        (
            "defaults: {timeout: 1, timeout_seconds: 2}\n",
            [
                (
                    "checkrail.yaml:1 defaults.timeout_seconds: "
                    "both `timeout` and `timeout_seconds`, "
                    "expected one of them (they are two names of one thing)"
                ),
            ],
        ),
        (
            "env:\n  alow: [X]\n",
            ["checkrail.yaml:2 env.alow: unknown key 'alow' (did you mean 'allow'?)"],
        ),
        (
            "python_path: [1]\n",
            ["checkrail.yaml:1 python_path[0]: found the number 1, expected a text"],
        ),
        (
            "python_path: 5\n",
            ["checkrail.yaml:1 python_path: found the number 5, expected a list of folders"],
        ),
        (
            "python_path: '${NO_SUCH_VARIABLE}/x'\n",
            [
                (
                    "checkrail.yaml:1 python_path: "
                    "${NO_SUCH_VARIABLE} is not set in the environment, "
                    "expected a variable that is set"
                ),
            ],
        ),
        (
            "python_path: [~nobody_at_all/x]\n",
            [
                (
                    "checkrail.yaml:1 python_path[0]: the text '~nobody_at_all/x', "
                    "which names no folder: Could not determine home directory"
                ),
            ],
        ),
        (
            'python_path: "a\\0b"\n',
            [
                ("checkrail.yaml:1 python_path: the text 'a\\x00b', which names no folder: "),
            ],
        ),
        (
            'hooks: {path: "./a\\0.py:b"}\n',
            [
                ("checkrail.yaml:1 hooks.path: './a\\x00.py:b', which names no file: "),
            ],
        ),
        (
            "nonsense: 1\nserevr: 1\n",
            [
                (
                    "checkrail.yaml:1 nonsense: unknown key 'nonsense', expected one of: hooks, "
                    "definitions, python_path, defaults, env, history, max_retries"
                ),
                "checkrail.yaml:2 serevr: unknown key 'serevr' (did you mean 'server'?)",
            ],
        ),
    ],
)
def test_problems_around_hooks(told, text, expected):
    found = told(text)
    assert len(found) == len(expected)
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start)


def in_hook(keys: str, point: str = "before_tool_call") -> str:
    lines = "".join(f"    {line}\n" for line in keys.splitlines())
    return f"hooks:\n  {point}:\n{lines}"


@pytest.mark.parametrize(
    ("keys", "line", "expected"),
    [
        ("block: x\nenabled: 'yes'", 4, "enabled: found the text 'yes', expected true or false"),
        ("block: x\nmode: shadwo", 4, "mode: unknown word 'shadwo' (did you mean 'shadow'?)"),
        ("block: x\nmode: 1", 4, "mode: found the number 1, expected one of: enforce, shadow, "),
        ("block: x\nlane: gates", 4, "lane: unknown word 'gates' (did you mean 'gate'?)"),
        ("block: x\npriority: 1.5", 4, "priority: found the number 1.5, expected a whole number"),
        ("block: x\npriority: true", 4, "priority: found true, expected a whole number"),
        ("block: x\ntools: 5", 4, "tools: found the number 5, expected a pattern or a list of"),
        ("block: x\ntools: [a, 5]", 4, "tools[1]: found the number 5, expected a text"),
        ("block: x\ntools: '/[/'", 4, "tools: the text '/[/' is no pattern here: missing ]"),
        ("block: x\ntimeout:", 4, "timeout: found nothing, expected seconds, a number more than 0"),
        ("block: x\ntimeout: .inf", 4, "timeout: found the number inf, expected seconds"),
        ("block: x\non_error: explode", 4, "on_error: unknown word 'explode', expected one of: "),
        (
            "block: x\non_error: {timeuot: block}",
            4,
            "on_error.timeuot: unknown kind of failure 'timeuot' (did you mean 'timeout'?)",
        ),
        ("block: x\non_error:\n  error: no", 5, "on_error.error: unknown word 'no'"),
        ("block: x\nconfig: [1]", 4, "config: found a list, expected a mapping"),
        ("block: x\nmax_retries: -1", 4, "max_retries: found the number -1, expected a whole"),
        (
            "block: x\ntimeout: 1\ntimeout_seconds: 2",
            5,
            "timeout_seconds: both `timeout` and `timeout_seconds`, expected one of them",
        ),
        ("block: x\nenabled: true\nmode: off", 5, "mode: both `enabled: true` and `mode: off`"),
        (
            "command: [x]\nbackground: false\nmode: async",
            4,
            "background: both `background: false` and `mode: async`",
        ),
        (
            "command: [x]\nlane: gate\nmode: async",
            5,
            "mode: a gate hook cannot run in the background",
        ),
        ("lane: gate\nset: {args.x: 1}", 4, "set: `set` in lane gate, where nothing can be"),
        ("block: x\nmode: dry-run", 4, "mode: unknown word 'dry-run' (did you mean 'shadow'?)"),
        ("block: x\nmode: disabled", 4, "mode: unknown word 'disabled' (did you mean 'off'?)"),
        ("block: x\nlane: audit", 4, "lane: unknown word 'audit' (did you mean 'observe'?)"),
        ("block: x\non_error: raise", 4, "on_error: unknown word 'raise' (did you mean 'block'?)"),
        (
            "block: x\nmatch: y",
            4,
            "match: unknown key 'match' (did you mean one of: tools, agents,",
        ),
        ("action: block", 3, "action: unknown key 'action' (did you mean one of: block, ask, "),
        ("block: x\nif: y", 4, "if: unknown key 'if' (did you mean 'when'?)"),
        ("block: x\ncondition: y", 4, "condition: unknown key 'condition' (did you mean 'when'?)"),
        ("block: x\nagent: y", 4, "agent: unknown key 'agent' (did you mean 'agents'?)"),
        ("block: x\nuser: y", 4, "user: unknown key 'user' (did you mean 'users'?)"),
        ("block: x\nwarble: y", 4, "warble: unknown key 'warble', expected one of: type, name, "),
        ("type: rul\nblock: x", 3, "type: unknown word 'rul' (did you mean 'rule'?)"),
        ("type: rule", 2, "the rule does nothing"),
        ("name: x", 2, "a hook that says nothing to do, expected one of: path, module and"),
        ("type: python", 2, "`module` is missing, expected `module` and `function`"),
        ("module: x", 2, "`function` is missing, expected `module` and `function`"),
        ("function: x", 2, "`module` is missing, expected `module` and `function`"),
        ("path: a:b\nfunction: x", 4, "function: both `path` and `module` or `function`"),
        ("type: builtin", 2, "`builtin` is missing, expected the name of a built-in hook"),
        ("block: x\nset: {args.x: 1}", 3, "block: the rule says both block and set"),
        ("block: [1]", 3, "block: found a list, expected a text or true"),
        ("block:", 3, "block: found nothing, expected something"),
        (
            "block: x\nstatus: 200",
            4,
            "status: found the number 200, expected a number, 400 or more",
        ),
        ("block: x\ncommand: [x]", 4, "command: `command`, which is for hooks of type command, "),
        ("type: rule\ncommand: [x]\nblock: x", 4, "command: `command`, which is for hooks of"),
        ("command: []", 3, "command: found an empty list, expected at least one"),
        ("command: [1]", 3, "command[0]: found the number 1, expected a text"),
        ("command: [x]\nenv: {A: 1}", 4, "env.A: found the number 1, expected a text"),
        ("redact: {patterns: [x], wiht: y}", 3, "redact.wiht: unknown key 'wiht'"),
        ("retry: again", 3, "retry: before_tool_call does not allow retry in lane transform"),
        ("type: agent\nagent_name: x", 2, "`on_error` is missing, expected a value for it"),
        ("type: http\nurl: ftp://x", 4, "url: found the text 'ftp://x', expected a text like "),
        ("type: approval", 2, "`question` is missing"),
        ("block: x\nwhen: 5", 4, "when: found the number 5, expected a text"),
        ("block: x\nwhen: amount > 1", 4, "when: the expression 'amount > 1' uses 'amount'"),
        ("builtin: redat", 3, "builtin: unknown built-in hook 'redat' (did you mean 'redact'?)"),
        ("module: checkrail.builtin\nfunction: redat", 4, "function: unknown built-in hook"),
        ("builtin: tool_policy", 2, "config: found keys that do not go together"),
        (
            "builtin: redact\nconfig:\n  fields: [args.body, body]",
            4,
            "config: `fields`: the path 'body' leads nowhere at before_tool_call",
        ),
        (
            "builtin: tool_policy\nconfig:\n  deny: [x]\n  alow: [y]",
            6,
            "config.alow: unknown key 'alow' (did you mean 'allow'?)",
        ),
        (
            "builtin: tool_policy\nconfig:\n  deny: [x]\n  status: 5",
            6,
            "config.status: found the number 5",
        ),
        ("path: nothing", 3, "path: 'nothing' is no import reference"),
        ("path: no.such.module:x", 3, "path: there is no module 'no'"),
        ("path: json:lods", 3, "path: json has no 'lods' (did you mean 'loads'?)"),
        ("path: json:JSONDecoder", 3, "path: it is a class, not an instance"),
        ("path: json:__name__", 3, "path: it is str, which cannot be called"),
        ("thread: true\npath: asyncio:sleep", 3, "thread: an async function cannot be moved"),
    ],
)
def test_problems_of_a_hook(problems, keys, line, expected):
    (problem,) = problems(in_hook(keys))
    place = "hooks.before_tool_call"
    told = str(problem).replace(problem.file, "file", 1)
    assert told.startswith((f"file:{line} {place}.{expected}", f"file:{line} {place}: {expected}"))


def test_what_a_point_does_not_allow_is_refused_with_the_key(told):
    text = """
        hooks:
          after_run:
            - name: a
              block: too late
          before_run:
            - name: b
              tools: [x]
              block: x
          on_session_start:
            - name: c
              lane: transform
              block: x
            - name: d
              set: {user_id: x}
    """
    found = [problem.partition(" (")[0] for problem in told(text)]
    assert found == [
        "checkrail.yaml:4 hooks.after_run[0].block: after_run does not allow block in lane observe",
        "checkrail.yaml:7 hooks.before_run[0].tools: `tools` can never match at before_run",
        "checkrail.yaml:11 hooks.on_session_start[0].lane: on_session_start has no transform lane",
        (
            "checkrail.yaml:14 hooks.on_session_start[1].set: "
            "the rule changes the value, which on_session_start does not allow"
        ),
    ]


def test_a_broken_hook_is_one_problem_among_others(write, told):
    write("broken.py", "import json\n\nraise ValueError('not today')\n")
    write("broken_too.py", "def f(:\n")
    write("leaves.py", "raise SystemExit(3)\n")
    found = told("""
        hooks:
          before_run:
            - {name: a, path: "./broken.py:f"}
            - {name: b, path: "./broken_too.py:f"}
            - {name: c, path: "./leaves.py:f"}
            - {name: d, blok: x}
    """)
    assert [problem.split(": ")[0] for problem in found] == [
        "checkrail.yaml:3 hooks.before_run[0].path",
        "checkrail.yaml:4 hooks.before_run[1].path",
        "checkrail.yaml:5 hooks.before_run[2].path",
        "checkrail.yaml:6 hooks.before_run[3].blok",
    ]
    assert "ValueError: not today in" in found[0]
    assert "broken.py, line 3" in found[0]
    assert "SyntaxError" in found[1]
    assert "SystemExit: 3" in found[2]


def test_a_broken_module_is_told_once(write, told):
    write("broken.py", "1 / 0\n")
    write("other.py", "raise ValueError('another')\n")
    found = told("""
        definitions:
          shared: {path: "./broken.py:f"}
        hooks:
          path: ./broken.py:hooks
          before_run:
            - {name: a, path: "./broken.py:f"}
            - {name: b, path: "./broken.py:g", optional: true}
            - {name: c, path: "./other.py:f"}
          on_run_start:
            - {name: d, module: ./broken.py, function: f}
            - {name: e, $ref: shared}
            - {name: f, $ref: shared}
    """)
    broken, other = found
    assert broken.startswith("checkrail.yaml:4 hooks.path: ")
    assert "ZeroDivisionError: division by zero" in broken
    assert broken.endswith(
        "(Mend it there and try again; it is the same at hooks.before_run[0].path and 2 more)"
    )
    assert other.startswith("checkrail.yaml:8 hooks.before_run[2].path: ")
    assert other.endswith("(Mend it there and try again)")


def test_a_broken_module_is_run_once(write, told, tmp_path):
    write(
        "broken.py",
        """
        from pathlib import Path

        with Path(__file__).with_name("runs").open("a") as file:
            file.write("x")
        raise ValueError(Path(__file__).with_name("runs").read_text())
        """,
    )
    (problem,) = told("""
        hooks:
          before_run:
            - {name: a, path: "./broken.py:f"}
            - {name: b, path: "./broken.py:g"}
    """)
    assert "ValueError: x in " in problem
    assert problem.endswith("it is the same at hooks.before_run[1].path)")
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (
            "fn",
            (
                "'./objects.py:fn' is a function, "
                "expected a RunHooks, a Hooks, a HookRegistry, a Hook, or a list of them "
                "(a function goes under its point, as in before_run: {path: …})"
            ),
        ),
        ("number", "'./objects.py:number' is a number, expected a RunHooks, "),
        ("Class", "'./objects.py:Class' is a class, expected a RunHooks, "),
        ("missing", "./objects.py has no 'missing', named by './objects.py:missing'"),
        ("twice", "hook 'a': there are two hooks of that name"),
        ("pointless", "hook 'Pointless': it names no point"),
    ],
)
def test_an_object_that_holds_no_hooks(write, told, reference, expected):
    write(
        "objects.py",
        """
        from checkrail import Hook, HookRegistry

        number = 5

        def fn(event):
            pass

        class Class(Hook):
            pass

        class Pointless(Hook):
            def execute(self, event):
                pass

        pointless = Pointless()
        one, two = HookRegistry(), HookRegistry()
        one.register(fn, "before_run", name="a")
        two.register(fn, "before_run", name="a")
        twice = [one, two]
        """,
    )
    (problem,) = told(f"hooks:\n  path: ./objects.py:{reference}\n")
    assert problem.startswith(f"checkrail.yaml:2 hooks.path: {expected}")


def test_names_of_an_object_and_of_the_file_are_unique_together(write, told):
    write("objects.py", "from checkrail.hooks import RunHooks\nhooks = RunHooks()\n")
    with (write("objects.py", "")).open("w") as file:
        file.write("from checkrail.hooks import RunHooks\nhooks = RunHooks()\n")
        file.write("@hooks.before_run\nasync def gate(ctx):\n    pass\n")
    found = told("""
        hooks:
          path: ./objects.py:hooks
          before_run:
            - name: gate
              block: x
    """)
    assert found == [
        (
            "checkrail.yaml:4 hooks.before_run[0].name: the name 'gate' a second time, "
            "expected each name once (it is on line 2 already)"
        ),
    ]


def test_modules_of_other_servers_are_to_be_renamed(write, told):
    write("hooks.py", "from aegra_api.hooks import RunHooks\n\nhooks = RunHooks()\n")
    write("mine.py", "from run_claude.hooks import HookContext\n")
    found = told("""
        hooks:
          path: ./hooks.py:hooks
          pre_request:
            - name: compat
              module: run_claude.hooks.builtin
              function: strip_provider_fields
            - name: off
              module: run_claude.hooks.builtin
              function: log_request
              enabled: false
            - name: mine
              path: ./mine.py:shorten
            - name: theirs
              path: aegra_api.hooks:check
              enabled: false
    """)
    assert found[0].startswith("checkrail.yaml:2 hooks.path: ")
    assert "No module named 'aegra_api'" in found[0]
    assert "aegra_api.hooks is checkrail.hooks here" in found[0]
    renamed = (
        "the module 'run_claude.hooks.builtin', which has another name here, "
        "expected 'checkrail.builtin' (rename it to checkrail.builtin)"
    )
    assert found[1:3] == [
        f"checkrail.yaml:5 hooks.pre_request[0].module: {renamed}",
        f"checkrail.yaml:8 hooks.pre_request[1].module: {renamed}",
    ]
    assert "run_claude.hooks is checkrail.styles here" in found[3]
    assert found[4].startswith("checkrail.yaml:14 hooks.pre_request[3].path: the module 'aegra_api")


def test_a_hook_context_is_only_where_the_proxy_has_one(write, told):
    style = "from checkrail.styles import HookContext\n"
    write("mine.py", f"{style}def mark(ctx: HookContext):\n    return ctx\n")
    (problem,) = told("hooks:\n  before_run:\n    path: ./mine.py:mark\n")
    assert problem.startswith(
        "checkrail.yaml:3 hooks.before_run.path: "
        "a function that takes a HookContext, which before_run has not, "
        "expected one of: before_llm_call, after_llm_call, before_tool_call, after_tool_call",
    )


def test_a_mistyped_key_is_not_told_as_a_missing_one_too(told):
    assert told(in_hook("modul: x\nfunction: y")) == [
        (
            "checkrail.yaml:3 hooks.before_tool_call.modul: unknown key 'modul' "
            "(did you mean 'module'?)"
        ),
    ]
    assert len(told(in_hook("blok: x"))) == 1


def test_hooks_under_a_mistyped_point_are_checked_as_well(told):
    assert [line.split(": ")[0] for line in told(in_hook("blok: x", "befor_run"))] == [
        "checkrail.yaml:2 hooks.befor_run",
        "checkrail.yaml:3 hooks.befor_run.blok",
    ]


def test_a_text_is_no_file():
    with pytest.raises(ConfigError) as raised:
        load_text("hooks: 1", name="the editor")
    assert str(raised.value).startswith("the editor:1 hooks: found the number 1")


def test_a_format_that_nobody_knows():
    with pytest.raises(ValueError, match="did you mean 'yaml'"):
        load_text("", "yml")


def test_problems_carry_their_parts():
    with pytest.raises(ConfigError) as raised:
        load_text("histroy: full\n")
    (problem,) = raised.value.problems
    assert problem == Problem(
        file="<text>",
        line=1,
        path="histroy",
        found="unknown key 'histroy'",
        expected=problem.expected,
        hint="did you mean 'history'?",
    )
    assert problem.expected.startswith("one of: hooks, definitions, ")


def test_several_problems_are_one_message():
    error = ConfigError([Problem("a", 1, "x", "wrong"), Problem("a", None, "", "odd", "even")])
    assert str(error) == "2 problems:\n  a:1 x: wrong\n  a: odd, expected even"


def test_places_are_spelled_as_people_write_them():
    assert (
        format_path(("hooks", "before_run", 0, "a b", "$ref")) == "hooks.before_run[0]['a b'].$ref"
    )


def test_thousands_of_unknown_names_are_listed_soon_and_explained_up_to_a_hundred():
    report, known = Report("checkrail.yaml"), [f"name{number}" for number in range(5000)]
    began = time.thread_time()
    for number, name in enumerate(known):
        report.add_unknown(("names", number), "name", f"{name}s", known[:100])
        report.add(("names", number), "another problem")
    assert time.thread_time() - began < 3
    assert len(report.problems) == 10_000
    assert [bool(each.expected) for each in report.problems[98:103]] == [True, *[False] * 4]
