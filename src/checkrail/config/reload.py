"""Reload on change, whole or not at all: a broken file keeps the hooks that were there."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from checkrail.actions.outside import Outside
from checkrail.config.gateway import GatewayConfig
from checkrail.config.loader import Loaded, load
from checkrail.config.modules import reimport_modules
from checkrail.config.problems import ConfigError, Problem
from checkrail.config.project import FOLDER, blueprint_files
from checkrail.engine.errors import CheckrailError, HookRefusedError

if TYPE_CHECKING:
    from checkrail.engine.hook import HookSpec
from checkrail.engine.registry import HookRegistry

log = logging.getLogger("checkrail.config")

_LOOK_EVERY = 1000  # ms

_CLOCK_STEP = 20_000_000  # ns: file systems read a clock that ticks, and may be this far behind
_NOT_THERE = (0, 0)

Stamp = dict[Path, object]  # when it was written and its size; of a folder, what is in it


class Reloader:
    """Keeps the hooks of a file in a registry; hooks that others registered there stay."""

    def __init__(
        self, path: str | Path, registry: HookRegistry, outside: Outside | None = None
    ) -> None:
        self.path = Path(path)
        self.registry = registry
        self.outside = outside
        self.loaded: Loaded | None = None
        self.last_error: ConfigError | None = None
        self._lock = threading.Lock()
        file = self.path.absolute()
        self._files: tuple[Path, ...] = (file, file.parent / FOLDER)
        self._stamp: Stamp = {}
        self._gateway: GatewayConfig | None = None

    def load(self) -> Loaded:
        """Load the file and put its hooks into the registry, or raise what is wrong with it."""
        with self._lock:
            return self._load_file()

    def reload(self) -> bool:
        """Load the file anew; if it is broken, the hooks stay as they are and False is returned."""
        try:
            with self._lock:
                loaded = self._load_file()
        except ConfigError as error:
            log.error("%s was not reloaded, its hooks stay as they were. %s", self.path, error)  # noqa: TRY400
            return False
        log.info("%s was reloaded: %d hooks", self.path, len(loaded.specs))
        return True

    async def watch(self) -> None:
        """Reload whenever one of its files changes, or another agent comes, until cancelled."""
        while True:
            async for _ in _iter_changes(self._files):
                if _file_stamps(self._files) != self._stamp:
                    files = self._files
                    await self._try_reload()
                    if self._files != files:
                        break

    async def _try_reload(self) -> None:
        """Reload; an unexpected error may be over soon, and must not keep old rules for good.

        In a thread of its own: those of the loop may all be busy with what others do.
        """
        try:
            with ThreadPoolExecutor(1, "checkrail-reload") as thread:
                await asyncio.get_running_loop().run_in_executor(thread, self.reload)
        except Exception:
            log.exception("%s could not be reloaded, and is tried again", self.path)
            self._stamp = {}

    def _load_file(self) -> Loaded:
        known = self.loaded.modules if self.loaded else ()
        started = time.time_ns()
        self._stamp = _file_stamps(self._files)
        try:
            with reimport_modules(known):
                loaded = load(self.path, outside=self.outside)
                self._swap_hooks(loaded)
        except ConfigError as error:
            self.last_error = error
            self._watch_files((*self._files, *error.files), started)
            raise
        self._warn_of_gateway(loaded)
        self.loaded, self.last_error = loaded, None
        folder = () if loaded.folder is None else (loaded.folder,)
        self._watch_files((*loaded.files, *folder), started)
        for warning in loaded.warnings:
            log.warning("%s", warning)
        return loaded

    def _warn_of_gateway(self, loaded: Loaded) -> None:
        """Log that a gateway keeps its settings: only hooks are reloaded."""
        if self.loaded is None:
            self._gateway = loaded.gateway
        elif loaded.gateway not in (self.loaded.gateway, self._gateway):
            log.warning("%s says other things under `gateway`: they take a restart", self.path)

    def _swap_hooks(self, loaded: Loaded) -> None:
        own = {spec.name for spec in self.loaded.specs} if self.loaded else set()

        def merge_specs(known: list[HookSpec]) -> list[HookSpec]:
            return [*(spec for spec in known if spec.name not in own), *loaded.specs]

        try:
            self.registry.swap(merge_specs)
        except HookRefusedError as error:
            problem = Problem(str(self.path), None, "", str(error))
            raise ConfigError([problem], loaded.files) from error
        if loaded.settings.history is not None:
            self.registry.history = loaded.settings.history
        if loaded.settings.max_retries is not None:
            self.registry.max_retries = loaded.settings.max_retries

    def _watch_files(self, files: Iterable[Path], started: int) -> None:
        """Watch other files; new ones count as they are now, unless they came since `started`.

        Such a file may have been looked for before it was written: it counts as not there yet.
        """
        self._files = tuple(dict.fromkeys(files))
        before = self._stamp
        self._stamp = {
            file: before.get(file, _NOT_THERE if _is_newer(started, file) else now)
            for file, now in _file_stamps(self._files).items()
        }


async def _iter_changes(files: Iterable[Path]) -> AsyncIterator[None]:
    """Yield when something may have changed: on a notice of the system, and now and then anyway.

    Not every file system tells, and nobody is told while the watch is being set up.
    """
    try:
        from watchfiles import awatch
    except ImportError as error:
        message = 'watching files needs watchfiles. Run: pip install "checkrail[config]"'
        raise CheckrailError(message) from error
    within = {file for file in files if file.is_dir()}
    folders = {file.parent for file in files if file.parent.is_dir()}
    try:
        async for _ in awatch(
            *folders | within,
            watch_filter=None,  # it would not yield where others write all the time
            recursive=False,
            rust_timeout=_LOOK_EVERY,
            yield_on_timeout=True,
        ):
            yield
    except (OSError, RuntimeError) as error:  # the system has no more watches, say
        log.warning("files cannot be watched, and are looked at every second: %s", error)
    while True:
        await asyncio.sleep(_LOOK_EVERY / 1000)
        yield


def _file_stamps(files: Iterable[Path]) -> Stamp:
    """Return the times and sizes of files, and for folders their agents."""
    found: Stamp = {}
    for file in files:
        try:
            stat = file.stat()
        except OSError:
            found[file] = _NOT_THERE
        else:
            folder = file.is_dir()
            found[file] = blueprint_files(file) if folder else (stat.st_mtime_ns, stat.st_size)
    return found


def _is_newer(started: int, file: Path) -> bool:
    """Return whether a file was written or put in place since then, by its file system's clock."""
    try:
        stat = file.stat()
    except OSError:
        return False
    return max(stat.st_mtime_ns, stat.st_ctime_ns) >= started - _CLOCK_STEP
