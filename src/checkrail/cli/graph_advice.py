"""Advice on graphs: whether they can be had, and what in them no hook would see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from checkrail.cli.extras import is_installed

if TYPE_CHECKING:
    from checkrail.config import AgentConfig, Loaded

Told = tuple[str, str]
"""What was found, and what to do about it."""


def graph_advice(loaded: Loaded, agent: AgentConfig) -> Iterator[Told]:
    """Import a graph as the server would, and say what is the matter with it."""
    if not is_installed("langgraph.pregel"):
        yield "it needs the package langgraph, which is not installed here", _EXTRA
        return
    from checkrail.adapters.langchain import out_of_reach
    from checkrail.config.problems import ConfigError
    from checkrail.runs.graphs.factories import Factory, GraphError
    from checkrail.runs.graphs.loading import prepared

    label = f"the graph {agent.name!r}"
    try:
        found = loaded.load_object(agent.path, label)
        graph = asyncio.run(prepared(found, agent.name))
    except ConfigError as error:
        yield from ((str(problem), "the server will not start so") for problem in error.problems)
    except GraphError as error:
        yield loaded.scrubbed(str(error)), "the server will not start so"
    else:
        if isinstance(graph, Factory):
            yield f"{agent.path} makes a graph for each run: what is in it was not looked at", _DOCS
            return
        yield from ((f"out of the hooks' reach: {each}", _DOCS) for each in out_of_reach(graph))


_EXTRA = 'pip install "checkrail[server]"'
_DOCS = "see docs/run-hooks.md"
