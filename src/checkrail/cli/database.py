"""The database of a project, for commands that work on it while a server runs or not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import FAILED
from checkrail.cli.extras import require_extra
from checkrail.cli.files import read_config
from checkrail.cli.output import escape_text
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from checkrail.config.loader import Loaded
    from checkrail.config.server import ServerConfig
    from checkrail.store.database import Database

CONFIG = "CHECKRAIL_CONFIG"
SQLITE = "SQLite"
POSTGRES = "PostgreSQL"


class DatabaseUnavailable(click.ClickException):
    """The database is not there, or cannot do what it was asked to."""

    exit_code = FAILED


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config` to a command."""
    told = "The project's file or folder.  [default: here]"
    return click.option("--config", "-c", metavar="PATH", envvar=CONFIG, help=told)(command)


def load_project(path: str | None, *, as_data: bool) -> Loaded:
    """Load the project of a file or folder, or print what is wrong with it and exit."""
    require_extra("server")
    return read_config(Path(path or "."), as_data=as_data)


def sqlite_file(config: ServerConfig) -> Path | None:
    """Return the SQLite file of a project that names no database."""
    return None if config.database is not None else config.data_dir / "checkrail.db"


def database_url(config: ServerConfig) -> str:
    """Return the URL of a project's database; the folder of a SQLite file is made."""
    from checkrail.private_files import make_private_folder

    if config.database is not None:
        return config.database
    from checkrail.store.engines import sqlite_url

    make_private_folder(config.data_dir)
    return sqlite_url(config.data_dir / "checkrail.db")


def describe_database(config: ServerConfig, kind: str) -> str:
    """Return where a database is, without secrets."""
    file = sqlite_file(config)
    return kind if file is None else f"{kind} in {file}"


@contextlib.contextmanager
def open_database(loaded: Loaded) -> Iterator[Database]:
    """Open the database of a project; errors inside are reported without any secret."""
    with report_database_errors(loaded):
        url = database_url(loaded.server)
        from checkrail.store import database

        with database.open_database(url) as found:
            yield found


@contextlib.contextmanager
def report_database_errors(loaded: Loaded) -> Iterator[None]:
    """Report errors of the database in one line."""
    try:
        yield
    except CheckrailError as error:
        raise DatabaseUnavailable(escape_text(loaded.scrub(str(error)))) from None
    except OSError as error:
        told = f"{error.filename or loaded.server.data_dir} cannot be used: {error.strerror}"
        raise DatabaseUnavailable(escape_text(told)) from None
    except Exception as error:
        if not _is_database_error(error):
            raise
        raise DatabaseUnavailable(_describe_error(loaded, error)) from None


def _is_database_error(error: Exception) -> bool:
    """Return whether an error is one of the packages that talk to databases."""
    return type(error).__module__.partition(".")[0] in ("sqlalchemy", "psycopg", "psycopg_pool")


def _describe_error(loaded: Loaded, error: Exception) -> str:
    said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    first = escape_text(loaded.scrub(said.splitlines()[0]))
    hint = "See that it runs, and that CHECKRAIL_DATABASE_URL or `database` names it rightly"
    if loaded.server.database is None:
        hint = f"See that {loaded.server.data_dir} can be written to"
    return f"the database cannot be used: {first}. {hint}"
