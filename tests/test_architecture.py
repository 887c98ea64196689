"""The page on the architecture names files and functions that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = ROOT / "src" / "checkrail"
FILES = sorted(set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE)))
STEPS = sorted(set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)` → `([\w.]+)`", PAGE)))


def test_the_page_has_walks():
    assert len(FILES) > 50
    assert len(STEPS) > 30


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_the_page_exists(file):
    assert (PACKAGE / file).is_file()


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_of_a_walk_is_defined_where_the_page_says(file, name):
    source = (PACKAGE / file).read_text()
    for part in name.split("."):
        assert re.search(rf"\b(def|class) {part}\b|^ *{part}\b.* =", source, re.MULTILINE), part
