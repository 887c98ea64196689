"""The key of a runner opens the routes of runners and nothing else."""

import json

import httpx
import pytest

from .conftest import started
from .harness import Running


@pytest.fixture(scope="module")
def place(new_database, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with started(new_database("sqlite"), folder, "keyed.yaml") as made:
        yield made


def key_of(place, name, role):
    """Make a key."""
    said = place.server.run("keys", "create", name, "--role", role, "--json")
    return json.loads(said[said.index("{") : said.rindex("}") + 1])["key"]


def client_of(place, key):
    return httpx.Client(base_url=place.server.url, headers={"x-api-key": key}, trust_env=False)


def test_a_runner_with_its_key_carries_out_runs_of_others(place):
    runner = place.runner("--tag", "elsewhere", CHECKRAIL_RUNNER_KEY=key_of(place, "r1", "runner"))
    with client_of(place, key_of(place, "user", "member")) as client:
        body = {"assistant_id": "where", "input": {"a": 1}}
        answer = client.post("/runs/wait", json=body)
        assert answer.json()["pid"] == runner.pid
    runner.kill()


def test_its_key_opens_nothing_else(place):
    with client_of(place, key_of(place, "r2", "runner")) as client:
        for method, path in (
            ("GET", "/runs"),
            ("POST", "/runs"),
            ("POST", "/threads"),
            ("POST", "/assistants/search"),
            ("GET", "/metrics"),
        ):
            assert client.request(method, path, json={}).status_code == 403, path


def test_keys_of_users_do_not_open_the_routes_of_runners(place):
    for role in ("viewer", "member"):
        with client_of(place, key_of(place, role, role)) as client:
            answer = client.post("/runner/register", json={"name": "x"})
            assert answer.status_code == 403


def test_a_runner_is_spoken_for_by_its_own_key_alone(place):
    with (
        client_of(place, key_of(place, "mine", "runner")) as mine,
        client_of(place, key_of(place, "yours", "runner")) as yours,
    ):
        runner_id = mine.post("/runner/register", json={"name": "x"}).json()["runner_id"]
        headers = {"X-Runner-Id": runner_id}
        assert yours.get("/runner/runs", headers=headers).status_code == 404
        assert yours.post("/runner/deregister", headers=headers).status_code == 404
        assert mine.post("/runner/deregister", headers=headers).status_code == 204


def test_a_runner_with_a_wrong_key_ends_and_says_why(place, tmp_path):
    runner = Running(place.server, tmp_path / "log", env={"CHECKRAIL_RUNNER_KEY": "crk_wrong"})
    runner.begin()
    assert runner.process.wait(60) == 4
    assert "key" in runner.output().lower()
    assert "crk_wrong" not in runner.output()
