"""Any request that the OpenAPI document allows, and many that it does not: never a 500."""

import json
import os
import warnings
from functools import cache
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    import schemathesis

MANY = int(os.environ.get("CHECKRAIL_TEST_EXAMPLES", "20"))
OPTIONS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
)


class Tried:
    """Sends what was made up, reads how the answer begins, and remembers what went wrong."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.wrong: list[str] = []
        self.count = 0

    def send(self, case) -> None:
        asked = case.as_transport_kwargs(base_url=self.url)
        asked.pop("headers", {})
        try:
            answer = self.session.request(
                **asked, headers=self._headers(case), stream=True, timeout=30
            )
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, ValueError):
            return  # nothing that a client could send
        with answer:
            self.count += 1
            if answer.status_code >= 500:
                told = f"{case.method} {case.path}: {answer.status_code} {answer.text[:300]}"
                self.wrong.append(f"{told}\n{case.as_curl_command()[:1000]}")
            elif answer.status_code >= 400:
                assert {"error", "message"} <= answer.json().keys(), answer.text

    def _headers(self, case) -> dict[str, str]:
        given = {str(name): str(value) for name, value in (case.headers or {}).items()}
        kept = {name: value for name, value in given.items() if value.isprintable()}
        kept = {name: value for name, value in kept.items() if value.isascii()}
        return {**kept, "Content-Type": "application/json"} if case.body is not None else kept


@pytest.fixture
def known(server):
    """Ids of things that are there, so that not everything ends at 404."""
    post = requests.post
    thread = post(f"{server.url}/threads", json={}, timeout=30).json()["thread_id"]
    body = {"assistant_id": "echo", "input": {"text": "x"}}
    post(f"{server.url}/threads/{thread}/runs/wait", json=body, timeout=30)
    [run] = requests.get(f"{server.url}/threads/{thread}/runs", timeout=30).json()
    assistant, *_ = post(
        f"{server.url}/assistants/search", json={"graph_id": "echo"}, timeout=30
    ).json()
    model = {"provider": "scripted", "replies": ["done"]}
    post(f"{server.url}/agents", json={"name": "anything", "model": model}, timeout=30)
    return {
        "name": "anything",
        "session_id": run["session_id"],
        "thread_id": thread,
        "run_id": run["run_id"],
        "assistant_id": assistant["assistant_id"],
        "checkpoint_id": run["run_id"],
    }


@cache
def made_up(document: str, examples: int) -> list[tuple[Any, bool]]:
    """Requests by an OpenAPI document, and whether each is to be about things that are there.

    They are the same for each database, and making them up takes far longer than sending them.
    """
    made: list[tuple[Any, bool]] = []
    for found in schemathesis.openapi.from_dict(json.loads(document)).get_all_operations():
        operation = found.ok()
        modes = [schemathesis.GenerationMode.POSITIVE]
        if _can_be_wrong(operation):
            modes.append(schemathesis.GenerationMode.NEGATIVE)
        for mode in modes:
            for turn, case in enumerate(_cases(operation, mode, examples), start=1):
                about_known = bool(turn % 3 and operation.method.upper() != "DELETE")
                made.append((case, about_known))
    return made


def _can_be_wrong(operation) -> bool:
    """Say whether it takes more than a text in its path: others cannot be made up in seconds."""
    definition = operation.definition.raw
    parameters = definition.get("parameters", ())
    texts = [each["in"] == "path" and each["schema"].get("format") is None for each in parameters]
    return "requestBody" in definition or not all(texts)


def _cases(operation, mode, examples: int) -> list[Any]:
    strategy = operation.as_strategy(generation_mode=mode)
    cases: list[Any] = []

    @settings(OPTIONS, max_examples=examples)
    @given(case=strategy)
    def collect(case) -> None:
        cases.append(case)

    try:
        collect()
    except schemathesis.errors.InvalidSchema:
        raise
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
            raise
    return cases


@pytest.mark.parametrize("examples", [1, pytest.param(MANY, marks=pytest.mark.slow)])
def test_no_request_makes_the_server_fail(server, known, examples):
    tried = Tried(server.url)
    document = requests.get(f"{server.url}/openapi.json", timeout=30).text
    for case, about_known in made_up(document, examples):
        given = case.path_parameters
        if about_known and given:
            case.path_parameters = {name: known.get(name, given[name]) for name in given}
        tried.send(case)
        case.path_parameters = given
    tried.session.close()
    assert not tried.wrong, "\n\n".join(tried.wrong)
    assert tried.count > 50
    assert requests.get(f"{server.url}/ok", timeout=30).json() == {"ok": True}
