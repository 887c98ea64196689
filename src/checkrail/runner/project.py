"""A project as a runner has it: its agents and graphs, from its own file and its own code."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from checkrail.actions.outbound import Outbound
from checkrail.config.agents import AgentConfig
from checkrail.config.blueprints import load_blueprint
from checkrail.config.loader import Loaded, load
from checkrail.config.problems import Report
from checkrail.config.trust import TrustCheck
from checkrail.engine.registry import HookRegistry
from checkrail.runs.agents.catalogue import GRAPH, Catalogue
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.graphs.checkpoints import (
    open_checkpointer,
    open_own_checkpointer,
    open_store,
)
from checkrail.runs.graphs.loader import Graphs, GraphSource, load_graph

log = logging.getLogger("checkrail.runner")


class RunnerProject:
    """What a runner can execute. No hook is called here: those are the server's."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.loaded: Loaded = load(file)
        agents = {
            name: dataclasses.replace(agent, hooks=()) for name, agent in self.loaded.agents.items()
        }
        self.catalogue = Catalogue(agents)
        self.workshop = AgentFactory(self.loaded, self.catalogue, HookRegistry())
        self.graphs = Graphs({})
        self.checkpointer: Any = None
        self._sent: dict[str, tuple[Mapping[str, Any], AgentConfig]] = {}

    @property
    def has_graphs(self) -> bool:
        """Whether graphs can be executed here: their checkpoints are where the server's are."""
        server = self.loaded.server
        return server.database is not None or bool(server.checkpointer.path)

    @property
    def kinds(self) -> list[str]:
        """The kinds of agents that can be executed here."""
        return [*([GRAPH] if self.has_graphs else ()), "autonomous", "procedural"]

    @property
    def agents(self) -> list[str]:
        """The names of the agents that can be executed here."""
        return [entry.name for entry in self.catalogue if entry.config.kind in self.kinds]

    @contextlib.asynccontextmanager
    async def open_storage(self) -> AsyncIterator[None]:
        """Import the graphs, and open where they keep their state."""
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.workshop.aclose)
            named = [each.name for each in self.catalogue if each.config.kind == GRAPH]
            if named and not self.has_graphs:
                told = ", ".join(named)
                log.warning(
                    "no database is named here, so that no graph is carried out: %s. Set "
                    "CHECKRAIL_DATABASE_URL to the server's",
                    told,
                )
            elif named:
                await self._open_graphs(stack)
            yield

    async def _open_graphs(self, stack: contextlib.AsyncExitStack) -> None:
        from checkrail.adapters.langchain import install

        install()
        server = self.loaded.server
        self.checkpointer = await stack.enter_async_context(self._open_saver())
        store = None
        if server.database is not None:
            index = dict(server.store.index) if server.store.index else None
            ttl = dict(server.store.ttl) if server.store.ttl else None
            store = await stack.enter_async_context(open_store(server.database, index, ttl))
        found = {}
        for entry in self.catalogue:
            if entry.config.kind == GRAPH:
                source = GraphSource(entry.name, entry.config.path, self.loaded.base)
                found[entry.name] = await load_graph(source, self._import_graph)
        self.graphs = Graphs(found, self.checkpointer, store)

    def _import_graph(self, path: str, _base: Path) -> Any:
        return self.loaded.load_object(path, f"the graph at {path!r}")

    @contextlib.asynccontextmanager
    async def _open_saver(self) -> AsyncIterator[Any]:
        config = self.loaded.server
        if not config.checkpointer.path:
            types = self.loaded.load_state_types()
            async with open_checkpointer(str(config.database), types=types) as saver:
                yield saver
            return
        found = self.loaded.load_object(config.checkpointer.path, "checkpointer.path")
        async with open_own_checkpointer(found) as saver:
            yield saver

    def find_agent(self, name: str, blueprint: Mapping[str, Any] | None) -> AgentConfig:
        """Return an agent of ours, or read one that was sent; nothing that it names is imported."""
        entry = self.catalogue.get(name)
        if entry is not None:
            return entry.config
        if blueprint is None:
            known = ", ".join(self.agents)
            raise LookupError(f"this runner has no agent {name!r}. Its agents are: {known}")
        read = self._sent.get(name)
        if read is None or read[0] != blueprint:
            read = self._sent[name] = (blueprint, self._read_blueprint(name, blueprint))
        return read[1]

    def _read_blueprint(self, name: str, blueprint: Mapping[str, Any]) -> AgentConfig:
        plain = {key: value for key, value in blueprint.items() if key != "hooks"}
        report = Report(f"agent {name!r}")
        TrustCheck(report, Outbound(self.loaded.server.outbound.allow)).check_agent(plain)
        report.raise_if_any()
        return load_blueprint(
            {"name": name, **plain},
            base=self.loaded.base,
            settings=self.loaded.settings,
            definitions=self.loaded.definitions,
            name=f"agent {name!r}",
        )
