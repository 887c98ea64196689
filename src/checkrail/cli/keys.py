"""`checkrail keys` makes, lists and revokes the API keys of a server."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.databases import config_option, opened, project
from checkrail.cli.show import as_json, cell, console, new_table, print_table, shown
from checkrail.engine.records import uuid7

if TYPE_CHECKING:
    from checkrail.config import Loaded
    from checkrail.store.database import Database
    from checkrail.store.rows import Row

ROLES = ("admin", "member", "viewer", "runner")
LONGEST = 200
ONCE = "This key is shown once and kept nowhere: put it where you keep secrets."


@click.group(epilog="Example: checkrail keys create ci --role member")
def command() -> None:
    """Make, list and revoke API keys.

    They are kept as digests in the project's database, also while its server runs. A server asks
    for them if the project's file says auth: {keys: true}.
    """


@command.command("create", epilog="Example: checkrail keys create ci --role member")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="admin: everything; member: their own work; viewer: reads it; runner: takes runs.",
)
@click.option("--owner", metavar="ID", help="Whose work the key sees and makes.  [default: NAME]")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def create(name: str, role: str, owner: str | None, config: str | None, *, as_data: bool) -> None:
    """Make a key called NAME, and print it this once."""
    row = {"name": _named(name, "NAME"), "owner": _named(owner or name, "--owner"), "role": role}
    loaded = project(config, as_data=as_data)
    with opened(loaded) as database:
        _prepare(database)
        token, kept = _added(database, row)
    if as_data:
        click.echo(as_json(_told(kept) | {"key": token}))
    else:
        click.echo(token)
        _note(f"{kept['key_id']}: {role} {shown(row['name'])}, for {shown(row['owner'])}", "dim")
        _note(ONCE, "yellow")
    _warn_if_unasked(loaded, role)


@command.command("ls", epilog="Example: checkrail keys ls")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def list_keys(config: str | None, *, as_data: bool) -> None:
    """List the keys, the newest first."""
    loaded = project(config, as_data=as_data)
    with opened(loaded) as database:
        found = _all(database)
    if as_data:
        click.echo(as_json([_told(row) for row in found]))
    elif found:
        _print(found)
    else:
        _note("There are no keys. To make one: checkrail keys create NAME --role member", "dim")


@command.command("revoke", epilog="Example: checkrail keys revoke 019a87f2")
@click.argument("key_id", metavar="ID")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def revoke(key_id: str, config: str | None, *, as_data: bool) -> None:
    """Take a key out of force; ID is what `keys ls` shows, or the beginning of one."""
    loaded = project(config, as_data=as_data)
    with opened(loaded) as database:
        row = _meant(_all(database), key_id)
        _revoke(database, row["key_id"])
        row = next(each for each in _all(database) if each["key_id"] == row["key_id"])
    if as_data:
        click.echo(as_json(_told(row)))
    else:
        console().print(f"{row['key_id']}: revoked {shown(row['name'])}")


def _named(text: str, what: str) -> str:
    """Take a name that can be shown and kept."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST:
        told = f"a text of at most {LONGEST} characters, all of which can be seen"
        raise click.UsageError(f"{what} is {told}")
    return text.strip()


def _prepare(database: Database) -> None:
    """See that the tables are there; SQLite's are made, as a server that starts makes them."""
    from checkrail.store import migrate

    if database.postgres:
        migrate.check(database.engine)
    else:
        migrate.upgrade(database.engine)


def _added(database: Database, row: dict[str, str]) -> tuple[str, Row]:
    from checkrail.server.auth import new_key
    from checkrail.store import keys

    made = new_key()
    kept = {**row, "key_id": uuid7(), "created_at": time.time(), "revoked_at": None}
    stored = {**kept, "digest": made.digest}
    database.write_soon(lambda tx: keys.add(tx, stored)).result()
    return made.token, kept


def _all(database: Database) -> list[Row]:
    from checkrail.store import keys

    _prepare(database)
    return database.read_now(keys.all_keys)


def _revoke(database: Database, key_id: str) -> None:
    from checkrail.store import keys

    database.write_soon(lambda tx: keys.revoke(tx, key_id, time.time())).result()


def _meant(found: list[Row], key_id: str) -> Row:
    """Find the key that an id, or the beginning of one, names."""
    meant = [row for row in found if key_id and row["key_id"].startswith(key_id.lower())]
    if not meant:
        raise click.UsageError(f"there is no key {shown(key_id)!r}: see `checkrail keys ls`")
    if len(meant) > 1:
        raise click.UsageError(f"{len(meant)} keys begin with {key_id!r}: say more of the id")
    if meant[0]["revoked_at"] is not None:
        raise click.UsageError(f"the key {meant[0]['key_id']} was revoked before")
    return meant[0]


def _told(row: Row) -> dict[str, Any]:
    shown_of = {name: row[name] for name in ("key_id", "name", "role", "owner")}
    times = {name: _when(row[name]) for name in ("created_at", "revoked_at")}
    return shown_of | times


def _when(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _print(found: list[Row]) -> None:
    table = new_table("id", "name", "role", "owner", "made", "revoked")
    for row in map(_told, found):
        style = "dim" if row["revoked_at"] else ""
        table.add_row(*(cell(value or "") for value in row.values()), style=style)
    print_table(console(), table)


def _note(text: str, style: str) -> None:
    console(stderr=True).print(text, style=style)


def _warn_if_unasked(loaded: Loaded, role: str) -> None:
    """Say so if the project's server would not ask for the key."""
    auth = loaded.server.auth
    if auth is not None and (auth.keys or role == "runner"):
        return
    told = f"{loaded.file} says nothing of auth, so that nobody is asked for a key"
    remedy = ": write auth: {keys: true}"
    if auth is not None:
        told, remedy = f"callers are known by {auth.path}, and only runners are asked for keys", ""
    _note(f"warning: {told}{remedy}", "yellow")
