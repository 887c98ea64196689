"""`checkrail db` brings the database of a project to the tables that this version knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.database import (
    POSTGRES,
    SQLITE,
    config_option,
    describe_database,
    load_project,
    open_database,
    sqlite_file,
)
from checkrail.cli.output import console, to_json_text

if TYPE_CHECKING:
    from checkrail.config.loader import Loaded
    from checkrail.config.server import ServerConfig
    from checkrail.store.database import Database


@click.group(epilog="Example: checkrail db upgrade")
def command() -> None:
    """Bring the server's database up to date, or say which version it has.

    It is the one that CHECKRAIL_DATABASE_URL or the project's file names, or else SQLite in the
    data folder of the project. A server that starts does this for SQLite by itself.
    """


@command.command("upgrade", epilog="Example: checkrail db upgrade --config checkrail.yaml")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def upgrade_tables(config: str | None, *, as_data: bool) -> None:
    """Make the tables that this version needs, or change those of an older one.

    Run it before a new version starts on PostgreSQL. Doing it twice, or twice at once, does no
    harm.
    """
    loaded = load_project(config, as_data=as_data)
    with open_database(loaded) as database:
        from checkrail.store import migrate

        before, after = migrate.upgrade(database.engine)
        if database.postgres:
            asyncio.run(_make_langgraph_tables(loaded))
        told = _describe_database(loaded, database) | {
            "from": before,
            "to": after,
            "changed": before != after,
        }
    if as_data:
        click.echo(to_json_text(told))
        return
    place = describe_database(loaded.server, told["database"])
    done = f"{before or 'nothing'} → {after}" if told["changed"] else f"{after} already"
    console().print(f"{place}: {done}")


async def _make_langgraph_tables(loaded: Loaded) -> None:
    """Make the tables of LangGraph's checkpointer and store, which do so when they are opened."""
    from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store

    config: ServerConfig = loaded.server
    assert config.database is not None  # noqa: S101 - it is PostgreSQL's
    index = loaded.load_store_index()
    async with open_checkpointer(config.database, size=1), open_store(config.database, index):
        pass


@command.command("version", epilog="Example: checkrail db version --json")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def show_version(config: str | None, *, as_data: bool) -> None:
    """Say which version the tables have, and which one is needed."""
    loaded = load_project(config, as_data=as_data)
    told = _read_versions(loaded)
    if as_data:
        click.echo(to_json_text(told))
        return
    place = describe_database(loaded.server, told["database"])
    found, needed = told["version"], told["needed"]
    says = f"version {found}" if found else "no tables yet"
    advice = "" if found == needed else f", and {needed} is needed: checkrail db upgrade"
    console().print(f"{place}: {says}{advice}")


def _read_versions(loaded: Loaded) -> dict[str, Any]:
    """Return the version; a file that is not there is not made for it."""
    from checkrail.store import migrate

    file = sqlite_file(loaded.server)
    if file is not None and not file.exists():
        told = {"database": SQLITE, "file": str(file), "version": None}
    else:
        with open_database(loaded) as database:
            told = _describe_database(loaded, database) | {
                "version": migrate.version(database.engine)
            }
    return told | {"needed": migrate.head()}


def _describe_database(loaded: Loaded, database: Database) -> dict[str, Any]:
    file = sqlite_file(loaded.server)
    kind = POSTGRES if database.postgres else SQLITE
    return {"database": kind, "file": None if file is None else str(file)}
