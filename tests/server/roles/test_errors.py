"""What an exception of a hook said is for admins; others learn which hook failed, and how."""

import pytest
from tests.processes import until

SECRET = "hunter2"


@pytest.fixture(scope="module")
def failed(keyed):
    """A run of the member's two of whose hooks raised: its thread's id and its own."""
    with keyed.client("member") as member:
        thread = member.post("/threads", json={}).json()["thread_id"]
        body = {"assistant_id": "echo", "input": {"text": "x"}, "stream_mode": ["events", "debug"]}
        answer = member.post(f"/threads/{thread}/runs", json=body).json()
        path = f"/runs/{answer['run_id']}"

        def over():
            kinds = [each["event_type"] for each in member.get(f"{path}/hooks").json()]
            return kinds.count("hook_failed") == 2

        until(over, "the records of both hooks")
    return thread, answer["run_id"]


def streamed(client, method, path, last="", **options):
    """What a stream tells up to its end, or to a line that has the `last` words of interest."""
    lines = []
    with client.stream(method, path, **options) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            lines.append(line)
            if last and all(word in line for word in last.split()):
                break
    return "\n".join(lines)


def everything(keyed, caller, thread, run):
    """All that a caller can read of a run, by the path that tells it."""
    at = f"/threads/{thread}/runs/{run}"
    told = {}
    with keyed.client(caller) as client:
        for path in (f"/runs/{run}", f"/runs/{run}/hooks", at, f"{at}/join", f"/threads/{thread}"):
            told[path] = client.get(path).text
        for path in (f"/runs/{run}/events", f"{at}/stream"):
            told[path] = streamed(client, "GET", path)
        failed = f'{run} "hook_failed" "late_ledger"'
        told["/events?after=0"] = streamed(client, "GET", "/events?after=0", failed)
        wanted = {"channels": ["lifecycle", "custom", "updates"], "since": 0}
        path = f"/threads/{thread}/stream/events"
        told[path] = streamed(client, "POST", path, '"completed"', json=wanted)
    assert all(told.values())
    return told


@pytest.mark.parametrize("caller", ["member", "viewer"])
def test_what_a_hooks_exception_said_is_told_to_admins_alone(keyed, failed, caller):
    told = everything(keyed, caller, *failed)
    assert [path for path, text in told.items() if SECRET in text] == []
    records = [f"/runs/{failed[1]}/hooks", f"/runs/{failed[1]}/events", "/events?after=0"]
    for path in records:
        assert "the hook 'ledger' failed (error). Admins can see" in told[path]
    admins = everything(keyed, "admin", *failed)
    assert sorted(path for path, text in admins.items() if SECRET in text) == sorted(records)


def test_why_a_finish_hook_was_not_reached_is_told_to_admins_alone(call):
    body = {"assistant_id": "reporting", "input": {}}
    run = call("member", "POST", "/runs", json=body).json()["run_id"]

    def error(caller):
        owed = call(caller, "GET", f"/runs/{run}").json()["deliveries"]
        return next((each["last_error"] for each in owed if each["last_error"]), None)

    until(lambda: error("member"), "an attempt")
    assert "127.0.0.1:9" in error("admin")
    for caller in ("member", "viewer"):
        assert error(caller) == "the after_run failed. Admins can see what its error was"
