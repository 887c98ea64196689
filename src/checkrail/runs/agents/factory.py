"""The workshop: makes what carries agents out, from the project that declares them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.agent.agent import Agent
from checkrail.agent.blueprint import AgentBuilder
from checkrail.config.agents import AgentConfig
from checkrail.config.loader import Loaded
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from checkrail.runs.agents.catalogue import Catalogue


class AgentFactory:
    """Builds autonomous agents, each once as long as its blueprint stays, and imports functions.

    `registry` is the level of the server's hooks; those of agents are kept in the catalogue.
    """

    def __init__(self, loaded: Loaded, catalogue: Catalogue, registry: HookRegistry) -> None:
        self.loaded = loaded
        self._catalogue = catalogue
        self._registry = registry
        self._agents: dict[str, tuple[AgentConfig, Agent]] = {}
        self._retired: list[Agent] = []

    @property
    def base(self) -> Path:
        """Where relative paths start."""
        return self.loaded.base

    def update_project(self, loaded: Loaded) -> None:
        """Use the project as it is now; agents that are at work are not disturbed."""
        self.loaded = loaded
        self._retired += [agent for _, agent in self._agents.values()]
        self._agents = {}

    def load_function(self, config: AgentConfig) -> Callable[..., Any]:
        """Import the function of a procedural agent."""
        label = f"the agent {config.name!r}"
        found: Callable[..., Any] = self.loaded.load_object(config.path, label)
        if not callable(found):
            raise TypeError(f"{config.path!r} of {label} is {type(found).__name__}, no function")
        return found

    def get_agent(self, config: AgentConfig) -> Agent:
        """Return an autonomous agent; it is run under the scope of its run."""
        known = self._agents.get(config.name)
        if known is not None and known[0] is config:
            return known[1]
        if known is not None:
            self._retired.append(known[1])
        entries = {entry.name: entry for entry in self._catalogue}
        configs = {name: entry.config for name, entry in entries.items()} | {config.name: config}
        builder = AgentBuilder(
            dataclasses.replace(self.loaded, agents=configs),
            hooks=self._registry,
            levels={name: entry.hooks for name, entry in entries.items()},
        )
        made = builder.build(config.name)
        self._agents[config.name] = (config, made)
        return made

    async def aclose(self) -> None:
        """Close what agents have opened."""
        for agent in (*self._retired, *(agent for _, agent in self._agents.values())):
            with contextlib.suppress(Exception):
                await agent.aclose()
