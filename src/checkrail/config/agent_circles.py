"""Agents that are hooks of agents: whether each is there, and whether it all comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checkrail.config.circles import Calls, circles, leads_to
from checkrail.engine.errors import suggestion
from checkrail.engine.hook import HookSpec
from checkrail.engine.points import HookPoint

START = frozenset({HookPoint.BEFORE_RUN, HookPoint.ON_RUN_START})
_SHOWN = 12

Wrong = tuple[str, str, str]
"""An agent, the hook of it that is wrong, and what is wrong with it."""


def problems(agents: Mapping[str, Sequence[HookSpec]]) -> list[Wrong]:
    """Say which agent hooks cannot be; `agents` are all that there are, with their own hooks.

    A hook runs its agent with the hooks of that agent, so those that lead back would never end.
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
    return found


def _calling(hooks: Sequence[HookSpec]) -> Iterator[HookSpec]:
    """Give the hooks that run an agent, and are not switched off."""
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


def _starts(spec: HookSpec) -> bool:
    return any(place.point in START for place in spec.places)
