"""Opening a gateway: its hooks and settings from files, its upstreams, and the app."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from checkrail.actions.outside import Outside
from checkrail.builtin import BUILTINS
from checkrail.config.gateway import NOT_SAID, GatewayConfig, UpstreamConfig
from checkrail.config.hook_files import GatewayFiles
from checkrail.config.loader import Loaded
from checkrail.config.reload import Reloader
from checkrail.config.server import ServerConfig
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Sink
from checkrail.gateway.app import GatewayApp, build_gateway_app
from checkrail.gateway.auth import Authenticator, KeyAuthenticator
from checkrail.gateway.call import Gateway
from checkrail.gateway.call_tracking import AskSource, CallSink
from checkrail.gateway.hooks import POINTS
from checkrail.gateway.metrics import open_metrics
from checkrail.gateway.placeholder_key import load_key
from checkrail.gateway.upstreams import Upstreams
from checkrail.llm.secret_vault import SecretVaults
from checkrail.private_files import make_private_folder

log = logging.getLogger("checkrail.gateway")

FILE = "gateway.db"


@contextlib.contextmanager
def open_counters(config: ServerConfig, registry: HookRegistry, outside: Outside) -> Iterator[None]:
    """Let hooks count in the project's database, or in a SQLite file beside it."""
    if not has_counting_hooks(registry):
        yield
        return
    if importlib.util.find_spec("sqlalchemy") is None:
        log.warning(
            "limits and budgets are counted in memory, and a restart forgets them. "
            'To keep them: pip install "checkrail[server]", or sqlalchemy and alembic alone'
        )
        yield
        return
    from checkrail.store.counters import StoredCounters
    from checkrail.store.database import open_database

    with open_database(prepare_database(config)) as database:
        outside.counters = StoredCounters(database)
        try:
            yield
        finally:
            outside.counters = None


def has_counting_hooks(registry: HookRegistry) -> bool:
    """Return whether any hook counts, as limits and budgets do."""
    named = (BUILTINS.get(spec.target_name or "") for spec in registry.list())
    return any(found is not None and found.counts for found in named)


def prepare_database(config: ServerConfig) -> str:
    """Return the URL of the database; SQLite's tables are brought up to date."""
    from checkrail.store import migrate
    from checkrail.store.engines import open_engine, sqlite_url

    if config.database is None:
        make_private_folder(config.data_dir)
    url = config.database or sqlite_url(config.data_dir / FILE)
    engine = open_engine(url)
    try:
        (migrate.check if config.database else migrate.upgrade)(engine)
    finally:
        engine.dispose()
    return url


class OpenGateway:
    """A gateway that is configured by files, which are reloaded while it runs.

    Raises `ConfigError` if a file is broken at the start; one that is broken later changes nothing.
    """

    def __init__(self, files: GatewayFiles, *, sink: Sink | Iterable[Sink] | None = None) -> None:
        self.registry = HookRegistry(sink)
        self.outside = Outside()
        self._reloaders = [Reloader(file, self.registry, self.outside) for file in files.files]
        self.loaded: list[Loaded] = [reloader.load() for reloader in self._reloaders]
        outbound = [loaded.server.outbound for loaded in self.loaded]
        self.outside.allow = tuple(place for each in outbound for place in each.allow)
        self.outside.secret = next(filter(None, (each.webhook_secret for each in outbound)), None)
        self.settings: GatewayConfig = self.loaded[0].gateway
        self._warn_of_settings()
        self._warn_of_idle_hooks()

    def _warn_of_idle_hooks(self) -> None:
        """Log which hooks never fire in a gateway."""
        hooks = (spec for spec in self.registry.list() if spec.mode != "off")
        idle = [spec.name for spec in hooks if not any(at.point in POINTS for at in spec.places)]
        if idle:
            told = "not called, for no point where they stand is passed here: %s"
            log.info(told, ", ".join(idle))

    def _warn_of_settings(self) -> None:
        for loaded in self.loaded[1:]:
            if loaded.gateway is not NOT_SAID:
                told = "what %s says under `gateway` does not count: what %s says does"
                log.warning(told, loaded.file, self.loaded[0].file)

    def use_upstreams(self, upstreams: tuple[UpstreamConfig, ...]) -> None:
        """Use other upstreams than those of the files."""
        self.settings = dataclasses.replace(self.settings, upstreams=upstreams)

    def open_counters(self) -> AbstractContextManager[None]:
        """Keep what limits and budgets count, for as long as the gateway is used."""
        return open_counters(self.loaded[0].server, self.registry, self.outside)

    def build_app(
        self,
        *,
        door: Authenticator | None = None,
        call_sinks: Sequence[CallSink] = (),
        ask_source: AskSource | None = None,
        with_metrics: bool = False,
    ) -> GatewayApp:
        """Build the app; without `door`, callers need a key if any is configured."""
        metrics = open_metrics(self.registry) if with_metrics else None
        if metrics is not None:
            call_sinks = (*call_sinks, metrics.count_call)
        if door is None and self.settings.keys:
            door = KeyAuthenticator(self.settings.keys)
        upstreams = Upstreams(self.settings.upstreams)
        data_dir = self.loaded[0].server.data_dir
        vaults = SecretVaults(functools.partial(load_key, data_dir))
        gateway = Gateway(
            self.registry,
            upstreams,
            self.settings,
            vaults,
            call_sinks=call_sinks,
            ask_source=ask_source,
        )
        return build_gateway_app(
            gateway,
            upstreams,
            door=door,
            body_bytes=self.settings.body_bytes,
            lifespan=self._run_watcher,
            limits=self.loaded[0].server.limits,
            metrics=metrics,
        )

    async def watch(self) -> None:
        """Reload files that change, until cancelled."""
        await asyncio.gather(*(reloader.watch() for reloader in self._reloaders))

    @contextlib.asynccontextmanager
    async def _run_watcher(self) -> AsyncIterator[None]:
        """Reload what changes; at the end, wait for background work."""
        task = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.registry.aclose()
