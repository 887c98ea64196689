"""Advice: what is no mistake in a file, but hardly what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from inspect import unwrap
from types import CodeType
from typing import TYPE_CHECKING

from checkrail.cli.auth_advice import auth_advice
from checkrail.cli.graph_advice import graph_advice
from checkrail.config.problems import Problem
from checkrail.engine.binding import fail_open_advice
from checkrail.engine.errors import suggestion
from checkrail.engine.matchers import compiled
from checkrail.engine.points import LOOP_POINTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from checkrail.config import AgentConfig, Loaded
    from checkrail.engine.hook import HookSpec

EXTRAS = {"openai": "checkrail[openai]", "anthropic": "checkrail[anthropic]", "litellm": "litellm"}


def advice(loaded: Loaded) -> tuple[Problem, ...]:
    """Return what somebody who wrote this file would want to know."""
    agents = loaded.agents.values()
    known = _tools(loaded)
    specs = (*loaded.specs, *(spec for agent in agents for spec in agent.hooks))
    holding = [agent.name for agent in agents if _holds(agent)]
    of_hooks = (problem for spec in specs for problem in _of_hook(spec, known, holding))
    of_agents = (problem for agent in agents for problem in _of_agent(agent))
    of_graphs = (*_of_graphs(loaded), *_of_graphs_alone(loaded))
    return (*of_hooks, *of_agents, *of_graphs, *_of_server(loaded))


def _of_server(loaded: Loaded) -> Iterator[Problem]:
    """Yield what the server's settings come to on this machine, and for its users."""
    file = loaded.file.name if loaded.file is not None else "the config"
    for found, hint in auth_advice(loaded):
        yield Problem(file, None, "auth", found, hint=hint)
    if loaded.server.store.index:
        from checkrail.runs.graphs.checkpoints import NO_INDEX, can_index

        if not can_index(loaded.server.database):
            found, _, hint = NO_INDEX.partition(". ")
            yield Problem(file, None, "store", found, hint=hint)


def _of_graphs(loaded: Loaded) -> Iterator[Problem]:
    for agent in loaded.agents.values():
        if agent.kind == "graph" and agent.path:
            for found, hint in graph_advice(loaded, agent):
                yield _problem(agent, found, hint)


def _holds(agent: AgentConfig) -> bool:
    """Return whether there is work in an agent that cannot be left and entered again."""
    calls_agents = any(tool.agent is not None for tool in agent.tools)
    return calls_agents or (agent.kind == "procedural" and bool(agent.path))


def _of_hook(spec: HookSpec, known: list[str], holding: list[str]) -> Iterator[Problem]:
    for pattern in spec.match.get("tools", ()) if known else ():
        if not any(compiled(pattern)(name) for name in known):
            written = str(getattr(pattern, "written", getattr(pattern, "pattern", pattern)))
            hint = suggestion(written, known).strip(" ()") or f"they have: {', '.join(known)}"
            yield _problem(spec, f"no agent of this file has a tool {written!r}", hint)
    for found, hint in getattr(spec.when, "advice", ()):
        yield _problem(spec, found, hint)
    points = {place.point for place in spec.places}
    if holding and Decision.ASK in (spec.decisions or ()) and points & LOOP_POINTS:
        at, names = ", ".join(sorted(map(str, points & LOOP_POINTS))), ", ".join(holding)
        found = f"a run that asks at {at} is held by its process until it is answered"
        where = f"inside a function, or an agent that is a tool ({names})"
        yield _problem(spec, f"{found}, {where}", "elsewhere it waits as a row")
    if spec.redacts and HookPoint.BEFORE_FINAL_RESPONSE in points and known:
        hint = "at after_llm_call it sees every answer"
        yield _problem(spec, "it does not see the text beside tool calls, which is kept too", hint)

    yield from _of_open_lane(spec)
    if (blocking := _blocking_call(spec)) is not None:
        found = f"it calls {blocking} inline, and meanwhile nothing else goes on in its process"
        yield _problem(spec, found, "make it a plain def and say thread: true, or await instead")


def _of_open_lane(spec: HookSpec) -> Iterator[Problem]:
    """Tell of a Python hook that refuses, but lets everything pass when it fails."""
    registry = HookRegistry()
    registry.swap([spec])
    bounds = (bound for place in spec.places for bound in registry.bound(place.point))
    found = next(filter(None, map(fail_open_advice, bounds)), None)
    if found is not None:
        problem, option, word = found
        in_python = spec.source.rpartition(":")[0].endswith(".py")
        yield _problem(
            spec, problem, f'say {option}="{word}"' if in_python else f"say {option}: {word}"
        )


BLOCKING = {
    "requests": ("delete", "get", "head", "patch", "post", "put", "request", "Session"),
    "subprocess": ("Popen", "call", "check_call", "check_output", "run"),
    "time": ("sleep",),
    "urllib": ("urlopen",),
}
"""Functions that wait without letting anybody else go on, by the modules they are called by."""


def _blocking_call(spec: HookSpec) -> str | None:
    """Return what a hook calls that would stall the event loop, as far as its code tells."""
    code = getattr(unwrap(spec.fn), "__code__", None)
    if spec.thread or not isinstance(code, CodeType):
        return None
    for module, names in BLOCKING.items():
        called = next((name for name in names if name in code.co_names), None)
        if module in code.co_names and called is not None:
            return f"{module}.{called}"
    return None


UNFIRED = {HookPoint.BEFORE_FINAL_RESPONSE, HookPoint.QUERY_END}
"""Points of Checkrail's own loop, which a graph does not come by."""


def _of_graphs_alone(loaded: Loaded) -> Iterator[Problem]:
    """Tell of hooks that no agent of the file will ever fire."""
    kinds = {agent.kind for agent in loaded.agents.values()}
    for spec in loaded.specs if kinds == {"graph"} else ():
        points = {place.point for place in spec.places}
        if points and points <= UNFIRED:
            at = ", ".join(sorted(map(str, points)))
            yield _problem(spec, f"no graph fires {at}", "use after_llm_call or on_result")


def _problem(of: HookSpec | AgentConfig, found: str, hint: str) -> Problem:
    file, _, line = of.source.rpartition(":")
    if not line.isdigit():
        file, line = of.source, ""
    return Problem(file, int(line) if line else None, repr(of.name), found, hint=hint)


def _tools(loaded: Loaded) -> list[str]:
    """Name the tools of all agents; none if some of them are only known when they run."""
    agents = loaded.agents.values()
    if any(agent.mcp or agent.path or agent.kind != "autonomous" for agent in agents):
        return []
    return [name for agent in agents for tool in agent.tools for name in tool.names]


def _of_agent(agent: AgentConfig) -> Iterator[Problem]:
    provider = agent.model.provider if agent.model is not None else ""
    needed = {provider: EXTRAS[provider]} if provider in EXTRAS else {}
    if agent.mcp:
        needed["mcp"] = "checkrail[mcp]"
    for package, extra in needed.items():
        if find_spec(package) is None:
            found = f"it needs the package {package}, which is not installed here"
            yield _problem(agent, found, f'pip install "{extra}"')
