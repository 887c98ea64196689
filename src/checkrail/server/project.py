"""A project as a server runs it: its hooks and graphs, loaded anew when they change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.actions.outside import Outside
from checkrail.config.loader import missing_files
from checkrail.config.modules import project_modules, reimport_modules
from checkrail.config.problems import ConfigError
from checkrail.config.reload import Reloader
from checkrail.engine.containment import contain_errors
from checkrail.engine.registry import HookRegistry
from checkrail.runs.agents.catalogue import GRAPH, Catalogue
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.agents.managed_agents import sync_agents
from checkrail.runs.graphs.loader import Graphs, GraphSource, load_graph

if TYPE_CHECKING:
    from watchfiles import Change

    from checkrail.server.services import Services

log = logging.getLogger("checkrail.server")

_WATCHED = {".py", ".yaml", ".yml", ".json", ".toml"}


class Project:
    """The file that a server starts from, with what it names."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.registry = HookRegistry()
        self.outside = Outside(serving=True)
        self._hooks = Reloader(file, self.registry, self.outside)
        self.loaded = self._hooks.load()
        self.outside.secret = self.loaded.server.outbound.webhook_secret
        self.catalogue = Catalogue(self.loaded.agents)
        self.workshop = AgentFactory(self.loaded, self.catalogue, self.registry)
        if missing := missing_files(self.loaded):
            raise ConfigError([*missing], self.loaded.files)

    async def load_graphs(self) -> dict[str, Any]:
        """Import the graphs, so that hooks hold in them."""
        agents = [agent for agent in self.loaded.agents.values() if agent.kind == GRAPH]
        if agents:
            from checkrail.adapters.langchain import install  # LangChain, which only graphs need

            install()
        sources = [GraphSource(agent.name, agent.path, self.loaded.base) for agent in agents]
        return {
            source.name: await load_graph(source, self._importer_for(source.name))
            for source in sources
        }

    def _importer_for(self, name: str) -> Callable[[str, Path], Any]:
        return lambda path, _base: self.loaded.load_object(path, f"the graph {name!r}")

    def agent_descriptions(self) -> dict[str, str | None]:
        """Return the agents by name, with what their file says of them."""
        return {agent.name: agent.description or None for agent in self.loaded.agents.values()}

    async def reload(self, services: Services) -> bool:
        """Load everything anew; what is broken leaves all as it was, and False says so."""
        roots = [self.loaded.base, *self.loaded.server.import_path]
        before = self.loaded
        try:
            with contain_errors(), reimport_modules(project_modules(roots)):
                self.loaded = self._hooks.load()
                services.graphs.update_from(Graphs(await self.load_graphs()))
                self.catalogue.set_declared(self.loaded.agents)
                self.workshop.update_project(self.loaded)
        except Exception as error:  # noqa: BLE001 - it is the user's code
            self.loaded = before
            log.error("%s was not reloaded, all stays as it was: %s", self.file, error)  # noqa: TRY400
            return False
        self.outside.secret = self.loaded.server.outbound.webhook_secret
        if services.made is not None:
            services.made.allow_code = self.loaded.server.agents_api.allow_code
            await services.made.refresh(anew=True)
        await services.database.write(
            lambda tx: sync_agents(tx, self.agent_descriptions(), time.time())
        )
        log.info("%s was reloaded", self.file)
        return True

    async def watch(self, services: Services) -> None:
        """Reload when a file of the project changes, until cancelled."""
        from watchfiles import DefaultFilter, awatch

        only = DefaultFilter(ignore_paths=[str(self.loaded.server.data_dir)])

        def should_reload(change: Change, path: str) -> bool:
            return only(change, path) and Path(path).suffix in _WATCHED

        try:
            async for _ in awatch(self.loaded.base, watch_filter=should_reload, rust_timeout=1000):
                await self.reload(services)
        except (OSError, RuntimeError) as error:  # the system has no more watches, say
            log.warning("%s cannot be watched: restart after a change. %s", self.file, error)
