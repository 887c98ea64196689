"""What limits and budgets of a gateway are counted in: a database, so that a restart forgets none.

A gateway within the server counts where the server does; this is for one that runs alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator

from checkrail.actions.outside import Outside
from checkrail.builtin import BUILTINS
from checkrail.config.server import ServerConfig
from checkrail.engine.registry import HookRegistry
from checkrail.private_files import make_private_folder

log = logging.getLogger("checkrail.gateway")

FILE = "gateway.db"


@contextlib.contextmanager
def counting(config: ServerConfig, registry: HookRegistry, outside: Outside) -> Iterator[None]:
    """Let hooks count in the project's database, or in a file of SQLite beside it."""
    if not _counts(registry):
        yield
        return
    if importlib.util.find_spec("sqlalchemy") is None:
        log.warning(
            "limits and budgets are counted in memory, and a restart forgets them. "
            'To keep them: pip install "checkrail[server]", or sqlalchemy and alembic alone'
        )
        yield
        return
    from checkrail.store.counting import StoredCounters
    from checkrail.store.database import opened

    with opened(_prepared(config)) as database:
        outside.counters = StoredCounters(database)
        try:
            yield
        finally:
            outside.counters = None


def _counts(registry: HookRegistry) -> bool:
    named = (BUILTINS.get(spec.target_name or "") for spec in registry.list())
    return any(found is not None and found.counts for found in named)


def _prepared(config: ServerConfig) -> str:
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
