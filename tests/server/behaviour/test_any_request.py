"""Any request that the OpenAPI document allows, and many that it does not: never a 500."""

import os
import warnings

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    import schemathesis

EXAMPLES = int(os.environ.get("CHECKRAIL_TEST_EXAMPLES", "2"))
OPTIONS = settings(
    max_examples=EXAMPLES,
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


def test_no_request_makes_the_server_fail(server, known):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = Tried(server.url)
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            _try(operation, mode, tried, known)
    tried.session.close()
    assert not tried.wrong, "\n\n".join(tried.wrong)
    assert tried.count > 50
    assert requests.get(f"{server.url}/ok", timeout=30).json() == {"ok": True}


def _try(operation, mode, tried, known) -> None:
    strategy = operation.as_strategy(generation_mode=mode)
    turn = [0]

    @OPTIONS
    @given(case=strategy)
    def send(case) -> None:
        turn[0] += 1
        if turn[0] % 3 and case.path_parameters and operation.method.upper() != "DELETE":
            case.path_parameters = {
                name: known.get(name, value) for name, value in case.path_parameters.items()
            }
        tried.send(case)

    try:
        send()
    except schemathesis.errors.InvalidSchema:
        raise
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
            raise
