"""`checkrail check` on files that are wrong: everything at once, each with its line."""

import pytest

WRONG = """
    histroy: full
    hooks:
      before_tool_call:
        - name: limit
          tool: [transfer]
          block: Too much
        - name: slow
          block: Too slow
          timeout: soon
        - name: limit
          block: Again
        - name: missing
          path: ./gone.py:hook
        - name: expression
          when: tool_call.name = 'x'
          block: Never
        - name: undecided
          mode: shadwo
          block: Perhaps
        - name: again
          retry: Once more
        - name: ready
          builtin: redakt
        - name: counted
          builtin: rate_limit
          config:
            limit: ten
      before_tool_cal:
        - name: stray
          block: Nowhere
"""

FOUND = [
    (1, "histroy", "unknown key 'histroy' (did you mean 'history'?)"),
    (5, "hooks.before_tool_call[0].tool", "unknown key 'tool' (did you mean 'tools'?)"),
    (
        9,
        "hooks.before_tool_call[1].timeout",
        "found the text 'soon', expected seconds, a number more than 0",
    ),
    (
        10,
        "hooks.before_tool_call[2].name",
        "the name 'limit' a second time, expected each name once (it is on line 4 already)",
    ),
    (13, "hooks.before_tool_call[3].path", "there is no file "),
    (
        15,
        "hooks.before_tool_call[4].when",
        "the expression \"tool_call.name = 'x'\" is wrong at line 1",
    ),
    (18, "hooks.before_tool_call[5].mode", "unknown word 'shadwo' (did you mean 'shadow'?)"),
    (21, "hooks.before_tool_call[6].retry", "before_tool_call does not allow retry"),
    (
        23,
        "hooks.before_tool_call[7].builtin",
        "unknown built-in hook 'redakt' (did you mean 'redact'?)",
    ),
    (
        27,
        "hooks.before_tool_call[8].config.limit",
        "found the text 'ten', expected a whole number",
    ),
    (
        28,
        "hooks.before_tool_cal",
        "unknown point 'before_tool_cal' (did you mean 'before_tool_call'?)",
    ),
]


def test_all_mistakes_are_told_at_once_with_their_lines(checkrail, write):
    write("wrong.yaml", WRONG)
    done = checkrail("check", "wrong.yaml")
    assert (done.code, done.out) == (1, "")
    *lines, count = done.err.splitlines()
    assert count == f"{len(FOUND)} problems in wrong.yaml"
    assert len(lines) == len(FOUND)
    for line, (number, path, says) in zip(lines, FOUND, strict=True):
        assert line.startswith(f"wrong.yaml:{number} {path}: {says}")


def test_all_mistakes_are_there_for_machines_too(checkrail, write):
    write("wrong.yaml", WRONG)
    done = checkrail("check", "wrong.yaml", "--json")
    assert (done.code, done.err) == (1, "")
    told = done.data
    assert told.keys() == {"file", "ok", "problems"}
    assert (told["file"], told["ok"]) == ("wrong.yaml", False)
    places = [(found["line"], found["path"]) for found in told["problems"]]
    assert places == [(number, path) for number, path, _ in FOUND]
    assert told["problems"][1] == {
        "file": "wrong.yaml",
        "line": 5,
        "path": "hooks.before_tool_call[0].tool",
        "found": "unknown key 'tool'",
        "expected": told["problems"][1]["expected"],
        "hint": "did you mean 'tools'?",
    }
    assert "tools" in told["problems"][1]["expected"]


def test_fire_refuses_the_same_file_in_the_same_words(invoke, write):
    write("wrong.yaml", WRONG)
    checked = invoke("check", "wrong.yaml")
    fired = invoke("fire", "wrong.yaml", "before_tool_call")
    assert fired == checked
    machine = invoke("fire", "wrong.yaml", "before_tool_call", "--json")
    assert machine == invoke("check", "wrong.yaml", "--json")


TWO_IN_JSON = """{
  "hooks": {
    "before_run": {
      "type": "agent",
      "agent_name": "validator"
    },
    "on_run_finish": {
      "path": 5
    }
  }
}
"""

