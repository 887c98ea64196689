"""A project as a server runs it: its hooks and graphs, loaded anew when they change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.config.modules import anew, project_modules
from checkrail.config.problems import ConfigError
from checkrail.config.project import missing_files
from checkrail.config.reload import Reloader
from checkrail.engine.hook import HookSpec
from checkrail.engine.registry import HookRegistry
from checkrail.runs.agents import sync_agents
from checkrail.runs.graphs.loading import Graphs, GraphSource, load
from checkrail.runs.parts import AgentSettings

if TYPE_CHECKING:
    from watchfiles import Change

    from checkrail.server.services import Services

log = logging.getLogger("checkrail.server")

GRAPH = "graph"
_WATCHED = {".py", ".yaml", ".yml", ".json", ".toml"}


class Project:
    """The file that a server starts from, with what it names."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.registry = HookRegistry()
        self.agents: dict[str, HookRegistry] = {}
        self._hooks = Reloader(file, self.registry)
        self.loaded = self._hooks.load()
        self._renew_agents()
        if missing := missing_files(self.loaded):
            raise ConfigError([*missing], self.loaded.files)

    async def graphs(self) -> dict[str, Any]:
        """Import the graphs."""
        agents = [agent for agent in self.loaded.agents.values() if agent.kind == GRAPH]
        sources = [GraphSource(agent.name, agent.path, self.loaded.base) for agent in agents]
        return {source.name: await load(source, self._imported(source.name)) for source in sources}

    def _imported(self, name: str) -> Callable[[str, Path], Any]:
        return lambda path, _base: self.loaded.load_object(path, f"the graph {name!r}")

    def _renew_agents(self) -> None:
        """Take the hooks that agents have of their own; runs under way see them too."""
        for name, agent in self.loaded.agents.items():
            _replace(self.agents.setdefault(name, HookRegistry()), agent.hooks)
        for name in self.agents.keys() - self.loaded.agents.keys():
            del self.agents[name]

    def described(self) -> dict[str, str | None]:
        """Give the graphs by name, with what their file says of them."""
        agents = self.loaded.agents.values()
        return {agent.name: agent.description or None for agent in agents if agent.kind == GRAPH}

    def agent_settings(self) -> dict[str, AgentSettings]:
        """Give how the runs of each agent are treated."""
        return {
            name: AgentSettings(agent.on_crash, agent.timeout_seconds)
            for name, agent in self.loaded.agents.items()
        }

    async def reload(self, services: Services) -> bool:
        """Load everything anew; what is broken leaves all as it was, and False says so."""
        roots = [self.loaded.base, *self.loaded.server.import_path]
        before = self.loaded
        try:
            with anew(project_modules(roots)):
                self.loaded = self._hooks.load()
                services.graphs.replace(Graphs(await self.graphs()))
                self._renew_agents()
        except Exception as error:  # noqa: BLE001 - it is the user's code
            self.loaded = before
            log.error("%s was not reloaded, all stays as it was: %s", self.file, error)  # noqa: TRY400
            return False
        await services.database.write(lambda tx: sync_agents(tx, self.described(), time.time()))
        log.info("%s was reloaded", self.file)
        return True

    async def watch(self, services: Services) -> None:
        """Reload when a file of the project changes, until cancelled."""
        from watchfiles import DefaultFilter, awatch

        only = DefaultFilter(ignore_paths=[str(self.loaded.server.data_dir)])

        def wanted(change: Change, path: str) -> bool:
            return only(change, path) and Path(path).suffix in _WATCHED

        async for _ in awatch(self.loaded.base, watch_filter=wanted, rust_timeout=1000):
            await self.reload(services)


def _replace(registry: HookRegistry, hooks: Sequence[HookSpec]) -> None:
    registry.swap(lambda _known: [*hooks])
