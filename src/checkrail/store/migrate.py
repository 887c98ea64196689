"""Migrations: bringing a database to the tables that this version knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from alembic.config import Config

_TABLE = "checkrail_version"
_SCRIPTS = Path(__file__).parent / "migrations"
_LOCK = 7_263_541  # two servers that start at once take turns


class OutdatedError(CheckrailError):
    """The database has other tables than this version needs."""


def head() -> str:
    """Return the newest version of the tables."""
    return _known_versions()[-1]


def _known_versions() -> list[str]:
    names = (file.stem for file in (_SCRIPTS / "versions").glob("[0-9]*.py"))
    return sorted(name.partition("_")[0] for name in names)


def version(engine: Engine) -> str | None:
    """Return the version of the tables in a database; None: there are no tables."""
    with engine.connect() as connection:
        return _read_version(connection)


def _read_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar()  # noqa: S608
    return None if found is None else str(found)


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring a database to the newest version, and return from where to where it went.

    Raise if its version is not one of this Checkrail's.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = _read_version(connection)
        if before is not None and before not in _known_versions():
            raise OutdatedError(
                f"the database has tables of version {before}, which this Checkrail does not know: "
                f"a newer one made them, or one from before the first release. Use that one, or "
                f"begin with an empty database"
            )
        if before != head():
            from alembic import command  # which takes longer to import than all else here

            command.upgrade(_alembic_config(connection), "head")
    return before, head()


def check(engine: Engine) -> None:
    """Raise if a database is not at the newest version."""
    found = version(engine)
    if found != head():
        state = f"has tables of version {found}" if found else "has no tables of Checkrail yet"
        raise OutdatedError(
            f"the database {state}, and this Checkrail needs version {head()}. "
            "Run: checkrail db upgrade"
        )


def _alembic_config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    return config
