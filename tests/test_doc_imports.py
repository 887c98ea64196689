"""What the docs import is what `checkrail[all]` brings, or what their page says to install."""

import ast
import re
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)(?: [^\n]*)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def needed(name, extras):
    """What a package needs with some of its extras; ours are those of the source."""
    if name == "checkrail":
        own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lists = (own["dependencies"], *(own["optional-dependencies"][each] for each in extras))
        return [Requirement(line) for lines in lists for line in lines]
    found = map(Requirement, requires(name) or ())
    chosen = [{"extra": each} for each in ("", *extras)]
    return [one for one in found if not one.marker or any(map(one.marker.evaluate, chosen))]


def brought(name="checkrail", extras=("all",), seen=None):
    """The packages that one brings with its extras, and those that these bring in turn."""
    seen = set() if seen is None else seen
    for wanted in needed(name, extras):
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key not in seen:
            seen.add(key)
            with suppress(PackageNotFoundError):  # it is for another system
                brought(wanted.name, wanted.extras, seen)
    return seen


BROUGHT = {name for name, _ in brought()}
DISTRIBUTIONS = packages_distributions()


def imported(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def distributions(module):
    """The packages that a module may be from; parts of a namespace are told apart by their file."""
    top, _, rest = module.partition(".")
    found = {canonicalize_name(name) for name in DISTRIBUTIONS.get(top, ())}
    sdk = "opentelemetry-sdk"
    return {sdk} if top == "opentelemetry" and rest.startswith("sdk") else found - {sdk}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_imports_is_brought_by_all_or_named(page):
    text = page.read_text(encoding="utf-8")
    files = set(re.findall(r"<!-- file: (?:\S*/)?(\w+)\.py -->", text))
    named = {canonicalize_name(name) for name in re.findall(r"pip install ([\w.-]+)", text)}
    code = [block for language, block in FENCE.findall(text) if language == "python"]
    for module in {module for block in code for module in imported(block)}:
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top == "checkrail" or top in files:
            continue
        found = distributions(module)
        assert found & (BROUGHT | named), f"{module}: neither brought by [all] nor named"
