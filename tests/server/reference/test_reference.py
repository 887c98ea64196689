"""Our server's answers beside those of LangGraph's own, which `make record-reference` wrote."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.server.conftest import DATABASES
from tests.server.harness import Served

from .answers import RECORDED, collect_all_answers, load_answers
from .differences import find_differences, find_unlisted, find_unneeded, load_list, render_list
from .questions import load_questions

REPOSITORY = Path(__file__).parents[3]
PROJECT = Path(__file__).parent / "project" / "langgraph.json"
QUESTIONS = load_questions()
THEIRS = load_answers()


@pytest.fixture(scope="module", params=DATABASES)
def ours(request, new_database, tmp_path_factory):
    """All answers of our server on the same folder, on each database in turn."""
    log = tmp_path_factory.mktemp("reference") / "server.log"
    served = Served(new_database(request.param), log, config=PROJECT, command="dev")
    try:
        return collect_all_answers(served.start().url, QUESTIONS)
    finally:
        served.kill()


@pytest.mark.parametrize("name", [question.name for question in QUESTIONS])
def test_differs_only_where_the_list_says_so(ours, name):
    unlisted = find_unlisted(find_differences(name, ours[name], THEIRS[name]))
    assert not unlisted, "\n".join(map(str, unlisted))


def test_nothing_is_on_the_list_that_no_longer_differs(ours):
    found = [
        difference
        for name, story in ours.items()
        for difference in find_differences(name, story, THEIRS[name])
    ]
    assert not find_unneeded(found)


def test_every_question_has_its_recorded_answer():
    assert {question.name for question in QUESTIONS} == set(THEIRS), "run make record-reference"
    assert RECORDED.stat().st_size < 600_000


def test_the_docs_have_the_list():
    page = (REPOSITORY / "docs" / "moving.md").read_text()
    beginning = f"LangGraph's own server (`langgraph-api` {_recorded_version()}), ours answers"
    assert beginning in page
    shown = page.partition(beginning)[2].partition("\n\n")[2].partition("\n\n")[0]
    wanted = render_list(load_list())
    assert shown == wanted, f"docs/moving.md has to have:\n{wanted}"


def _recorded_version():
    wanted = REPOSITORY / "tests_adapters" / "langgraph_server" / "requirements.txt"
    return re.search(r"^langgraph-api==([\d.]+)\.\*$", wanted.read_text(), re.MULTILINE)[1]


def test_the_reference_was_recorded_with_our_version_of_langgraph():
    folder = REPOSITORY / "tests_adapters" / "langgraph_server"
    wanted = (folder / "requirements.txt").read_text()
    assert f"\nlanggraph=={version('langgraph')} " in wanted, "then run make record-reference"
