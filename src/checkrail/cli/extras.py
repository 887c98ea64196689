"""Extras: the packages that a command needs, and what to install where they are missing."""

from __future__ import annotations

from importlib.util import find_spec

import click

from checkrail.cli.app import FAILED

PACKAGES = {
    "gateway": ("aiohttp", "brotli", "orjson", "uvicorn", "zstandard"),
    "server": (
        "aiohttp",
        "alembic",
        "brotli",
        "cronsim",
        "fastapi",
        "httpcore2",
        "httpx2",
        "jinja2",
        "langchain_core",
        "langgraph.checkpoint.base",
        "langgraph.checkpoint.postgres",
        "langgraph.checkpoint.sqlite",
        "langgraph.pregel",
        "langgraph_sdk",
        "opentelemetry",
        "orjson",
        "prometheus_client",
        "psycopg",
        "sqlalchemy",
        "structlog",
        "uvicorn",
        "websockets",
        "zstandard",
    ),
}
"""What each extra brings that has to be there, as it is imported."""


class MissingExtra(click.ClickException):
    """A command needs an extra that is not installed."""

    exit_code = FAILED


def require_extra(extra: str, *packages: str) -> None:
    """Raise `MissingExtra` if packages of an extra are missing: all of its packages, by default."""
    missing = [name for name in packages or PACKAGES[extra] if not is_installed(name)]
    if missing:
        command = click.get_current_context().command_path
        found = f"`{command}` needs packages that are not installed here: {', '.join(missing)}"
        raise MissingExtra(f'{found}. Install them: pip install "checkrail[{extra}]"')


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; of a namespace, whether a part of it can."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it is a part of is not there
        return False
