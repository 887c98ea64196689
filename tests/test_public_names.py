"""What a user imports is at the root or in a documented module, and a page says where."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "imports.md"
PUBLIC = (
    "checkrail",
    "checkrail.hooks",
    "checkrail.agent",
    "checkrail.styles",
    "checkrail.config",
    "checkrail.builtin",
    "checkrail.channels",
    "checkrail.telemetry",
    "checkrail.testing",
)
BY_REFERENCE = {
    "checkrail.adapters.litellm.callback",
    "checkrail.adapters.langchain.out_of_reach",
    "checkrail.runs.tools",
}
"""What is named in a file or called by who looks into a graph, each with its own page."""

DRAWS = dict.fromkeys(("examples/demo/demo.py", "examples/demo/served.py"), "checkrail.cli")
"""The demo draws what happens as the command does."""

READ = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
FENCE = re.compile(r"^```python(?: [^\n]*)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"`(checkrail(?:\.\w+)+)")


def imports_in(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("checkrail"):
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            found = [each.name for each in node.names if each.name.startswith("checkrail.")]
            yield from ((name, "*") for name in found)


def is_public(module, name):
    return module in PUBLIC and (name == "*" or name in import_module(module).__all__)


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_a_page_imports_only_what_is_public(page):
    text = page.read_text(encoding="utf-8")
    found = {each for block in FENCE.findall(text) for each in imports_in(block)}
    assert [each for each in sorted(found) if not is_public(*each)] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_example_imports_only_what_is_public(file):
    allowed = DRAWS.get(str(file.relative_to(ROOT)), "nothing else")
    found = {*imports_in(file.read_text(encoding="utf-8"))}
    wrong = [each for each in sorted(found) if not is_public(*each)]
    assert [each for each in wrong if not each[0].startswith(allowed)] == []


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_a_page_names_only_what_is_public(page):
    for name in DOTTED.findall(page.read_text(encoding="utf-8")):
        module, _, last = name.rpartition(".")
        known = name in PUBLIC or is_public(module, last) or name in BY_REFERENCE
        assert known or _is_no_module(name), name


def _is_no_module(name):
    """Such as a file's or a logger's name."""
    parts = name.split(".")
    return (
        not (ROOT / "src" / Path(*parts[:2])).exists()
        and not (ROOT / "src" / Path(*parts[:2])).with_suffix(".py").exists()
    )


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_has_the_names_of_a_module(module):
    text = PAGE.read_text(encoding="utf-8")
    chapter = rf"^## `{re.escape(module)}`\n(.*?)(?=^## |\Z)"
    section = re.search(chapter, text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/imports.md has no chapter {module}"
    cells = re.findall(r"^\| ([^|]+) \|", section[1], re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(import_module(module).__all__)
    assert all(hasattr(import_module(module), name) for name in listed)


def test_the_root_has_few_names():
    assert len(import_module("checkrail").__all__) <= 30
