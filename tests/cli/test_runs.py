"""`checkrail runs` on a real server with keys: what it lists, shows and cancels."""

import json
import re
import uuid
from itertools import takewhile

import pytest

from .test_output import on_terminal, uncoloured


def facts(done):
    """The facts that `show` prints, by their names."""
    table = re.findall(r"^  (\w+(?: for)?)  +(.*?) *$", done.out, re.MULTILINE)
    return dict(table)


def test_runs_are_listed_the_newest_first_with_what_became_of_them(site, runs):
    good, bad = site.ended(), site.ended("failing")
    blocked = site.ended(amount=5000)
    done = runs("ls", "-n", "3")
    assert (done.code, done.err) == (0, "")
    title, *rows = done.rows
    assert title == ["run", "agent", "status", "asked for", "took", "why"]
    assert [row[:3] for row in rows] == [
        [blocked, "echo", "error (blocked)"],
        [bad, "failing", "error"],
        [good, "echo", "success"],
    ]
    assert rows[0][-1] == "limit: Transfers over 1000 need the finance desk"
    assert "the tank is empty" in rows[1][-1]
    assert all(" ago" in row[3] for row in rows)


def test_what_became_of_a_run_is_told_as_it_was_and_is_no_markup(site, runs):
    run_id = site.ended("failing")
    for done in (runs("ls", "-n", "1"), runs("show", run_id), runs("tail", run_id)):
        assert "the tank is empty [/red]" in done.out


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_does_not_cut_ids(site, columns, tmp_path):
    made = site.ended(amount=5000)
    known = {"CHECKRAIL_SERVER": site.url, "CHECKRAIL_API_KEY": site.key}
    text = uncoloured(on_terminal("runs", "ls", "-n", "1", cwd=tmp_path, columns=columns, **known))
    assert made in text
    assert "error (blocked)" in text
    assert "…" not in text
    assert "limit: Transfers" in text


def test_machines_get_a_run_a_line_and_pages(site, runs):
    made = [site.ended() for _ in range(3)]
    lines = runs("ls", "--json", "-n", "2").out.splitlines()
    assert [json.loads(line)["run_id"] for line in lines] == [made[2], made[1]]
    [older] = runs("ls", "--json", "-n", "1", "--before", made[1]).out.splitlines()
    assert json.loads(older)["run_id"] == made[0]


def test_only_what_is_asked_for_is_listed(site, runs, until):
    bad = site.ended("failing")
    live = site.begun(until)
    thread = json.loads(runs("show", live, "--json").out)["thread_id"]

    def ids(*args):
        return [json.loads(line)["run_id"] for line in runs("ls", "--json", *args).out.splitlines()]

    assert ids("--agent", "failing", "-n", "1") == [bad]
    assert ids("--live") == ids("--status", "running") == ids("--thread", thread) == [live]
    assert bad in ids("--status", "error")


def test_no_runs_are_told_apart_from_no_answer(runs):
    done = runs("ls", "--agent", "nobody")
    assert (done.code, done.out, done.err) == (0, "", "There are no such runs.\n")
    assert runs("ls", "--agent", "nobody", "--json").out == ""


def test_a_run_is_shown_with_its_hooks_beside_its_agent(site, runs):
    run_id = site.ended(text="hello")
    done = runs("show", run_id)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"run {run_id} of echo\n")
    told = facts(done)
    assert told["status"] == "success"
    assert re.fullmatch(r"agent \d+ ms, hooks \d+ ms in \d calls(, waited .*)?", told["time"])
    assert re.search(r"before_run  \+\d+ ms\n  transform  stamp +changes .* stamped: ", done.out)
    assert re.search(r"on_result  \+\d+ ms\n  transform  nap +passes +\S+ ms", done.out)
    assert re.search(r"… agent \d+ ms\non_result", done.out)


def test_what_a_hook_says_cannot_draw_on_the_terminal(site, runs):
    run_id = site.ended()
    runs("tail", run_id)
    for _ in range(100):
        done = runs("show", run_id)
        if "nobody listens" in done.out:
            break
    assert "\\x1b[31mnobody listens" in done.out
    assert "\x1b" not in done.out
    assert "after_run done" in facts(done)["delivery"]


def test_a_blocked_run_says_by_whom_and_why(site, runs):
    told = facts(runs("show", site.ended(amount=5000)))
    assert told["status"] == "error (blocked)"
    assert told["blocked"] == "by limit: Transfers over 1000 need the finance desk"
    refused = facts(runs("show", site.ended(text="closed")))
    assert refused["status"] == "error (refused)"
    assert refused["blocked"] == "by closed: We are closed"


def test_a_failed_run_says_what_went_wrong(site, runs):
    told = facts(runs("show", site.ended("failing")))
    assert told["error"] == "ValueError: the tank is empty [/red]"


