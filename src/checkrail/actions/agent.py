"""Hooks that are agents: the event is the input of a run, their answer its output."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from checkrail.actions import wire
from checkrail.actions.answers import read_json
from checkrail.actions.outside import Outside
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Outcome
from checkrail.engine.points import CONTRACTS, Decision
from checkrail.engine.values import RunError, RunResult, plain

log = logging.getLogger("checkrail")

UNSERVED = "agent hooks need the run server, which is not running here"


def agent(
    agent_name: str, *, outside: Outside, timeout: float
) -> Callable[[Event[Any]], Awaitable[Outcome | None]]:
    """Make a hook of an agent, which `outside` runs; `timeout` is the hook's own."""

    async def ask_agent(event: Event[Any]) -> Outcome | None:
        if outside.agents is None:
            raise UnreachableError(UNSERVED)
        output = await outside.agents(agent_name, request(event), event, timeout)
        if _at_end(event):
            return None  # it follows on the run, and what came of it is its own
        return _answer(event, agent_name, output)

    return ask_agent


def request(event: Event[Any]) -> dict[str, Any]:
    """Return the input of the run: at the start and the end of a run exactly what was promised."""
    if _at_start(event):
        return wire.agent_start_request(event)
    if _at_end(event):
        return wire.agent_finish_request(event)
    return wire.request(event)


def _answer(event: Event[Any], agent_name: str, output: Any) -> Outcome | None:
    observing = event.verdict is not None
    who = f"the agent {agent_name!r}"
    data = read_json(who, output) if isinstance(output, str) else plain(output)
    if not isinstance(data, dict):
        expected = "{}" if observing else 'such as {"action": "continue"}'
        raise InvalidOutcomeError(f"{who} answered no object: answer with one, {expected}")
    if _at_start(event) and not observing:
        data = _continued(event, who, data)
    data = _without_extra(event, who, data)
    return wire.answer(event.point, data, event.value, observing=observing)


def _continued(event: Event[Any], who: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """See that an agent that lets a run start says with what; what stays the same is no change."""
    if data.get("action") != Decision.CONTINUE:
        return dict(data)
    if "parameters" not in data:
        problem = f"{who} continues without `parameters`"
        raise InvalidOutcomeError(f"{problem}: send those that the run is to start with")
    same = data["parameters"] == plain(event.value) and not data.get("redacted")
    return {key: item for key, item in data.items() if not (same and key == "parameters")}


def _without_extra(event: Event[Any], who: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys that an answer does not have: models like to explain themselves."""
    known = wire.answer_keys(event.point, data) or data.keys()
    extra = [key for key in data if key not in known]
    if extra:
        named = ", ".join(map(repr, extra))[:200]
        log.warning("%s answered at %s with keys that are ignored: %s", who, event.point, named)
    return {key: item for key, item in data.items() if key in known}


def _at_end(event: Event[Any]) -> bool:
    return isinstance(event.value, (RunResult, RunError))


def _at_start(event: Event[Any]) -> bool:
    return CONTRACTS[event.point].wire == "parameters"
