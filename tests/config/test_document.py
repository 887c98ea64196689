import itertools
import sys
import textwrap
from pathlib import Path

import pytest

from checkrail.config.document import MAX_BYTES, Document, parse_document, read_document
from checkrail.config.problems import Report


def parsed(text, kind):
    report = Report(f"file.{kind}")
    content = textwrap.dedent(text).lstrip("\n").encode() if isinstance(text, str) else text
    return parse_document(content, kind, Path(), report), [
        str(problem) for problem in report.problems
    ]


def document(text, kind) -> Document:
    found, problems = parsed(text, kind)
    assert problems == []
    assert found is not None
    return found


def refused(text, kind) -> list[str]:
    found, problems = parsed(text, kind)
    assert found is None
    return problems


def test_yaml_is_yaml_1_2():
    found = document(
        """
        on: [no, yes, off, y, 12:30, 2001-01-01, 1_000, 0777, 0o777, 0xff, 1.5, 1e3, .5, -.inf]
        quoted: ["true", '1', "null"]
        plain: [true, FALSE, null, ~, 1, -2, +3]
        empty:
        tagged: [!!str 5, !!int "7", ! 8]
        """,
        "yaml",
    )
    assert found.data == {
        "on": [
            *("no", "yes", "off", "y", "12:30", "2001-01-01", "1_000"),
            *(777, 0o777, 255, 1.5, 1000.0, 0.5, float("-inf")),
        ],
        "quoted": ["true", "1", "null"],
        "plain": [True, False, None, None, 1, -2, 3],
        "empty": None,
        "tagged": ["5", 7, "8"],
    }
    assert type(found.data["on"][7]) is int


def test_a_yaml_version_directive_changes_nothing():
    assert document("%YAML 1.1\n---\na: no\n", "yaml").data == {"a": "no"}


def test_yaml_knows_the_lines_of_keys_and_items():
    found = document(
        """
        # a comment
        hooks:
          before_run:
            - name: a
              when: |
                long
                text
              tools: [x,
                y]
            - {name: b}
        """,
        "yaml",
    )
    at = ("hooks", "before_run")
    assert found.lines[("hooks",)] == 2
    assert found.lines[at] == 3
    assert found.lines[*at, 0] == 4
    assert found.lines[*at, 0, "name"] == 4
    assert found.lines[*at, 0, "when"] == 5
    assert found.lines[*at, 0, "tools", 1] == 9
    assert found.lines[*at, 1, "name"] == 10


def test_an_alias_has_its_own_line_and_its_members_theirs():
    found = document("a: &x\n  b: 1\nc: *x\n", "yaml")
    assert found.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert found.lines[("c",)] == 3
    assert found.lines["c", "b"] == 2


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_an_empty_document_holds_nothing(kind):
    assert document("", kind).data is None
    assert document("", "toml").data == {}


def test_a_byte_order_mark_is_skipped():
    assert document(b"\xef\xbb\xbfa: 1\n", "yaml").data == {"a": 1}
    assert document(b'\xef\xbb\xbf{"a": 1}', "json").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1,\nb: 2\n", "file.yaml:3: while parsing a flow sequence: expected ',' or ']', "),
        ("a: 1\n b: 2\n", "file.yaml:2: mapping values are not allowed here, expected YAML 1.2"),
        ("a:\n\t- x\n", "file.yaml:2: while scanning for the next token: found character '\\t'"),
        ("a: 1\nb: *q\n", "file.yaml:2: the alias *q, which nothing before it is named"),
        ("a: &a [*a]\n", "file.yaml:1: the alias *a, which nothing before it is named"),
        ("a: 1\n---\nb: 2\n", "file.yaml:2: a second document, expected one document a file"),
        ("a: 1\nb: \x00\n", "file.yaml:2: unacceptable character #x0000"),
        ("a: 1\nb: " + "[" * 99, "file.yaml:2: values nested more than 50 deep"),
        ("a: " + "1" * 5000, "file.yaml:1: Exceeds the limit"),
    ],
)
def test_broken_yaml_is_told_with_its_line(text, told):
    (problem,) = refused(text, "yaml")
    assert problem.startswith(told)


def test_aliases_count_for_what_they_stand_for():
    names = "abcdefghi"
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in itertools.pairwise(names)
    )
    (problem,) = refused(bomb, "yaml")
    assert "more than 100000 values, aliases counted in full" in problem


def test_all_wrong_keys_of_yaml_are_told_at_once():
    _, problems = parsed(
        """
        a: 1
        a: 2
        1: x
        ? [b]
        : y
        c: {d: 1, d: 2}
        e: !python/object x
        <<: {f: 1}
        """,
        "yaml",
    )
    assert problems == [
        (
            "file.yaml:2 a: the key 'a' a second time, expected each key once "
            "(it is on line 1 already)"
        ),
        "file.yaml:3: the key 1, expected a text (put it in quotes)",
        "file.yaml:4: a key that is no text, expected a text (put it in quotes)",
        (
            "file.yaml:6 c.d: the key 'd' a second time, expected each key once "
            "(it is on line 6 already)"
        ),
        (
            "file.yaml:7 e: the tag !python/object, expected plain data "
            '(if it is meant as a text, put it in quotes: "!python/object")'
        ),
        (
            "file.yaml:8: the merge key '<<', expected YAML 1.2 "
            "(name the hook under definitions, and use it with $ref)"
        ),
    ]


