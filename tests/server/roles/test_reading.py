"""Who only reads changes nothing, whatever a request says beside its path."""

import json

import httpx
import pytest
from tests.processes import until


@pytest.fixture
def running(call):
    """A run of the viewer's owner that is under way: its thread's id and its own."""
    thread = call("member", "POST", "/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "slow", "input": {}}
    run = call("member", "POST", f"/threads/{thread}/runs", json=body).json()["run_id"]
    until(lambda: status(call, run) == "running", "the run")
    yield thread, run
    call("member", "POST", f"/runs/{run}/cancel?wait=true")


def status(call, run):
    return call("member", "GET", f"/runs/{run}").json()["status"]


def refused(keyed, caller, path):
    """The status of an answer."""
    with keyed.client(caller) as client, client.stream("GET", path) as answer:
        return answer.status_code


def leave(keyed, caller, path):
    """Open a request, and go away without its answer."""
    with (
        keyed.client(caller) as client,
        pytest.raises(httpx.ReadTimeout),
        client.stream("GET", path, timeout=2) as answer,
    ):
        answer.read()


@pytest.mark.parametrize("way", ["join", "stream"])
def test_a_viewer_cancels_no_run_by_leaving(keyed, call, running, way):
    thread, run = running
    path = f"/threads/{thread}/runs/{run}/{way}?cancel_on_disconnect"
    assert refused(keyed, "viewer", f"{path}=true") == 403
    assert refused(keyed, "other", f"{path}=true") == 404
    leave(keyed, "viewer", f"{path}=false")
    assert status(call, run) == "running"
    leave(keyed, "member", f"{path}=true")
    until(lambda: status(call, run) == "interrupted", "the cancel")


def test_a_viewer_who_watches_a_thread_does_not_change_what_its_owner_is_shown(keyed, call):
    thread = call("member", "POST", "/threads", json={}).json()["thread_id"]
    start = {"id": 1, "method": "run.start", "params": {"assistant_id": "echo", "input": {}}}
    answer = call("member", "POST", f"/threads/{thread}/commands", json=start)
    run = answer.json()["result"]["run_id"]
    until(lambda: status(call, run) == "success", "the run")
    for caller in ("viewer", "viewer", "member"):
        assert first_event(keyed, caller, thread) == "lifecycle"
    # It was watched to its end.
    assert first_event(keyed, "member", thread, patience=2) is None


def first_event(keyed, caller, thread, patience=30):
    """The first event of a subscription; None if there is none for a while."""
    wanted = {"channels": ["lifecycle", "input"]}
    path = f"/threads/{thread}/stream/events"
    with keyed.client(caller) as client:
        try:
            with client.stream("POST", path, json=wanted, timeout=patience) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        return json.loads(line.removeprefix("data: "))["method"]
        except httpx.ReadTimeout:
            return None
