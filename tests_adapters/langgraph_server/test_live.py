"""Both servers side by side, on the same folder and with the same packages."""

import httpx
import pytest
from tests.server.reference.answers import collect_all_answers, load_answers
from tests.server.reference.differences import find_differences, find_unlisted
from tests.server.reference.questions import load_questions

from .servers import run_ours, run_reference

QUESTIONS = load_questions()
EXTRAS = ("/a2a/", "/docs", "/mcp/", "/metrics")
NAMES = [question.name for question in QUESTIONS]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    with run_reference(tmp_path_factory.mktemp("reference")) as url:
        return collect_all_answers(url, QUESTIONS)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with run_ours(tmp_path_factory.mktemp("ours")) as url:
        return collect_all_answers(url, QUESTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_ours_differs_only_where_the_list_says_so(ours, theirs, name):
    unlisted = find_unlisted(find_differences(name, ours[name], theirs[name]))
    assert not unlisted, "\n".join(map(str, unlisted))


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_answers_as_it_was_recorded(theirs, name):
    changed = find_differences(name, theirs[name], load_answers()[name])
    assert not changed, "make record-reference:\n" + "\n".join(map(str, changed))


def test_every_route_of_the_reference_is_in_a_question(tmp_path):
    """Its own extras aside: they are no part of what clients of graphs call."""
    with run_reference(tmp_path) as url:
        paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    wanted = {(method, path) for method, path in routes if not path.startswith(EXTRAS)}
    steps = [step for question in QUESTIONS for step in (*question.given, *question.steps)]
    called = {(step.method, step.path.split("?")[0]) for step in steps if step.method != "await"}
    missing = {
        f"{method} {path}"
        for method, path in wanted
        if not any(method == way and _fits(path, place) for way, place in called)
    }
    assert not missing


def _fits(route: str, path: str) -> bool:
    parts, given = route.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        one == other or one.startswith("{") for one, other in zip(parts, given, strict=True)
    )
