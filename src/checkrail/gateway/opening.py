"""Opening a gateway: its hooks and settings from files, its upstreams, and the app."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager

from checkrail.actions.outside import Outside
from checkrail.config.gateway import NOT_SAID, GatewayConfig, UpstreamConfig
from checkrail.config.hook_files import GatewayFiles
from checkrail.config.loader import Loaded
from checkrail.config.reload import Reloader
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Sink
from checkrail.gateway.app import GatewayApp, gateway_app
from checkrail.gateway.counting import counting
from checkrail.gateway.door import Door, KeyDoor
from checkrail.gateway.exchange import Gateway
from checkrail.gateway.judging import POINTS
from checkrail.gateway.upstreams import Upstreams

log = logging.getLogger("checkrail.gateway")


class OpenGateway:
    """A gateway that goes by files, and by what becomes of them while it runs.

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
        self._note_settings()
        self._note_idle()

    def _note_idle(self) -> None:
        """Tell which hooks have nothing to do here, so that nobody counts on them."""
        hooks = (spec for spec in self.registry.list() if spec.mode != "off")
        idle = [spec.name for spec in hooks if not any(at.point in POINTS for at in spec.places)]
        if idle:
            told = "not called, for no point where they stand is passed here: %s"
            log.info(told, ", ".join(idle))

    def _note_settings(self) -> None:
        for loaded in self.loaded[1:]:
            if loaded.gateway is not NOT_SAID:
                told = "what %s says under `gateway` does not count: what %s says does"
                log.warning(told, loaded.file, self.loaded[0].file)

    def use(self, upstreams: tuple[UpstreamConfig, ...]) -> None:
        """Go to other upstreams than the files say."""
        self.settings = dataclasses.replace(self.settings, upstreams=upstreams)

    def counting(self) -> AbstractContextManager[None]:
        """Keep what limits and budgets count, for as long as the gateway is used."""
        return counting(self.loaded[0].server, self.registry, self.outside)

    def app(self, *, door: Door | None = None) -> GatewayApp:
        """Make the app; where nothing else is said, callers need a key if there are any."""
        if door is None and self.settings.keys:
            door = KeyDoor(self.settings.keys)
        upstreams = Upstreams(self.settings.upstreams)
        gateway = Gateway(self.registry, upstreams, self.settings)
        return gateway_app(
            gateway,
            upstreams,
            door=door,
            body_bytes=self.settings.body_bytes,
            lifespan=self._watching,
            limits=self.loaded[0].server.limits,
        )

    async def watch(self) -> None:
        """Reload files that change, until cancelled."""
        await asyncio.gather(*(reloader.watch() for reloader in self._reloaders))

    @contextlib.asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Reload what changes; at the end, wait for what still goes on in the background."""
        task = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.registry.aclose()
