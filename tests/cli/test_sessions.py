"""`checkrail sessions` on a real server with keys: what it lists and shows, and how they end."""

import json
import textwrap

import httpx2
import pytest
from tests.server.harness import Served, on_sqlite

from .run_site import Site

PROJECT = """
    auth: { keys: true }
    agents:
      desk: { model: { provider: scripted, replies: [Hello] } }
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A server with an agent to talk to."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "checkrail.yaml").write_text(textwrap.dedent(PROJECT).lstrip("\n"))
    served = Served(on_sqlite(folder), folder / "log", config=folder / "checkrail.yaml").start()
    try:
        yield Site(served)
    finally:
        served.stop()


@pytest.fixture(scope="module")
def ann(desk):
    return desk.key_for("ann", "member")


@pytest.fixture(scope="module")
def bob(desk):
    return desk.key_for("bob", "member")


@pytest.fixture
def sessions(desk, invoke, monkeypatch):
    """Call `checkrail sessions` as the admin, or with another key."""
    monkeypatch.setenv("CHECKRAIL_SERVER", desk.url)

    def called(*args, key=None):
        monkeypatch.setenv("CHECKRAIL_API_KEY", key or desk.key)
        return invoke("sessions", *args)

    return called


@pytest.fixture
def say(desk):
    """Say something on a channel, and return the message."""

    def said(key, channel="web", **more):
        body = {"content": "Hello", "channel": channel, **more}
        headers = {"x-api-key": key}
        answer = httpx2.post(f"{desk.url}/messages", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return said


def listed(done):
    assert (done.code, done.err) == (0, "")
    return [json.loads(line)["session_id"] for line in done.out.splitlines()]


def test_sessions_are_listed_the_newest_first_by_what_they_are(sessions, say, ann, bob):
    first = say(ann, "web")["session_id"]
    second = say(ann, "phone")["session_id"]
    third = say(bob, "phone")["session_id"]
    title, *rows = sessions("ls", "-n", "3").rows
    assert title == ["session", "channel", "user", "began", "ended"]
    assert [row[:3] for row in rows] == [
        [third, "phone", "bob"],
        [second, "phone", "ann"],
        [first, "web", "ann"],
    ]
    assert listed(sessions("ls", "--json", "--user", "ann")) == [second, first]
    assert listed(sessions("ls", "--json", "--channel", "phone", "--user", "bob")) == [third]
    assert listed(sessions("ls", "--json", "-n", "1", "--before", third)) == [second]
    assert listed(sessions("ls", "--json", key=ann)) == [second, first]
    assert listed(sessions("ls", "--json", "--user", "ann", key=bob)) == []
    none = sessions("ls", "--channel", "fax")
    assert (none.code, none.out, none.err) == (0, "", "There are no such sessions.\n")


def test_a_session_is_shown_with_its_threads_and_runs(sessions, say, ann):
    message = say(ann, "show")
    page = sessions("show", "last").out
    assert page.startswith(f"session {message['session_id']}\n")
    for told in ("show", "ann", message["thread_id"], message["run_id"]):
        assert told in page
    whole = sessions("show", message["session_id"], "--json").data
    assert whole["thread_ids"] == [message["thread_id"]]


def test_a_session_ends_once_by_the_beginning_of_its_id(sessions, say, ann, bob):
    session_id = say(ann, "end")["session_id"]
    others = sessions("end", session_id, key=bob)
    assert (others.code, "not found (404)" in others.err) == (2, True)
    known = listed(sessions("ls", "--json", "-n", "200"))
    size = next(
        size
        for size in range(1, 37)
        if sum(each.startswith(session_id[:size]) for each in known) == 1
    )
    done = sessions("end", session_id[:size].upper())
    assert (done.code, done.out) == (0, f"the session {session_id} has ended\n")
    assert "(requested)" in sessions("show", session_id).out
    assert session_id not in listed(sessions("ls", "--json", "--open", "-n", "200"))
    again = sessions("end", session_id)
    assert (again.code, again.out) == (2, "")
    assert "has ended already (requested) (409)" in again.err
    other = say(ann, "end")["session_id"]
    assert sessions("end", other, "--json").data["reason"] == "requested"


def test_an_id_that_names_none_or_several_says_so(sessions, say, ann, bob):
    say(ann), say(bob)
    nothing = sessions("show", "zz")
    assert (nothing.code, nothing.out) == (2, "")
    assert "begins with 'zz': see `checkrail sessions ls`" in nothing.err
    assert "give more of the id" in sessions("show", "0").err