TWO_IN_TOML = """
    [[hooks.before_run]]
    name = "a"
    block = "x"
    priority = "first"

    [[hooks.on_result]]
    name = "b"
    stop = "not here"
"""


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        (
            "two.json",
            TWO_IN_JSON,
            [(3, "hooks.before_run"), (8, "hooks.on_run_finish.path")],
        ),
        (
            "two.toml",
            TWO_IN_TOML,
            [(4, "hooks.before_run[0].priority"), (8, "hooks.on_result[0].stop")],
        ),
    ],
)
def test_json_and_toml_have_lines_too(name, text, places, invoke, write):
    write(name, text)
    done = invoke("check", name)
    assert done.code == 1
    *lines, count = done.err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{name}:{n} {at}" for n, at in places]
    assert count == f"2 problems in {name}"


def test_an_argument_of_a_rule_is_told_at_its_own_line(invoke, write):
    text = """
        hooks:
          before_tool_call:
            - name: one
              redact: emial
            - name: two
              set:
                foo: 3
    """
    write("rules.yaml", text)
    told = invoke("check", "rules.yaml", "--json").data
    assert [found["line"] for found in told["problems"]] == [4, 6]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("gone.yaml", None, "gone.yaml: the file cannot be read: no such file or directory"),
        ("image.yaml", b"hooks:\n\x89PNG\x00", "image.yaml:2: the byte 0x89, expected text in UT"),
        ("control.yaml", b"hooks: \x01", "control.yaml:1: "),
        ("notes.txt", b"hooks: {}", "notes.txt: a file of unknown format 'notes.txt', expected a"),
        ("open.yaml", b"hooks: [", "open.yaml:1: "),
        ("open.json", b'{"hooks":\n}', "open.json:2: expecting value at column 1, expected JSON"),
        ("open.toml", b"[hooks]\nx = \n", "open.toml:2: invalid value, expected TOML"),
        ("list.yaml", b"- hooks\n", "list.yaml:1: found a list, expected a mapping"),
        ("twice.json", b'{"hooks": {},\n"hooks": {}}', "twice.json:2"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(name, content, says, invoke, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = invoke("check", name)
    assert (done.code, done.out) == (1, "")
    line, count = done.err.splitlines()
    assert line.startswith(says)
    assert count == f"1 problem in {name}"
    told = invoke("check", name, "--json")
    assert (told.code, told.err, told.data["ok"], len(told.data["problems"])) == (1, "", False, 1)


def test_a_circle_of_links_is_no_file(invoke, tmp_path):
    (tmp_path / "link.yaml").symlink_to(tmp_path / "link.yaml")
    done = invoke("check", "link.yaml")
    assert (done.code, done.out) == (1, "")
    assert "link.yaml: the file cannot be read: " in done.err
    assert "symbolic link" in done.err


@pytest.mark.parametrize("name", ["rules", "."])
def test_a_folder_without_a_project_says_so(name, invoke, tmp_path):
    (tmp_path / "rules").mkdir()
    done = invoke("check", name)
    assert (done.code, done.out) == (1, "")
    assert f"{name}: no project here, expected one of: checkrail.yaml" in done.err


@pytest.mark.parametrize("file", ["checkrail.yaml", "langgraph.json"])
def test_a_folder_is_checked_as_the_server_would_take_it(file, invoke, write):
    write(f"shop/{file}", '{"hooks": {"before_run": {"block": "no"}}}')
    done = invoke("check", "shop")
    assert (done.code, done.err) == (0, "")
    assert done.rows[-1] == [f"shop/{file}: 1 hook at 1 of 16 points"]
    assert invoke("check", "shop", "--json").data["file"] == f"shop/{file}"
    fired = invoke("fire", "shop", "before_run")
    assert fired.code == 3


def test_what_was_found_is_data_and_no_markup(invoke, write):
    name = "[/bold].yaml"
    write(name, '"[/red]": 1\n"[bold]": 2\n":key:": 3\n')
    done = invoke("check", name)
    assert done.code == 1
    *lines, count = done.err.splitlines()
    keys = ("[/red]", "[bold]", ":key:")
    for line, (number, key) in zip(lines, enumerate(keys, 1), strict=True):
        assert line.startswith(f"{name}:{number} ['{key}']: unknown key '{key}', expected one of")
    assert count == f"3 problems in {name}"
