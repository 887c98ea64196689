"""Hooks that are agents: the event is the input of a run, their answer its output."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from checkrail.actions.outside import Outside
from checkrail.actions.wire import (
    agent_finish_request,
    agent_start_request,
    answer_keys,
    parse_answer,
    read_json,
    render_event,
)
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
    """Build a hook from an agent, which `outside` runs; `timeout` is the hook's own."""

    async def call_agent(event: Event[Any]) -> Outcome | None:
        if outside.agents is None:
            raise UnreachableError(UNSERVED)
        output = await outside.agents(agent_name, build_request(event), event, timeout)
        if _is_at_end(event):
            return None  # it follows on the run, and what came of it is its own
        return _parse_answer(event, agent_name, output)

    return call_agent


def build_request(event: Event[Any]) -> dict[str, Any]:
    """Return the input of the run: at the start and the end of a run exactly what was promised."""
    if _is_at_start(event):
        return agent_start_request(event)
    if _is_at_end(event):
        return agent_finish_request(event)
    return render_event(event)


def _parse_answer(event: Event[Any], agent_name: str, output: Any) -> Outcome | None:
    observing = event.verdict is not None
    who = f"the agent {agent_name!r}"
    data = read_json(who, output) if isinstance(output, str) else plain(output)
    if not isinstance(data, dict):
        expected = "{}" if observing else 'such as {"action": "continue"}'
        raise InvalidOutcomeError(f"{who} answered no object: answer with one, {expected}")
    if _is_at_start(event) and not observing:
        data = _check_parameters(event, who, data)
    data = _without_extra(event, who, data)
    return parse_answer(event.point, data, event.value, observing=observing)


def _check_parameters(event: Event[Any], who: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Require `parameters` where an agent continues a run; unchanged ones are left out."""
    if data.get("action") != Decision.CONTINUE:
        return dict(data)
    if "parameters" not in data:
        problem = f"{who} continues without `parameters`"
        raise InvalidOutcomeError(f"{problem}: send those that the run is to start with")
    same = data["parameters"] == plain(event.value) and not data.get("redacted")
    return {key: item for key, item in data.items() if not (same and key == "parameters")}


def _without_extra(event: Event[Any], who: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys that an answer does not have: models like to explain themselves."""
    known = answer_keys(event.point, data) or data.keys()
    extra = [key for key in data if key not in known]
    if extra:
        named = ", ".join(map(repr, extra))[:200]
        log.warning("%s answered at %s with keys that are ignored: %s", who, event.point, named)
    return {key: item for key, item in data.items() if key in known}


def _is_at_end(event: Event[Any]) -> bool:
    return isinstance(event.value, (RunResult, RunError))


def _is_at_start(event: Event[Any]) -> bool:
    return CONTRACTS[event.point].wire == "parameters"
