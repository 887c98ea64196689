"""The books of a site: what has to hold whatever was killed, and when."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from .site import Row, Site, eventually

LIVE = ("starting", "ready", "running", "waiting", "queued", "scheduled")


def settled(site: Site) -> None:
    """Wait until no run is under way and nothing is owed."""

    def nothing_left() -> bool:
        live = site.rows("SELECT run_id FROM runs WHERE ended_at IS NULL")
        owed = site.rows("SELECT run_id FROM deliveries WHERE status = 'owed'")
        return not live and not owed

    eventually(nothing_left, "all runs and deliveries")


def check(site: Site, dead: Collection[str] = ()) -> None:
    """Check the books of a site where nothing is under way; `dead` runs have dead deliveries."""
    runs = {row["run_id"]: row for row in site.rows("SELECT * FROM runs")}
    told = _events(site)
    for run in runs.values():
        _check_end(run, told[run["run_id"]])
    _check_deliveries(site, [run for run_id, run in runs.items() if run_id not in dead])
    busy = site.rows("SELECT thread_id FROM threads WHERE status = 'busy'")
    assert not busy, "a thread waits for a run that is over"
    _check_records(site, runs)


def _events(site: Site) -> dict[str, list[list[Any]]]:
    told = defaultdict(list)
    for row in site.rows("SELECT run_id, payload FROM events ORDER BY run_id, last_seq"):
        told[row["run_id"]] += json.loads(bytes(row["payload"]))
    return told


def _check_end(run: Row, told: list[list[Any]]) -> None:
    """Check that a run has ended, once, and that its events say so."""
    assert run["phase"] not in LIVE
    assert run["worker_id"] is None
    assert run["ended_at"] is not None
    numbers = [seq for seq, *_ in told]
    assert numbers == sorted(set(numbers)), "events are told twice, or out of order"
    ends = [data["status"] for _, event, *_, data in told if event == "end"]
    assert ends == [run["status"]]
    assert told[-1][1] == "end"


def _check_deliveries(site: Site, runs: Iterable[Row]) -> None:
    """Check that the right finish hook of each run was called, at least once."""
    owed = defaultdict(list)
    for row in site.rows("SELECT * FROM deliveries WHERE kind <> 'webhook'"):
        owed[row["run_id"]].append((row["kind"], row["status"]))
    called = {(line["run_id"], line["place"]) for line in site.journal()}
    for run in runs:
        point = "after_run" if run["phase"] in ("success", "interrupted") else "on_run_error"
        assert owed[run["run_id"]] == [(point, "done")]
        assert (run["run_id"], f"after {point}") in called


def _check_records(site: Site, known: Collection[str]) -> None:
    """Check that every hook call that has a start has one ending.

    A request that was cut off has no run, and nobody knows what became of its hooks.
    """
    rows = site.rows("SELECT run_id, point, event_type FROM hook_records")
    balance: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["run_id"] in known and row["event_type"].startswith("hook_"):
            side = 1 if row["event_type"] == "hook_start" else -1
            balance[row["run_id"], row["point"]] += side
    uneven = {call: left for call, left in balance.items() if left}
    assert not uneven, f"starts without an ending (or with two): {uneven}"


def check_history(site: Site, thread_id: str) -> None:
    """Check that each checkpoint of a thread follows the one before, and that none forks off."""
    found = site.rows(
        "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints "
        "WHERE thread_id = :id AND checkpoint_ns = '' ORDER BY checkpoint_id",
        id=thread_id,
    )
    before = [None, *(row["checkpoint_id"] for row in found[:-1])]
    assert [row["parent_checkpoint_id"] for row in found] == before


def output(run: Row) -> dict[str, Any]:
    """What a run came to."""
    return json.loads(run["output"])
