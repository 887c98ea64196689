"""`checkrail approvals` on a real server with keys: what it lists and shows, and its answers."""

import json
import textwrap

import httpx2
import pytest
from tests.server.harness import Served, on_sqlite

from .run_site import Site

PROJECT = """
    auth: { keys: true }
    agents:
      pay:
        type: procedural
        path: ./own.py:pay
        parameters_schema: { type: object, required: [amount] }
        hooks:
          on_run_start:
            - name: four_eyes
              type: approval
              question: "May this be paid?\\u001b[31m"
              timeout: 3600
"""

OWN = """
    def pay(parameters):
        return {"paid": parameters["amount"]}
"""


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """A server whose agent asks before it pays."""
    folder = tmp_path_factory.mktemp("desk")
    for name, text in (("checkrail.yaml", PROJECT), ("own.py", OWN)):
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    config = folder / "checkrail.yaml"
    served = Served(on_sqlite(folder), folder / "log", config=config).start()
    try:
        yield Site(served)
    finally:
        served.stop()


@pytest.fixture
def approvals(desk, invoke, monkeypatch):
    """Call `checkrail approvals` as the admin, or with another key."""
    monkeypatch.setenv("CHECKRAIL_SERVER", desk.url)

    def called(*args, key=None):
        monkeypatch.setenv("CHECKRAIL_API_KEY", key or desk.key)
        return invoke("approvals", *args)

    return called


@pytest.fixture
def asked(desk, approvals):
    """Ask for a run that asks in turn, and give its id and that of the question."""

    def asked(amount=5, key=None):
        headers = {"x-api-key": key or desk.key}
        body = {"assistant_id": "pay", "input": {"amount": amount}, "on_completion": "keep"}
        answer = httpx2.post(f"{desk.url}/runs", json=body, headers=headers, timeout=60)
        run_id = answer.json()["run_id"]
        at = f"{desk.url}/runs/{run_id}/events"
        with httpx2.Client(headers=headers, timeout=60) as client, client.sse(at) as events:
            for event in events:
                if event.event == "approval":
                    return run_id, json.loads(event.data)["data"]["approval_id"]
        raise AssertionError("nobody asked")

    return asked


def output(desk, run_id):
    with httpx2.Client(headers={"x-api-key": desk.key}, timeout=60) as client:
        with client.sse(f"{desk.url}/runs/{run_id}/events") as events:
            assert [event.event for event in events][-1] == "end"
        return client.get(f"{desk.url}/runs/{run_id}").json()


def test_open_questions_are_listed_and_shown_with_what_they_are_about(approvals, asked):
    run_id, approval_id = asked()
    done = approvals("ls")
    assert (done.code, done.err) == (0, "")
    title, first, *_ = done.rows
    assert title == ["approval", "agent", "point", "hook", "status", "asked", "question"]
    assert first[:5] == [approval_id, "pay", "on_run_start", "four_eyes", "open"]
    assert first[-1] == "May this be paid?\\x1b[31m"
    page = approvals("show", approval_id[:30]).out
    assert "May this be paid?" in page
    assert f"pay, run {run_id}" in page
    assert "then block" in page
    assert '"amount": 5' in page
    assert "\x1b" not in page
    assert json.loads(approvals("show", approval_id, "--json").out)["value"] == {"amount": 5}


def test_a_yes_lets_the_run_go_on(desk, approvals, asked):
    run_id, approval_id = asked()
    done = approvals("approve", approval_id, "--reason", "fine")
    assert (done.code, done.out) == (
        0,
        f"approved: May this be paid?\\x1b[31m (run {run_id})\n",
    )
    assert output(desk, run_id)["output"] == {"paid": 5}
    listed = [json.loads(line) for line in approvals("ls", "--all", "--json").out.splitlines()]
    [row] = [row for row in listed if row["approval_id"] == approval_id]
    assert (row["status"], row["reason"], row["answered_by"]) == ("approved", "fine", "root")
    page = approvals("show", approval_id).out
    assert "by root" in page
    assert "fine" in page


def test_a_yes_to_another_value_and_a_no(desk, approvals, asked):
    run_id, approval_id = asked()
    assert approvals("approve", "last", "--value", '{"amount": 3}').code == 0
    assert output(desk, run_id)["output"] == {"paid": 3}
    assert '"amount": 3' in approvals("show", approval_id).out
    run_id, approval_id = asked()
    told = json.loads(approvals("deny", approval_id, "--reason", "no", "--json").out)
    assert (told["status"], told["run_id"]) == ("denied", run_id)
    assert output(desk, run_id)["block_reason"] == "no"
    assert approvals("ls", "--status", "denied", "--run", run_id).rows[1][0] == approval_id


def test_what_cannot_be_answered_says_why(approvals, asked):
    run_id, approval_id = asked()
    bad = approvals("approve", approval_id, "--value", '{"sum": 3}')
    assert (bad.code, "does not fit" in bad.err) == (2, True)
    assert "is JSON, but" in approvals("approve", approval_id, "--value", "{").err
    assert approvals("deny", approval_id).code == 0
    again = approvals("approve", approval_id)
    assert (again.code, "denied by root already (409)" in again.err) == (2, True)
    assert "none of the newest" in approvals("show", "zzz").err
    assert "not both" in approvals("ls", "--all", "--status", "open").err
    empty = approvals("ls", "--run", run_id)
    assert (empty.code, empty.err) == (0, "There are no such questions.\n")


def test_others_see_nothing_and_roles_that_may_not_answer_do_not(desk, approvals, asked):
    ada, viewer = desk.key_for("ada", "member"), desk.key_for("vic", "viewer")
    runner = desk.key_for("robot", "runner")
    _, approval_id = asked(key=ada)
    assert "not found" in approvals("approve", approval_id, key=desk.key_for("bob", "member")).err
    for key in (viewer, runner):
        done = approvals("approve", approval_id, key=key)
        assert done.code == 2
        assert "403" in done.err or "404" in done.err
    assert approvals("approve", approval_id, key=ada).code == 0
    assert "no question is open" in approvals("show", "last", key=ada).err


ASKING = """
    hooks:
      {point}:
        - {{ name: four_eyes, type: approval, question: May it? }}
    agents:
      work: {{ type: procedural, path: "./own.py:pay" }}
"""


@pytest.mark.parametrize(
    ("point", "held"), [("on_run_start", False), ("on_result", False), ("before_tool_call", True)]
)
def test_check_says_where_a_question_holds_a_process(invoke, write, point, held):
    write("own.py", OWN)
    write("checkrail.yaml", ASKING.format(point=point))
    warnings = invoke("check", "checkrail.yaml", "--json").data["warnings"]
    told = f"a run that asks at {point} is held by its process until it is answered"
    assert any(told in item["found"] for item in warnings) is held
