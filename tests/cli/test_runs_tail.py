"""`checkrail runs tail` on a real server: events as they come, and an exit code at the end."""

import json
import signal
import subprocess

import pytest
from tests.server.harness import Served, on_sqlite

from .conftest import COMMAND, environment
from .run_site import Site, made_project


@pytest.mark.parametrize(
    ("agent", "input", "code", "end"),
    [
        ("echo", {}, 0, "success (success)"),
        ("asking", {}, 0, "interrupted (interrupted)"),
        ("echo", {"amount": 5000}, 3, "error (blocked): Transfers over 1000"),
        ("echo", {"text": "closed"}, 3, "error (refused)"),
        ("failing", {}, 4, "error (error): the tank is empty"),
    ],
)
def test_following_a_run_leaves_with_what_became_of_it(site, runs, *, agent, input, code, end):
    done = runs("tail", site.ended(agent, **input))
    assert done.code == code
    assert end in (done.out + done.err).splitlines()[-1]


def test_events_are_printed_one_a_line(site, runs):
    run_id = site.ended()
    lines = runs("tail", run_id).out.splitlines()
    assert [line.split(maxsplit=1)[1].strip() for line in lines[:2]] == [
        "hook_start  stamp at before_run",
        "hook_complete  stamp at before_run continue",
    ]
    assert [line.split()[0] for line in lines[2:]] == [str(n) for n in range(1, len(lines) - 1)]
    assert lines[2].split()[1] == "metadata"
    told = [json.loads(line) for line in runs("tail", run_id, "--json").out.splitlines()]
    assert [each["event"] for each in told] == [line.split()[1] for line in lines]
    assert told[-1]["data"]["status"] == "success"


def following(site, *args):
    """Start `checkrail runs tail` as a process."""
    env = environment(CHECKRAIL_SERVER=site.url, CHECKRAIL_API_KEY=site.key, PYTHONUNBUFFERED="1")
    line = [COMMAND, "runs", "tail", *args]
    return subprocess.Popen(
        line,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 - no other thread runs here yet
    )


def _heed_ctrl_c():
    """A test run in the background of a shell ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_run_is_followed_while_it_goes_on_until_it_ends(site, until):
    run_id = site.begun(until)
    with following(site, run_id, "--json") as process:
        while json.loads(process.stdout.readline())["event"] != "metadata":
            pass
        assert process.poll() is None
        until.touch()
        out, err = process.communicate(timeout=60)
    last = json.loads(out.splitlines()[-1])
    assert (process.returncode, err) == (0, "")
    assert (last["event"], last["data"]["status"]) == ("end", "success")


def test_ctrl_c_stops_following_and_not_the_run(site, runs, until):
    run_id = site.begun(until)
    with following(site, run_id) as process:
        while "metadata" not in process.stdout.readline():
            pass
        process.send_signal(2)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"The run goes on. To stop it: checkrail runs cancel {run_id}" in err
    assert runs("show", run_id, "--json").data["status"] == "running"


def test_a_server_that_dies_is_waited_for_and_no_event_is_told_twice(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    until = folder / "go"
    served = Served(on_sqlite(folder), folder / "log", config=made_project(folder)).start()
    try:
        site = Site(served)
        with following(site, site.begun(until), "--json") as process:
            first = json.loads(process.stdout.readline())
            served.kill()
            served.start()
            until.touch()
            out, err = process.stdout.read(), process.stderr.read()  # what is buffered too
            process.wait(90)
        told = [first, *map(json.loads, out.splitlines())]
    finally:
        served.kill()
    assert (process.returncode, err) == (0, "")
    assert {each["event"] for each in told if each["seq"] == 0} == {"hook_start", "hook_complete"}
    numbers = [each["seq"] for each in told if each["seq"]]
    assert numbers == sorted({*numbers})
    assert [each["data"]["attempt"] for each in told if each["event"] == "metadata"] == [1, 2]
