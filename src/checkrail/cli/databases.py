"""The database of a project, for commands that work on it while a server runs or not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import FAILED
from checkrail.cli.extras import require_extra
from checkrail.cli.files import read
from checkrail.cli.show import shown
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from checkrail.config import Loaded
    from checkrail.config.server import ServerConfig
    from checkrail.store.database import Database

CONFIG = "CHECKRAIL_CONFIG"
SQLITE = "SQLite"
POSTGRES = "PostgreSQL"


class DatabaseFailed(click.ClickException):
    """The database is not there, or cannot do what it was asked to."""

    exit_code = FAILED


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config` to a command."""
    told = "The project's file or folder.  [default: here]"
    return click.option("--config", "-c", metavar="PATH", envvar=CONFIG, help=told)(command)


def project(path: str | None, *, as_data: bool) -> Loaded:
    """Load the project of a file or folder, or print what is wrong with it and leave."""
    require_extra("server")
    return read(Path(path or "."), as_data=as_data)


def file_of(config: ServerConfig) -> Path | None:
    """Return the SQLite file of a project that names no database."""
    return None if config.database is not None else config.data_dir / "checkrail.db"


def url_of(config: ServerConfig) -> str:
    """Return the URL of a project's database; the folder of a SQLite file is made."""
    from checkrail.private_files import make_private_folder

    if config.database is not None:
        return config.database
    from checkrail.store.engines import sqlite_url

    make_private_folder(config.data_dir)
    return sqlite_url(config.data_dir / "checkrail.db")


def place_of(config: ServerConfig, kind: str) -> str:
    """Return where a database is, without what nobody is to see."""
    file = file_of(config)
    return kind if file is None else f"{kind} in {file}"


@contextlib.contextmanager
def opened(loaded: Loaded) -> Iterator[Database]:
    """Open the database of a project; what goes wrong inside is told without any secret."""
    with told_plainly(loaded):
        url = url_of(loaded.server)
        from checkrail.store import database

        with database.opened(url) as found:
            yield found


@contextlib.contextmanager
def told_plainly(loaded: Loaded) -> Iterator[None]:
    """Tell errors of the database in a line."""
    try:
        yield
    except CheckrailError as error:
        raise DatabaseFailed(shown(loaded.scrubbed(str(error)))) from None
    except OSError as error:
        told = f"{error.filename or loaded.server.data_dir} cannot be used: {error.strerror}"
        raise DatabaseFailed(shown(told)) from None
    except Exception as error:
        if not _of_database(error):
            raise
        raise DatabaseFailed(_reason(loaded, error)) from None


def _of_database(error: Exception) -> bool:
    """Return whether an error is one of the packages that talk to databases."""
    return type(error).__module__.partition(".")[0] in ("sqlalchemy", "psycopg", "psycopg_pool")


def _reason(loaded: Loaded, error: Exception) -> str:
    said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    first = shown(loaded.scrubbed(said.splitlines()[0]))
    hint = "See that it runs, and that CHECKRAIL_DATABASE_URL or `database` names it rightly"
    if loaded.server.database is None:
        hint = f"See that {loaded.server.data_dir} can be written to"
    return f"the database cannot be used: {first}. {hint}"