def test_json_with_tabs_escapes_and_lines():
    found = document(
        '{\n\t"a":\t"\\ud83d\\ude00 \\"x\\" {",\n\t"b": [\n\t\t1e2,\n\t\t{"c": null}\n\t]\n}',
        "json",
    )
    assert found.data == {"a": '😀 "x" {', "b": [100.0, {"c": None}]}
    assert found.lines[("a",)] == 2
    assert found.lines["b", 0] == 4
    assert found.lines["b", 1, "c"] == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1,\n"b"}', "file.json:2: expecting ':' delimiter"),
        ('{"a": 1}\nx', "file.json:2: extra data at column 1, expected JSON"),
        ('{"a": [1,\nNaN]}', "file.json:2: NaN, which is no number in JSON"),
        ("[" * 99 + "]" * 99, "file.json:1: values nested more than 50 deep"),
        ("[" * 9999, "file.json:1: values nested more than 50 deep"),
        ("1" * 5000, "file.json: Exceeds the limit"),
    ],
)
def test_broken_json_is_told_with_its_line(text, told):
    (problem,) = refused(text, "json")
    assert problem.startswith(told)


def test_all_doubled_keys_of_json_are_told_at_once():
    _, problems = parsed('{"a": 1,\n"a": {"b": 1,\n"b": 2}}', "json")
    assert [problem.partition(",")[0] for problem in problems] == [
        "file.json:3 a.b: the key 'b' a second time",
        "file.json:2 a: the key 'a' a second time",
    ]


def test_toml_with_its_lines():
    found = document(
        '''
        history = "full"  # a comment
        "odd.key".x = 1
        times = [12:30:00, 2001-01-01]

        [hooks]
        before_run = [
          { name = "a", tools = ["x", "y"] },
          # a comment, [with] {marks}
          { name = "b" },
        ]
        [[hooks.after_run]]
        name = 'c'
        [hooks.after_run.config]
        text = """
        name = "no key"
        ["""
        [[hooks.after_run]]
        name = "d"
        config.deep.er = 1
        ''',
        "toml",
    )
    assert found.data["times"] == ["12:30:00", "2001-01-01"]
    at = ("hooks", "after_run")
    assert {
        (): None,
        ("history",): 1,
        ("odd.key", "x"): 2,
        ("times", 1): 3,
        ("hooks", "before_run"): 6,
        ("hooks", "before_run", 0, "tools", 1): 7,
        ("hooks", "before_run", 1): 9,
        ("hooks", "before_run", 1, "name"): 9,
        at: 11,
        (*at, 0, "name"): 12,
        (*at, 0, "config"): 13,
        (*at, 0, "config", "text"): 14,
        (*at, 1): 17,
        (*at, 1, "name"): 18,
        (*at, 1, "config", "deep", "er"): 19,
    }.items() <= {(): None, **found.lines}.items()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\na = 2\n", "file.toml:2: cannot overwrite a value, expected TOML"),
        ("a = \n", "file.toml:1: invalid value, expected TOML"),
        ("a = 1\nb = [1,\n", "file.toml:3: "),
        ("a = " + "[" * 60 + "]" * 60, "file.toml: values nested more than 50 deep"),
        ("a = " + "1" * 5000, "file.toml: Exceeds the limit"),
    ],
)
def test_broken_toml_is_told_with_its_line(text, told):
    (problem,) = refused(text, "toml")
    assert problem.startswith(told)


def test_yaml_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    assert refused("a: 1", "yaml") == [
        (
            "file.yaml: YAML, but ruamel.yaml is not installed, "
            'expected JSON or TOML, or: pip install "checkrail[config]"'
        ),
    ]
    assert document("a = 1", "toml").data == {"a": 1}


def test_what_is_too_large_is_refused():
    (problem,) = refused(b"#" * (MAX_BYTES + 1), "yaml")
    assert (
        problem
        == "file.yaml: more than 1048576 bytes, expected a document of at most 1048576 bytes"
    )


def test_what_is_not_utf_8_is_told_with_its_line():
    assert refused(b"a: 1\nb: \xff\n", "yaml") == [
        "file.yaml:2: the byte 0xff, expected text in UTF-8"
    ]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path):
    report = Report("x")
    (tmp_path / "some.ini").touch()
    for name in ("none.yaml", "none", "some.ini"):
        assert read_document(tmp_path / name, report) is None
    assert [str(problem) for problem in report.problems] == [
        "x: the file cannot be read: no such file or directory, expected a file that can be read",
        "x: there is no such file or folder, expected a file that can be read",
        (
            "x: a file of unknown format 'some.ini', "
            "expected a file name that ends in .yaml, .yml, .json, .toml"
        ),
    ]
