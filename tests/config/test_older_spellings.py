"""Options that have an older spelling: accepted, noted with the current one, shown to nobody."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from checkrail.config import load, load_text
from checkrail.config.json_schema import file_schema
from checkrail.config.problems import Report
from checkrail.config.schema import note_older_spellings

ROOT = Path(__file__).parents[2]
MOVED = ROOT / "docs" / "moving.md"  # which shows files of other systems
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page != MOVED]
FILES = [
    file
    for ending in ("yaml", "json", "toml")
    for file in sorted((ROOT / "examples").rglob(f"*.{ending}"))
]
FENCE = re.compile(r"^```(yaml|json)(?: [^\n]*)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = """\
defaults:
  timeout_seconds: 3
  on_error: {timeout: ignore, error: block}
definitions:
  calm: {on_error: ignore, set: {a: 1}}
hooks:
  before_run:
    - name: one
      timeout_seconds: 7
      on_error: ignore
      set: {b: 1}
    - name: two
      enabled: false
      block: Never
    - name: three
      enabled: true
      $ref: calm
  after_llm_call:
    - name: four
      mode: async
      builtin: log_response
"""
OLDER_EXAMPLE = "      timeout_seconds: 2\n"  # of docs/commands.md, which shows the note
OLDER = "is an older spelling (write"


def test_each_is_noted_where_it_stands_with_what_to_write():
    assert [str(note) for note in load_text(FILE, name="f").notes] == [
        f"f:2 defaults.timeout_seconds: `timeout_seconds` {OLDER} timeout: 3)",
        f"f:3 defaults.on_error.timeout: `timeout: ignore` {OLDER} timeout: continue)",
        f"f:5 definitions.calm.on_error: `on_error: ignore` {OLDER} on_error: continue)",
        f"f:9 hooks.before_run[0].timeout_seconds: `timeout_seconds` {OLDER} timeout: 7)",
        f"f:10 hooks.before_run[0].on_error: `on_error: ignore` {OLDER} on_error: continue)",
        f"f:13 hooks.before_run[1].enabled: `enabled: false` {OLDER} mode: off)",
        f"f:16 hooks.before_run[2].enabled: `enabled: true` {OLDER} nothing: it is the default)",
        f"f:20 hooks.after_llm_call[0].mode: `mode: async` {OLDER} background: true)",
    ]


CURRENT = {
    "timeout_seconds: 3": "timeout: 3",
    "timeout_seconds: 7": "timeout: 7",
    "timeout: ignore": "timeout: continue",
    "on_error: ignore": "on_error: continue",
    "enabled: false": "mode: off",
    "      enabled: true\n": "",
    "mode: async": "background: true",
}


def test_what_is_written_instead_means_the_same_and_has_no_notes():
    text = FILE
    for older, current in CURRENT.items():
        assert older in text
        text = text.replace(older, current)
    now, before = load_text(text), load_text(FILE)
    assert now.notes == ()
    options = ("name", "timeout", "on_error", "mode", "lane", "background")
    assert [[getattr(spec, each) for each in options] for spec in now.specs] == [
        [getattr(spec, each) for each in options] for spec in before.specs
    ]


def test_hooks_of_agents_are_noted_in_their_own_file(write):
    hook = "on_result: {timeout_seconds: 1, block: no}"
    blueprint = write("agents/a.yaml", f"name: a\nmodel: openai/x\nhooks:\n  {hook}\n")
    file = write("checkrail.yaml", "hooks: {}\n")
    (note,) = load(file).notes
    assert (note.file, note.line, note.hint) == (str(blueprint), 4, "write timeout: 1")


def test_editors_offer_the_current_spelling():
    keys = file_schema()["$defs"]["definition"]["properties"]
    assert [key for key in keys if keys[key].get("deprecated")] == ["enabled", "timeout_seconds"]
    assert keys["mode"]["anyOf"] == [
        {"enum": ["enforce", "shadow", "off"]},
        {"enum": ["async"], "deprecated": True},
    ]
    defaults = json.dumps(file_schema()["properties"]["defaults"])
    assert defaults.count('"deprecated": true') == 6  # the key, `ignore` and `ignore` of each kind


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("mode: sync", "one of: enforce, shadow, off"),
        ("on_error: skip", "one of: continue, block"),
    ],
)
def test_mistakes_are_told_in_current_words(problems, hook, expected):
    (problem,) = problems(f"hooks: {{before_run: {{{hook}, block: no}}}}\n")
    assert problem.expected == expected


def older_in(document):
    """What the hooks of a document say in older words."""
    report = Report("file")
    for said in said_of(document):
        note_older_spellings(said, (), report)
    return [note.found for note in report.notes]


def said_of(value, *, inside=False):
    """Every mapping under `hooks`, `definitions` and `defaults`, of files and of their agents."""
    if isinstance(value, list):
        for item in value:
            yield from said_of(item, inside=inside)
    elif isinstance(value, dict):
        if inside:
            yield value
        for key, item in value.items():
            yield from said_of(item, inside=inside or key in ("hooks", "definitions", "defaults"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_the_current_spelling(page):
    reader = YAML(typ="safe", pure=True)
    reader.allow_duplicate_keys = True
    text = page.read_text(encoding="utf-8").replace(OLDER_EXAMPLE, "")
    for _, block in FENCE.findall(text):
        for document in reader.load_all(block):
            assert older_in(document) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_show_the_current_spelling(file):
    assert older_in(YAML(typ="safe", pure=True).load(file)) == []


def test_documents_are_searched_where_hooks_stand():
    wrong = {"agents": {"a": {"timeout_seconds": 5, "hooks": {"on_result": [{"enabled": False}]}}}}
    assert older_in(wrong) == ["`enabled: false` is an older spelling"]
