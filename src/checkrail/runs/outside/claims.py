"""What a runner is given with a run: all that its execution needs, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.points import Lane
from checkrail.engine.scope import Scope
from checkrail.runs import jsons
from checkrail.runs.catalogue import GRAPH, Entry
from checkrail.runs.holding import rules_on_result
from checkrail.runs.live import ATTEMPT_GAP
from checkrail.runs.outside.reports import add_events
from checkrail.runs.outside.verdicts import ASKED
from checkrail.runs.parts import Parts
from checkrail.runs.work import GIVEN
from checkrail.store import events, runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row

AUTONOMOUS = "autonomous"

_GIVEN = (
    "run_id",
    "thread_id",
    "session_id",
    "parent_run_id",
    "assistant_id",
    "agent_name",
    "user",
    "attempt",
    "metadata",
    "kwargs",
    "input",
    "parameters",
    "scope",
    "usage",
    "cancel",
    "timeout_seconds",
    "origin",
    "temporary",
)
_OURS = ("webhook", "feedback_keys")
"""Of what was asked for with a run, this is the server's to see to."""


def fitting(parts: Parts, told: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return what says whether a runner has what a run needs, which is `kind/agent/tags`.

    It carries out agents that it knows; those that were made over HTTP it is sent.
    """
    kinds, agents, tags = (frozenset(told[name]) for name in ("kinds", "agents", "tags"))

    def fits(needs: str) -> bool:
        kind, _, rest = needs.partition("/")
        name, _, wanted = rest.rpartition("/")
        if kind not in kinds or (wanted and not tags.issuperset(wanted.split(","))):
            return False
        agent = parts.catalogue.get(name)
        if agent is None:  # removed, or it cannot be read: nobody knows its hooks
            return False
        if name in agents:
            return True
        if not can_be_sent(agent):
            return False
        return agents.issuperset(_beneath(parts, agent, set()))

    return fits


def can_be_sent(agent: Entry) -> bool:
    """Return whether an agent's blueprint is all that carrying it out takes."""
    return agent.made_over_http and agent.config.kind == AUTONOMOUS


def begin(tx: Tx, parts: Parts, row: Row) -> dict[str, Any]:
    """Tell that a run begins, and give it to its runner."""
    left = row["kept"]
    given = None if left is None else jsons.dumps({**left, GIVEN: True})
    runs.change(tx, row["run_id"], heard=0, kept=given)
    first = row["attempt"] == 1
    untold = not first or not events.last_seq(tx, row["run_id"])  # or who started it has told it
    if untold and left is None:
        about = jsons.dumps({"run_id": row["run_id"], "attempt": row["attempt"]})
        add_events(tx, row, [("metadata", (), about)], 0 if first else ATTEMPT_GAP)
    return _claim(parts, row, _said_on(tx, row))


def _claim(parts: Parts, row: Row, history: list[Any]) -> dict[str, Any]:
    agent = parts.catalogue.get(row["agent_name"])
    scope = parts.scope(row)
    sent = agent is not None and can_be_sent(agent)
    given = {name: row[name] for name in _GIVEN}
    kwargs = {key: value for key, value in row["kwargs"].items() if key not in _OURS}
    return {
        "run": {**given, "kwargs": kwargs},
        "kind": GRAPH if agent is None else agent.config.kind,
        "history": history,
        "left": row["kept"],
        "points": points(parts, scope, agent),
        "holds": rules_on_result(scope),
        "on_crash": parts.on_crash(row["agent_name"]),
        "limits": dataclasses.asdict(parts.settings.limits),
        "protocol": parts.hub.has(("protocol", row["thread_id"])),
        "blueprint": dict(agent.blueprint) if agent is not None and sent else None,
    }


def points(parts: Parts, scope: Scope, agent: Entry | None) -> dict[str, str]:
    """Return the points at which hooks stand, and the most that those can do, as a lane.

    Agents that are tools of this one have hooks of their own, which hold in it too.
    """
    beneath = _beneath(parts, agent, set()) if agent is not None else set()
    entries = [entry for entry in parts.catalogue if entry.name in beneath]
    scopes = [scope, *(entry.hooks.scope() for entry in entries)]
    found: dict[str, str] = {}
    for point in ASKED:
        lanes = {lane for each in scopes for lane in _lanes(each, point)}
        strongest = next((lane for lane in Lane if lane in lanes), None)
        if strongest is not None:
            found[str(point)] = str(strongest)
    return found


def _lanes(scope: Scope, point: str) -> set[Lane]:
    """Return the lanes of a point in which hooks act."""
    chain = scope.chain(point)
    if chain is None:
        return set()
    entries = [entry for _, many in chain.lanes for entry in many]
    acting = {entry[0].lane for entry in entries if not entry[0].shadow}
    return acting or {Lane.OBSERVE}


def agents_in(parts: Parts, row: Row) -> set[str]:
    """Return the names of the agents that can be at work in a run."""
    agent = parts.catalogue.get(row["agent_name"])
    return {row["agent_name"]} | (set() if agent is None else _beneath(parts, agent, set()))


def _beneath(parts: Parts, agent: Entry, known: set[str]) -> set[str]:
    for tool in agent.config.tools:
        if tool.agent is not None and tool.agent not in known:
            known.add(tool.agent)
            if (entry := parts.catalogue.get(tool.agent)) is not None:
                _beneath(parts, entry, known)
    return known


def _said_on(reads: Reads, row: Row) -> list[Any]:
    """Return the conversation on a run's thread so far."""
    if row["temporary"]:
        return []
    thread = threads.get(reads, row["thread_id"])
    values = (thread or {}).get("values")
    said = values.get("messages") if isinstance(values, dict) else None
    return said if isinstance(said, list) else []
