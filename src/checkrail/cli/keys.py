"""`checkrail keys` makes, lists and revokes the API keys of a server."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.database import config_option, load_project, open_database
from checkrail.cli.output import cell, console, escape_text, new_table, print_table, to_json_text
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.config.loader import Loaded
    from checkrail.store.database import Database
    from checkrail.store.keys import Key

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
def create_key(
    name: str, role: str, owner: str | None, config: str | None, *, as_data: bool
) -> None:
    """Make a key called NAME, and print it this once."""
    name, owner = _check_name(name, "NAME"), _check_name(owner or name, "--owner")
    loaded = load_project(config, as_data=as_data)
    with open_database(loaded) as database:
        _prepare_database(database)
        token, kept = _insert_key(database, name, owner, role)
    if as_data:
        click.echo(to_json_text(_key_to_json(kept) | {"key": token}))
    else:
        click.echo(token)
        _print_note(
            f"{kept.key_id}: {role} {escape_text(name)}, for {escape_text(owner)}",
            "dim",
        )
        _print_note(ONCE, "yellow")
    _warn_if_unused(loaded, role)


@command.command("ls", epilog="Example: checkrail keys ls")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def list_keys(config: str | None, *, as_data: bool) -> None:
    """List the keys, the newest first."""
    loaded = load_project(config, as_data=as_data)
    with open_database(loaded) as database:
        found = _load_keys(database)
    if as_data:
        click.echo(to_json_text([_key_to_json(row) for row in found]))
    elif found:
        _print_keys(found)
    else:
        _print_note(
            "There are no keys. To make one: checkrail keys create NAME --role member", "dim"
        )


@command.command("revoke", epilog="Example: checkrail keys revoke 019a87f2")
@click.argument("key_id", metavar="ID")
@config_option
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def revoke_key(key_id: str, config: str | None, *, as_data: bool) -> None:
    """Take a key out of force; ID is what `keys ls` shows, or the beginning of one."""
    loaded = load_project(config, as_data=as_data)
    with open_database(loaded) as database:
        row = _match_key(_load_keys(database), key_id)
        _store_revocation(database, row.key_id)
        row = next(each for each in _load_keys(database) if each.key_id == row.key_id)
    if as_data:
        click.echo(to_json_text(_key_to_json(row)))
    else:
        console().print(f"{row.key_id}: revoked {escape_text(row.name)}")


def _check_name(text: str, what: str) -> str:
    """Return a name that can be shown and stored, or raise."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST:
        told = f"a text of at most {LONGEST} characters, all of which can be seen"
        raise click.UsageError(f"{what} is {told}")
    return text.strip()


def _prepare_database(database: Database) -> None:
    """Check that the tables are there; SQLite's are made, as a server that starts makes them."""
    from checkrail.store import migrate

    if database.postgres:
        migrate.check(database.engine)
    else:
        migrate.upgrade(database.engine)


def _insert_key(database: Database, name: str, owner: str, role: str) -> tuple[str, Key]:
    from checkrail.server.auth import generate_key
    from checkrail.store import keys

    made = generate_key()
    kept = keys.Key(
        key_id=uuid7(),
        digest=made.digest,
        name=name,
        role=role,
        owner=owner,
        created_at=time.time(),
    )
    database.write_soon(lambda tx: keys.add(tx, kept)).result()
    return made.token, kept


def _load_keys(database: Database) -> list[Key]:
    from checkrail.store import keys

    _prepare_database(database)
    return database.read_now(keys.all_keys)


def _store_revocation(database: Database, key_id: str) -> None:
    from checkrail.store import keys

    database.write_soon(lambda tx: keys.revoke(tx, key_id, time.time())).result()


def _match_key(found: list[Key], key_id: str) -> Key:
    """Return the key that an id, or the beginning of one, names."""
    meant = [row for row in found if key_id and row.key_id.startswith(key_id.lower())]
    if not meant:
        raise click.UsageError(f"there is no key {escape_text(key_id)!r}: see `checkrail keys ls`")
    if len(meant) > 1:
        raise click.UsageError(f"{len(meant)} keys begin with {key_id!r}: say more of the id")
    if meant[0].revoked_at is not None:
        raise click.UsageError(f"the key {meant[0].key_id} is revoked already")
    return meant[0]


def _key_to_json(row: Key) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "name": row.name,
        "role": row.role,
        "owner": row.owner,
        "created_at": _format_time(row.created_at),
        "revoked_at": _format_time(row.revoked_at),
    }


def _format_time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _print_keys(found: list[Key]) -> None:
    table = new_table("id", "name", "role", "owner", "made", "revoked")
    for row in map(_key_to_json, found):
        style = "dim" if row["revoked_at"] else ""
        table.add_row(*(cell(value or "") for value in row.values()), style=style)
    print_table(console(), table)


def _print_note(text: str, style: str) -> None:
    console(stderr=True).print(text, style=style)


def _warn_if_unused(loaded: Loaded, role: str) -> None:
    """Warn if the project's server would not require the key."""
    auth = loaded.server.auth
    if auth is not None and (auth.keys or role == "runner"):
        return
    told = f"{loaded.file} configures no auth, so requests need no key"
    remedy = ": write auth: {keys: true}"
    if auth is not None:
        told, remedy = f"callers are known by {auth.path}, and only runners are asked for keys", ""
    _print_note(f"warning: {told}{remedy}", "yellow")