def test_machines_get_a_run_with_the_records_of_its_hooks(site, runs):
    run_id = site.ended()
    told = runs("show", run_id, "--json").data
    assert (told["run_id"], told["output"]["log"]) == (run_id, ["hello"])
    points = [(each["point"], each["event_type"]) for each in told["hooks"]]
    assert points[:2] == [("before_run", "hook_start"), ("before_run", "hook_complete")]
    assert ("on_result", "hook_complete") in points


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(site, runs):
    first, second = site.ended(), site.ended()
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=True))
    same = "".join(sign for sign, _ in pairs)
    longer = second[: len(same) + 8]
    assert runs("show", longer.upper(), "--json").data["run_id"] == second
    several = runs("show", same)
    assert (several.code, several.out) == (2, "")
    assert "give more of the id" in several.err
    nothing = runs("show", "zz")
    assert nothing.code == 2
    assert "begins with 'zz'" in nothing.err


def test_a_run_that_is_cancelled_is_over_when_that_was_waited_for(site, runs, until):
    run_id = site.begun(until)
    done = runs("cancel", run_id, "--wait")
    assert (done.code, done.out, done.err) == (0, f"the run {run_id} was cancelled\n", "")
    assert facts(runs("show", run_id))["status"] == "interrupted (cancelled)"
    assert runs("tail", run_id).code == 4


def test_cancelling_does_not_wait_unless_asked_to(site, runs, until):
    run_id = site.begun(until)
    told = runs("cancel", run_id, "--json")
    assert told.data == {"run_id": run_id, "action": "interrupt", "over": False}
    assert runs("tail", run_id).code == 4


def test_a_run_that_is_rolled_back_is_gone(site, runs, until):
    run_id = site.begun(until)
    done = runs("cancel", run_id, "--rollback", "--wait")
    assert done.out == f"the run {run_id} was rolled back\n"
    gone = runs("show", run_id)
    assert (gone.code, gone.out) == (2, "")
    assert f"run '{run_id}' not found (404)" in gone.err


def test_a_run_that_is_over_cannot_be_cancelled(site, runs):
    done = runs("cancel", site.ended())
    assert (done.code, done.out) == (2, "")
    assert "is over: its status is success (409)" in done.err


@pytest.mark.parametrize("name", ["show", "tail", "cancel"])
def test_a_run_that_is_not_there_is_told(runs, name):
    done = runs(name, str(uuid.UUID(int=7)))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"Error: run '{uuid.UUID(int=7)}' not found (404)\n"


def test_without_a_key_and_with_a_wrong_one_it_says_what_to_do(site, invoke, monkeypatch):
    monkeypatch.delenv("CHECKRAIL_API_KEY", raising=False)
    none = invoke("runs", "ls", "--server", site.url)
    assert (none.code, none.out) == (2, "")
    assert "(401, without a key). Say a key with CHECKRAIL_API_KEY" in none.err
    assert "`checkrail keys create` makes one" in none.err
    wrong = invoke("runs", "ls", "--server", site.url, "--key", "crk_not-this-one")
    assert wrong.code == 2
    assert "401, with the key or headers that were sent" in wrong.err
    assert "not-this-one" not in wrong.err


@pytest.mark.parametrize("key", ["", " ", "crk_ü", "crk_a\nb: c"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(site, invoke, key):
    done = invoke("runs", "ls", "--server", site.url, "--key", key)
    assert (done.code, done.out) == (2, "")
    assert "characters that no key has" in done.err
    assert "crk_" not in done.err


def test_each_key_sees_the_runs_of_its_owner(site, invoke):
    ann, bob = site.key_for("ann", "member"), site.key_for("bob", "viewer")
    run_id = site.ended(key=ann)
    mine = invoke("runs", "ls", "--json", "--server", site.url, "--key", ann)
    assert [json.loads(line)["run_id"] for line in mine.out.splitlines()] == [run_id]
    for args in (("show", run_id), ("tail", run_id)):
        assert "404" in invoke("runs", *args, "--server", site.url, "--key", bob).err
    forbidden = invoke("runs", "cancel", run_id, "--server", site.url, "--key", bob)
    assert (forbidden.code, "403" in forbidden.err) == (2, True)


@pytest.mark.parametrize("args", [("ls",), ("show", "019a"), ("tail", str(uuid.UUID(int=7)))])
def test_where_no_server_answers_it_says_how_to_start_one(checkrail, args):
    done = checkrail("runs", *args, CHECKRAIL_SERVER="http://127.0.0.1:1")
    assert (done.code, done.out) == (2, "")
    assert "no server answers at http://127.0.0.1:1" in done.err
    assert "checkrail dev" in done.err
    assert "--server" in done.err


@pytest.mark.parametrize("url", ["", "localhost:2024", "ftp://here", "http://", "http://a:b@c"])
def test_an_address_that_is_none_is_refused(invoke, url):
    done = invoke("runs", "ls", "--server", url)
    assert (done.code, done.out) == (2, "")
    assert "--server" in done.err
    assert "a:b" not in done.err


def test_the_help_tells_what_there_is_with_an_example(invoke):
    done = invoke("runs", "--help")
    assert done.code == 0
    assert "Example: checkrail runs ls" in done.out
    for name in ("ls", "show", "tail", "cancel"):
        text = invoke("runs", name, "--help").out
        assert f"Example: checkrail runs {name}" in text
        for told in ("--server URL", "--key KEY", "CHECKRAIL_API_KEY", "--json"):
            assert told in text
    assert "3 if it was blocked" in " ".join(invoke("runs", "tail", "--help").out.split())
