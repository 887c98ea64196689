"""Sessions: opened by runs, gone on with, resumed, and listed."""

import json
import os
import subprocess
import sys

from .support import asked, got, ran


async def test_a_run_without_a_session_opens_one_with_one_thread(http):
    run = await ran(http, "parrot", {"prompt": "One"}, metadata={"team": "red"})
    session = await got(http, f"/sessions/{run['session_id']}")
    assert (session["channel"], session["parent_session_id"]) == ("api", None)
    assert session["thread_ids"] == [run["thread_id"]]
    assert session["metadata"] == {"team": "red"}
    assert [each["run_id"] for each in session["runs"]] == [run["run_id"]]


async def test_a_run_in_a_session_goes_on_with_its_conversation(http):
    first = await ran(http, "parrot", {"prompt": "One"})
    second = await ran(http, "parrot", {"prompt": "Two"}, session_id=first["session_id"])
    assert second["thread_id"] == first["thread_id"]
    assert (first["result_text"], second["result_text"]) == ("Hello", "Hello again")
    listed = await got(http, f"/sessions/{first['session_id']}/runs")
    assert [each["run_id"] for each in listed] == [second["run_id"], first["run_id"]]
    again = await got(http, "/runs", session_id=first["session_id"])
    assert [each["run_id"] for each in again] == [second["run_id"], first["run_id"]]


async def test_a_session_is_resumed_with_something_that_is_said_to_it(http):
    first = await ran(http, "parrot", {"prompt": "One"})
    path = f"/sessions/{first['session_id']}/resume"
    answer = await http.post(path, json={"prompt": "Go on", "execution_mode": "sync"})
    assert answer.status_code == 200, answer.text
    run = answer.json()
    assert (run["origin"], run["status"]) == ("resume", "success")
    assert (run["thread_id"], run["session_id"]) == (first["thread_id"], first["session_id"])
    assert run["parameters"] == {"prompt": "Go on"}
    at_once = await http.post(path, json={"prompt": "And on"})
    assert at_once.json()["run_id"] != run["run_id"]
    assert (await http.post(path, json={"prompt": ""})).status_code == 422
    assert (await http.post(path, json={})).status_code == 422


async def test_a_command_resumes_a_session_and_prints_what_came_of_it(http, coordinator):
    first = await ran(http, "parrot", {"prompt": "One"})

    def resumed(*words):
        line = [sys.executable, "-m", "checkrail", "resume", first["session_id"], "Go on", *words]
        env = {**os.environ, "CHECKRAIL_SERVER": coordinator.url}
        return subprocess.run(
            line, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    done = resumed()
    assert done.returncode == 0, done.stderr
    assert "Hello again" in done.stdout
    told = json.loads(resumed("--json").stdout)
    assert (told["status"], told["result_text"]) == ("success", "Hello again again")
    queued = resumed("--no-wait")
    assert queued.returncode == 0
    assert "run " in queued.stdout


async def test_a_session_that_is_not_there_is_not_found(http):
    nobodys = "00000000-0000-7000-8000-000000000000"
    for path in ("", "/runs"):
        await got(http, f"/sessions/{nobodys}{path}", 404)
    answer = await http.post(f"/sessions/{nobodys}/resume", json={"prompt": "x"})
    assert answer.status_code == 404
    await got(http, "/sessions", 404, before=nobodys)


async def test_sessions_are_listed_by_pages_the_newest_first(http):
    made = [
        (await asked(http, "adder", parameters={"a": 1, "b": n}))["session_id"] for n in range(3)
    ]
    page = await got(http, "/sessions", limit=2)
    assert [each["session_id"] for each in page] == [made[2], made[1]]
    following = await got(http, "/sessions", limit=1, before=made[1])
    assert [each["session_id"] for each in following] == [made[0]]
