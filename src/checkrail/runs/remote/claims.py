"""What a runner is given with a run: all that its execution needs, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.points import Lane
from checkrail.engine.scope import Scope
from checkrail.runs import jsons
from checkrail.runs.agents.catalogue import GRAPH, AgentEntry
from checkrail.runs.execute.job import GIVEN
from checkrail.runs.execute.live_run import ATTEMPT_GAP
from checkrail.runs.execute.run_messages import holds_result
from checkrail.runs.remote.reports import append_events
from checkrail.runs.remote.verdicts import ASKED
from checkrail.runs.services import RunServices
from checkrail.store import events, runs, threads, workers
from checkrail.store.database import Reads, Tx
from checkrail.store.runs import Run

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


def runner_matcher(parts: RunServices, told: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return a predicate: whether a runner has what a run needs, which is `kind/agent/tags`.

    It carries out agents that it knows; those that were made over HTTP it is sent.
    """
    kinds, agents, tags = (frozenset(told[name]) for name in ("kinds", "agents", "tags"))

    def can_run(needs: str) -> bool:
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
        return agents.issuperset(_collect_subagents(parts, agent, set()))

    return can_run


def can_be_sent(agent: AgentEntry) -> bool:
    """Return whether an agent's blueprint is all that executing it takes."""
    return agent.made_over_http and agent.config.kind == AUTONOMOUS


def start_claimed(tx: Tx, parts: RunServices, row: Run) -> dict[str, Any]:
    """Note that a run begins, and return it as its runner gets it."""
    left = row.suspended_state
    given = None if left is None else jsons.dumps({**left, GIVEN: True})
    runs.update_run(tx, row.run_id, events_received=0, suspended_state=given)
    first = row.attempt == 1
    untold = not first or not events.last_seq(tx, row.run_id)  # or who started it has told it
    if untold and left is None:
        about = jsons.dumps({"run_id": row.run_id, "attempt": row.attempt})
        append_events(tx, row, [("metadata", (), about)], 0 if first else ATTEMPT_GAP)
    append_events(tx, row, [("attempt_started", (), _describe_attempt(tx, row))])
    return _render_claim(parts, row, _load_history(tx, row))


def _describe_attempt(tx: Tx, row: Run) -> bytes:
    worker = workers.find_runner(tx, row.worker_id or "")
    told = {} if worker is None else worker.registration or {}
    about = {"worker_id": row.worker_id, "name": told.get("name")}
    host = None if worker is None else worker.host
    return jsons.dumps({"attempt": row.attempt, "host": host, **about})


def _render_claim(parts: RunServices, row: Run, history: list[Any]) -> dict[str, Any]:
    agent = parts.catalogue.get(row.agent_name)
    scope = parts.scope(row)
    sent = agent is not None and can_be_sent(agent)
    given = {name: getattr(row, name) for name in _GIVEN}
    kwargs = {key: value for key, value in row.kwargs.items() if key not in _OURS}
    return {
        "run": {**given, "kwargs": kwargs},
        "kind": GRAPH if agent is None else agent.config.kind,
        "history": history,
        "left": row.suspended_state,
        "points": hook_points(parts, scope, agent),
        "holds": holds_result(parts, row, scope),
        "on_crash": parts.on_crash(row.agent_name),
        "limits": dataclasses.asdict(parts.settings.limits),
        "protocol": parts.hub.has_listeners(("protocol", row.thread_id)),
        "blueprint": dict(agent.blueprint) if agent is not None and sent else None,
    }


def hook_points(parts: RunServices, scope: Scope, agent: AgentEntry | None) -> dict[str, str]:
    """Return the points at which hooks stand, and the most that those can do, as a lane.

    Agents that are tools of this one have hooks of their own, which hold in it too.
    """
    beneath = _collect_subagents(parts, agent, set()) if agent is not None else set()
    entries = [entry for entry in parts.catalogue if entry.name in beneath]
    scopes = [scope, *(entry.hooks.scope() for entry in entries)]
    found: dict[str, str] = {}
    for point in ASKED:
        lanes = {lane for each in scopes for lane in _lanes_at(each, point)}
        strongest = next((lane for lane in Lane if lane in lanes), None)
        if strongest is not None:
            found[str(point)] = str(strongest)
    return found


def _lanes_at(scope: Scope, point: str) -> set[Lane]:
    """Return the lanes of a point in which hooks act."""
    chain = scope.chain(point)
    if chain is None:
        return set()
    acting = {hook.lane for _, hooks in chain.lanes for hook in hooks if not hook.shadow}
    return acting or {Lane.OBSERVE}


def agents_of_run(parts: RunServices, row: Run) -> set[str]:
    """Return the names of the agents that can be at work in a run."""
    agent = parts.catalogue.get(row.agent_name)
    return {row.agent_name} | (set() if agent is None else _collect_subagents(parts, agent, set()))


def _collect_subagents(parts: RunServices, agent: AgentEntry, known: set[str]) -> set[str]:
    for tool in agent.config.tools:
        if tool.agent is not None and tool.agent not in known:
            known.add(tool.agent)
            if (entry := parts.catalogue.get(tool.agent)) is not None:
                _collect_subagents(parts, entry, known)
    return known


def _load_history(reads: Reads, row: Run) -> list[Any]:
    """Return the conversation on a run's thread so far."""
    if row.temporary:
        return []
    thread = threads.get(reads, row.thread_id)
    values = None if thread is None else thread.values
    said = values.get("messages") if isinstance(values, dict) else None
    return said if isinstance(said, list) else []
