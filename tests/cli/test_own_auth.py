"""Commands at a server whose project knows its callers by an `auth.py`, as the docs write one."""

import re
import textwrap
from pathlib import Path

import httpx2
import pytest
from tests.server.harness import Served, on_sqlite

DOCS = Path(__file__).parents[2] / "docs"

PROJECT = """
    agents:
      pay: { model: { replies: [It is paid, It is paid again] } }
    auth: { path: "./auth.py:auth" }
    hooks:
      on_run_start:
        - { name: four_eyes, type: approval, question: May this be paid?, timeout: 3600 }
"""


def documented_auth():
    """The `auth.py` of the page on run hooks."""
    page = (DOCS / "run-hooks.md").read_text(encoding="utf-8")
    return re.search(r"<!-- file: auth.py -->\n```python\n(.*?)```", page, re.DOTALL)[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_auth")
    config = folder / "checkrail.yaml"
    config.write_text(textwrap.dedent(PROJECT))
    (folder / "auth.py").write_text(documented_auth())
    served = Served(on_sqlite(folder), folder / "log", config=config).start()
    try:
        yield served.url
    finally:
        served.stop()


@pytest.fixture
def run(server):
    """A run of ada's, in a session, that waits for an answer."""
    with httpx2.Client(headers={"authorization": "Bearer ada-token"}, timeout=60) as client:
        asked = {"parameters": {"prompt": "Pay it"}, "execution_mode": "async_poll"}
        found = client.post(f"{server}/runs", json={"agent_name": "pay", **asked}).json()
        with client.sse(f"{server}/runs/{found['run_id']}/events") as events:
            next(event for event in events if event.event == "approval")
    return found


@pytest.fixture
def ask(server, invoke, monkeypatch):
    monkeypatch.setenv("CHECKRAIL_SERVER", server)
    monkeypatch.delenv("CHECKRAIL_API_KEY", raising=False)
    return invoke


@pytest.mark.parametrize(
    "known",
    [("--key", "ada-token"), ("--header", "Authorization: Bearer ada-token")],
    ids=["key", "header"],
)
def test_runs_approvals_and_resume_log_in(ask, run, known):
    listed = ask("runs", "ls", *known)
    assert listed.code == 0, listed.err
    assert run["run_id"] in listed.out
    approved = ask("approvals", "approve", "last", *known)
    assert approved.code == 0, approved.err
    followed = ask("runs", "tail", run["run_id"], *known)
    assert followed.code == 0, followed.err
    resumed = ask("resume", run["session_id"], "again", "--no-wait", *known)
    assert resumed.code == 0, resumed.err


def test_a_header_wins_over_the_key_and_others_see_nothing(ask, run):
    done = ask("runs", "ls", "--key", "ada-token", "--header", "authorization:Bearer bob-token")
    assert done.code == 0
    assert run["run_id"] not in done.out


def test_the_advice_is_for_this_server(ask):
    for args, sent in (((), "without a key"), (("--key", "wrong"), "with the key or headers")):
        done = ask("runs", "ls", *args)
        assert done.code == 2
        assert f"Who are you? (401, {sent}" in done.err
        assert "checkrail keys create" not in done.err
        for way in ("`auth`", "CHECKRAIL_API_KEY", "`Authorization: Bearer`", "--header"):
            assert way in done.err


@pytest.mark.parametrize("given", ["token", ": x", "a b: c", "x: ", "x: a\nb: c", "x: ü"])
def test_a_header_that_is_none_is_refused_and_not_shown(ask, given):
    done = ask("runs", "ls", "--header", given)
    assert (done.code, done.out) == (2, "")
    assert "--header is a name and a value, such as 'X-Token: abc'" in done.err
    assert given not in done.err
