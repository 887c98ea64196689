"""Agents that are hooks of agents: whether each is there, can be called, and comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkrail.builtin.schema_check import compiled
from checkrail.config.agent_keys import AUTONOMOUS
from checkrail.config.agents import AgentConfig
from checkrail.config.circles import Calls, circles, leads_to
from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.hook import HookSpec
from checkrail.engine.points import HookPoint

START = frozenset({HookPoint.BEFORE_RUN, HookPoint.ON_RUN_START})
FINISH = frozenset({HookPoint.AFTER_RUN, HookPoint.ON_RUN_ERROR})

IDS = {"agent_name": "agent", "session_id": "session", "run_id": "run"}
SENT_AT_START: dict[str, Any] = {"parameters": {}, **IDS}
SENT_AT_FINISH: dict[str, Any] = {
    "parameters": {},
    "result_text": None,
    "result_data": None,
    "status": "completed",
    "error": None,
    **IDS,
}
"""What an agent is sent that is a hook, for example; only the ids are sure to be texts."""

SURE = frozenset({"required", "additionalProperties", "type"})
"""Rules of a schema that do not depend on what exactly is sent."""
CONDITIONAL = frozenset({"if", "then", "else", "dependentSchemas"})
_SHOWN = 12

Wrong = tuple[str, str, str]
"""An agent, the hook of it that is wrong, and what is wrong with it."""


def problems(
    agents: Mapping[str, Sequence[HookSpec]],
    configs: Mapping[str, AgentConfig] | None = None,
) -> list[Wrong]:
    """Return which agent hooks cannot be; `agents` are all that there are, with their own hooks.

    A hook runs its agent with the hooks of that agent, so those that lead back would never end.
    `configs` say what each agent takes; without them that is not looked at.
    """
    calls = {
        name: [(spec.name, spec.target_name) for spec in _calling(agents[name])] for name in agents
    }
    found = [
        (name, spec.name, told)
        for name, hooks in agents.items()
        for spec in _calling(hooks)
        for told in _of_target(name, spec, agents, calls)
    ]
    for name, hook, way in circles(calls):
        told = f"a circle: {way}. Agents that are hooks have to come to an end: leave one out"
        found.append((name, hook, told))
    wrong = {(name, hook) for name, hook, _ in found}
    return found + [
        (name, spec.name, told)
        for name, hooks in agents.items()
        for spec in _calling(hooks)
        if (target := (configs or {}).get(spec.target_name)) is not None
        if (name, spec.name) not in wrong
        for told in _of_parameters(spec, target)
    ]


def _calling(hooks: Sequence[HookSpec]) -> Iterator[HookSpec]:
    """Return the hooks that run an agent, and are not switched off."""
    return (spec for spec in hooks if spec.target_type == "agent" and spec.mode != "off")


def _of_target(
    name: str, spec: HookSpec, agents: Mapping[str, Sequence[HookSpec]], calls: Calls[str]
) -> Iterator[str]:
    target = spec.target_name
    if target not in agents:
        known = sorted(filter(None, agents))
        listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        near = suggestion(target, known)
        yield f"there is no agent {target!r}{near}. The agents are: {listed}"
    elif _starts(spec) and not leads_to(calls, target, name):
        own = [other.name for other in agents[target] if _starts(other) and other.mode != "off"]
        if own:
            yield (
                f"the agent {target!r} has start hooks of its own ({', '.join(own)}), so it cannot "
                "be a start hook: leave them out, or name another agent"
            )


def _of_parameters(spec: HookSpec, agent: AgentConfig) -> Iterator[str]:
    """Yield why an agent cannot take what it is sent at the start or the end of a run."""
    schema = agent.parameters_schema
    points = {place.point for place in spec.places}
    for moment, sent in ((START, SENT_AT_START), (FINISH, SENT_AT_FINISH)):
        if not points & moment:
            continue
        keys = ", ".join(sent)
        if schema is None and agent.kind == AUTONOMOUS:
            told = f"the agent {agent.name!r} takes a prompt, but a hook is sent {keys}"
            yield f"{told}: give it a parameters_schema that takes them"
        elif schema is not None and (why := _certain_mismatch(schema, sent)):
            told = f"the agent {agent.name!r} cannot take what it is sent ({keys})"
            yield f"{told}: {why}. Change its parameters_schema"


def _certain_mismatch(schema: Mapping[str, Any], sent: Mapping[str, Any]) -> str | None:
    """Return why a schema refuses whatever is sent, if it does and that can be seen."""
    plain, given = dict(schema), dict(sent)
    if "status" in sent and "original_parameters" in (plain.get("properties") or {}):
        given["original_parameters"] = {}  # sent at the end to whoever has a place for it
    try:
        found = [*compiled("parameters_schema", plain).find_errors(given)]
    except CheckrailError:
        return None  # the schema itself is wrong, which is reported where it stands
    for error in found:
        *path, rule = error.schema_path or [""]
        whole = not error.instance_path or error.instance_path[0] in IDS
        if rule in SURE and whole and CONDITIONAL.isdisjoint(path):
            return str(error.message)
    return None


def _starts(spec: HookSpec) -> bool:
    return any(place.point in START for place in spec.places)
