"""Every link from one text of the repository to another leads somewhere, headings included."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "bench", "examples", ".github")
PAGES = sorted({*ROOT.glob("*.md"), *(p for name in FOLDERS for p in ROOT.glob(f"{name}/**/*.md"))})
FENCED = re.compile(r"^[ ]*(`{3,}).*?^[ ]*\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page):
    """The text of a page without its snippets."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found = []
    for heading in HEADING.findall(prose(page) if page.suffix == ".md" else ""):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


def broken(page):
    """The links of a page that lead nowhere."""
    for link in LINK.finditer(prose(page)):
        target = page.parent / link["file"] if link["file"] else page
        if not target.exists() or (link["heading"] or "") not in ["", *anchors(target)]:
            yield link[0]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page):
    assert list(broken(page)) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path):
    (tmp_path / "other.md").write_text("# `A` point, *said*\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-point-said) [c](other.md#twice-1) [d](#here) [e](none.md)"
        " [f](other.md#nowhere) [g](https://none.example)\n# Here\n```text\n[h](none.md)\n```\n"
    )
    assert list(broken(page)) == ["](none.md)", "](other.md#nowhere)"]


def test_no_page_is_named_the_plural_of_another():
    names = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))
    alike = [(one, other) for one in names for other in names if other in {f"{one}s", f"{one}es"}]
    assert alike == []


def test_the_index_leads_to_every_page():
    index = ROOT / "docs" / "index.md"
    linked = {link["file"] for link in LINK.finditer(prose(index))}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= linked
