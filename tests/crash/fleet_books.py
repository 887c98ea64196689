"""The books of a fleet: what has to hold when all is over, whoever was killed, and when."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable

from .site import Row, Site, eventually

OVER = 300.0


def settled(site: Site) -> None:
    """Wait until no run is under way and nothing is owed."""

    def left() -> list[Row]:
        of_run = "run_id, agent_name, phase, attempt, lost, worker_id, cancel"
        live = site.rows(f"SELECT {of_run} FROM runs WHERE ended_at IS NULL")
        return live + site.rows("SELECT * FROM deliveries WHERE status = 'owed'")

    try:
        eventually(lambda: not left(), "all runs and deliveries", OVER)
    except AssertionError:
        raise AssertionError(f"still under way after {OVER:.0f} s: {left()}") from None


def check(site: Site, admitted: set[str], received: set[str]) -> Counter[tuple[str, str]]:
    """Check everything; give how often each agent ended in which way."""
    runs = {row["run_id"]: row for row in site.rows("SELECT * FROM runs ORDER BY seq")}
    assert admitted <= runs.keys(), "a run that was admitted is gone"
    _check_payments(site, runs)
    _check_ends(site, runs)
    _check_finish(site, [run for run in runs.values() if run["phase"] != "refused"], received)
    _check_chains(runs)
    _check_order(runs)
    _check_records(site, runs)
    return Counter((run["agent_name"], run["phase"]) for run in runs.values())


def _check_ends(site: Site, runs: dict[str, Row]) -> None:
    told = defaultdict(list)
    for row in site.rows("SELECT run_id, payload FROM events ORDER BY run_id, last_seq"):
        told[row["run_id"]] += json.loads(bytes(row["payload"]))
    for run in runs.values():
        assert run["worker_id"] is None
        if run["phase"] == "refused":
            continue
        numbers = [seq for seq, *_ in told[run["run_id"]]]
        listed = [(seq, event) for seq, event, *_ in told[run["run_id"]]]
        assert numbers == sorted(set(numbers)), f"events twice, or out of order: {listed}"
        ends = [data["status"] for _, event, *_, data in told[run["run_id"]] if event == "end"]
        assert ends == [run["status"]], f"run {run['run_id']} ended {len(ends)} times"


def _check_finish(site: Site, runs: list[Row], received: set[str]) -> None:
    dead = site.rows("SELECT run_id, kind, last_error FROM deliveries WHERE status <> 'done'")
    assert not dead
    noted = {line["run_id"] for line in site.journal("finish")}
    for run in runs:
        assert run["run_id"] in noted, f"nobody was told of the end of {run['run_id']}"
        if run["agent_name"] == "work":
            assert run["run_id"] in received, f"the web was not told of {run['run_id']}"


def _check_chains(runs: dict[str, Row]) -> None:
    following = Counter(
        run["parent_run_id"] for run in runs.values() if run["agent_name"] == "follow"
    )
    for run in runs.values():
        if run["agent_name"] == "work" and run["phase"] != "refused":
            assert following[run["run_id"]] == 1, f"{run['run_id']} is followed by several, or none"


def _check_payments(site: Site, runs: dict[str, Row]) -> None:
    """Check that what somebody allowed was done once, and never without that."""
    paid = Counter(line["run_id"] for line in site.journal("paid"))
    asked = "SELECT run_id FROM approvals WHERE point = 'before_tool_call' AND status = 'approved'"
    allowed = {row["run_id"] for row in site.rows(asked)}
    for run in runs.values():
        if run["agent_name"] == "pays" and run["phase"] == "success":
            assert paid[run["run_id"]] >= 1, f"{run['run_id']} was not paid"
    twice = [run_id for run_id, times in paid.items() if times > 1]
    story = [(runs[run_id], site.events(run_id), site.records(run_id)) for run_id in twice]
    assert not twice, f"paid more than once: {story}"
    assert paid.keys() <= allowed


def _check_order(runs: dict[str, Row]) -> None:
    """Check that the runs of a thread were carried out one after the other, in their order."""
    last: dict[str, Row] = {}
    for run in runs.values():
        if run["phase"] == "refused" or run["started_at"] is None:
            continue
        before = last.get(run["thread_id"])
        if before is not None:
            early = before["ended_at"] - run["started_at"]
            assert early <= 0, f"{run['run_id']} began {early} s before {before['run_id']} ended"
        last[run["thread_id"]] = run


def _check_records(site: Site, runs: dict[str, Row]) -> None:
    balance: Counter[tuple[str, str]] = Counter()
    for row in site.rows("SELECT run_id, hook, event_type FROM hook_records"):
        if row["run_id"] in runs and row["event_type"].startswith("hook_"):
            side = 1 if row["event_type"] == "hook_start" else -1
            balance[row["run_id"], row["hook"]] += side
    uneven = {call: left for call, left in balance.items() if left}
    assert not uneven, f"starts without an ending (or with two): {uneven}"


def check_errors(site: Site, was_frozen: Callable[[Row], bool]) -> None:
    """Check that runs failed only because a process was frozen that held them, or their hook."""
    failed = site.rows("SELECT * FROM runs WHERE phase NOT IN ('success', 'refused')")
    wrong = [
        (run["run_id"], run["agent_name"], run["phase"], run["error"], run["error_type"])
        for run in failed
        if not (was_frozen(run) and _was_lost(run))
    ]
    assert not wrong, f"{len(wrong)} runs ended as errors that saw an outage only: {wrong[:5]}"


def check_history(site: Site) -> None:
    """Check that each thread has one line of checkpoints, with each step of each run in it once."""
    forks = site.rows(
        "SELECT thread_id, parent_checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' "
        "GROUP BY thread_id, parent_checkpoint_id HAVING count(*) > 1"
    )
    assert not forks, f"{len(forks)} checkpoints have two successors: {forks[:5]}"
    runs = site.rows(
        "SELECT thread_id, output FROM runs "
        "WHERE agent_name = 'steps' AND phase = 'success' ORDER BY seq"
    )
    steps: Counter[str] = Counter()
    for run in runs:
        steps[run["thread_id"]] += 1
        trail = json.loads(run["output"])["trail"]
        assert trail == ["first", "second"] * steps[run["thread_id"]]


def _was_lost(run: Row) -> bool:
    """Whether a run ended with the process that held it, or with the run whose hook it was."""
    of_hook = run["error_type"] == "CancelledError" and run["origin"] == "hook"
    return run["error_type"] == "WorkerLost" or of_hook
