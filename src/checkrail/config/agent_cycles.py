"""Agents that call each other: whether each is there, can be called, and comes to an end."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from checkrail.builtin.schema_check import compile_schema
from checkrail.config.agent_keys import AUTONOMOUS
from checkrail.config.agent_tools import ToolConfig
from checkrail.config.agents import AgentConfig
from checkrail.config.problems import Report
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


def find_agent_hook_problems(
    agents: Mapping[str, Sequence[HookSpec]],
    configs: Mapping[str, AgentConfig] | None = None,
) -> list[Wrong]:
    """Return which agent hooks cannot run; `agents` are all that there are, with their own hooks.

    A hook runs its agent with the hooks of that agent, so those that lead back would never end.
    `configs` say what each agent takes; without them that is not looked at.
    """
    calls = {
        name: [(spec.name, spec.target_name) for spec in _agent_hooks(agents[name])]
        for name in agents
    }
    found = [
        (name, spec.name, told)
        for name, hooks in agents.items()
        for spec in _agent_hooks(hooks)
        for told in _target_problems(name, spec, agents, calls)
    ]
    for name, hook, way in find_cycles(calls):
        told = f"a circle: {way}. Agents that are hooks have to come to an end: leave one out"
        found.append((name, hook, told))
    wrong = {(name, hook) for name, hook, _ in found}
    return found + [
        (name, spec.name, told)
        for name, hooks in agents.items()
        for spec in _agent_hooks(hooks)
        if (target := (configs or {}).get(spec.target_name)) is not None
        if (name, spec.name) not in wrong
        for told in _parameter_problems(spec, target)
    ]


def _agent_hooks(hooks: Sequence[HookSpec]) -> Iterator[HookSpec]:
    """Return the hooks that run an agent, and are not switched off."""
    return (spec for spec in hooks if spec.target_type == "agent" and spec.mode != "off")


def _target_problems(
    name: str, spec: HookSpec, agents: Mapping[str, Sequence[HookSpec]], calls: Calls[str]
) -> Iterator[str]:
    target = spec.target_name
    if target not in agents:
        known = sorted(filter(None, agents))
        listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        near = suggestion(target, known)
        yield f"there is no agent {target!r}{near}. The agents are: {listed}"
    elif _fires_at_start(spec) and not is_reachable(calls, target, name):
        own = [
            other.name for other in agents[target] if _fires_at_start(other) and other.mode != "off"
        ]
        if own:
            yield (
                f"the agent {target!r} has start hooks of its own ({', '.join(own)}), so it cannot "
                "be a start hook: leave them out, or name another agent"
            )


def _parameter_problems(spec: HookSpec, agent: AgentConfig) -> Iterator[str]:
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
        found = [*compile_schema("parameters_schema", plain).find_errors(given)]
    except CheckrailError:
        return None  # the schema itself is wrong, which is reported where it stands
    for error in found:
        *path, rule = error.schema_path or [""]
        whole = not error.instance_path or error.instance_path[0] in IDS
        if rule in SURE and whole and CONDITIONAL.isdisjoint(path):
            return str(error.message)
    return None


def _fires_at_start(spec: HookSpec) -> bool:
    return any(place.point in START for place in spec.places)


Call = TypeVar("Call", bound=Hashable)

Calls = Mapping[str, Sequence[tuple[Call, str]]]
"""For each name its calls, and the name that each of them leads to."""


def find_cycles(calls: Calls[Call]) -> Iterator[tuple[str, Call, str]]:
    """Return each cycle once: who closes it, by which call, and the names on the way round."""
    left = {name: [(call, to) for call, to in made if to in calls] for name, made in calls.items()}
    while left := _drop_leaves(left):
        path = [next(iter(left))]
        while (last := left[path[-1]][0])[1] not in path:
            path.append(last[1])
        yield path[-1], last[0], " → ".join((*path[path.index(last[1]) :], last[1]))
        left[path[-1]].remove(last)


def is_reachable(calls: Calls[Call], start: str, goal: str) -> bool:
    """Return whether calls lead from one name to another."""
    seen, open_ = {start}, [start]
    while open_:
        name = open_.pop()
        if name == goal:
            return True
        new = {to for _, to in calls.get(name, ())} - seen
        seen |= new
        open_ += new
    return False


def _drop_leaves(
    calls: dict[str, list[tuple[Call, str]]],
) -> dict[str, list[tuple[Call, str]]]:
    """Drop those that call none, then those that call only such, and so on."""
    while leaves := {name for name, made in calls.items() if not made}:
        calls = {
            name: [(call, to) for call, to in made if to not in leaves]
            for name, made in calls.items()
            if name not in leaves
        }
    return calls


TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""


def check_calls(agents: Mapping[str, AgentConfig], reports: Mapping[str, Report]) -> None:
    """Report agents that cannot be called, and those that call each other without end."""
    for agent in agents.values():
        for tool in agent.tools:
            if tool.agent is None:
                continue
            if tool.agent not in agents:
                reports[agent.name].add_unknown(tool.where, "agent", tool.agent, agents)
            else:
                _check_callee(tool, agents[tool.agent], reports[agent.name])
    calls = {
        name: [(tool.where, tool.agent) for tool in agent.tools if tool.agent is not None]
        for name, agent in agents.items()
    }
    for name, where, way in find_cycles(calls):
        reports[name].add(where, f"a circle: {way}", "agents that come to an end")


def _check_callee(tool: ToolConfig, agent: AgentConfig, report: Report) -> None:
    if agent.kind != AUTONOMOUS:
        found = f"the agent {agent.name!r}, which is of type {agent.kind}"
        report.add(tool.where, found, "an autonomous agent: others cannot be tools yet")
    elif not TOOL_NAME.fullmatch(agent.name):
        expected = "a name of up to 64 letters of a to z, digits, - and _"
        report.add(tool.where, f"{agent.name!r}, which is no name for a tool", expected)
