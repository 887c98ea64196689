"""The books of a site: what has to hold whatever was killed, and when."""

import json
from collections import Counter
from collections.abc import Collection

from .site import Site, eventually

LIVE = ("starting", "ready", "running", "waiting", "queued", "scheduled")
GOOD = {"success": "after_run", "interrupted": "after_run"}


def settled(site: Site) -> None:
    """Wait until no run is under way and nothing is owed."""

    def nothing_left() -> bool:
        live = site.rows("SELECT run_id FROM runs WHERE ended_at IS NULL")
        owed = site.rows("SELECT run_id FROM deliveries WHERE status = 'owed'")
        return not live and not owed

    eventually(nothing_left, "all runs and deliveries")


def check(site: Site, dead: Collection[str] = ()) -> None:
    """Check the books of a site where nothing is under way; `dead` runs have dead deliveries."""
    for run in site.rows("SELECT * FROM runs"):
        check_run(site, run)
        if run["phase"] != "refused" and run["run_id"] not in dead:
            _check_deliveries(site, run)
    held = site.rows("SELECT thread_id FROM threads WHERE status = 'busy'")
    assert not held, "a thread waits for a run that is over"
    _check_records(site)


def check_run(site: Site, run: dict) -> None:
    """Check that a run has ended once, and that its events say so."""
    run_id = run["run_id"]
    assert run["phase"] not in LIVE
    assert run["worker_id"] is None
    assert run["ended_at"] is not None
    told = site.events(run_id)
    numbers = [seq for seq, _, _ in told]
    assert numbers == sorted(set(numbers)), "events are told twice, or out of order"
    ends = [data for _, event, data in told if event == "end"]
    if run["phase"] == "refused":
        assert told == []
        return
    assert [data["status"] for data in ends] == [run["status"]], "a run ends once"
    assert told[-1][1] == "end"


def _check_deliveries(site: Site, run: dict) -> None:
    stopped = run["phase"] == "cancelled"
    point = "on_run_error" if stopped else GOOD.get(run["status"], "on_run_error")
    owed = site.deliveries(run["run_id"])
    assert owed[point]["status"] == "done", owed[point]
    assert {"after_run", "on_run_error"} & owed.keys() == {point}
    assert site.journal(f"after {point}", run["run_id"]), "a finish hook is called at least once"


def _check_records(site: Site) -> None:
    """Check that every hook call that has a start has one ending."""
    # A request that was cut off has no run, and nobody knows what became of its hooks.
    known = "run_id IN (SELECT run_id FROM runs)"
    rows = site.rows(f"SELECT run_id, point, event_type FROM hook_records WHERE {known}")
    starts = Counter((r["run_id"], r["point"]) for r in rows if r["event_type"] == "hook_start")
    ends = Counter((r["run_id"], r["point"]) for r in rows if r["event_type"] != "hook_start")
    assert starts == ends


def output(run: dict) -> dict:
    return json.loads(run["output"])
