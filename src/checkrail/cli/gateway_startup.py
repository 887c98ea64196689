"""What `checkrail gateway` and `checkrail with` have in common."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.extras import require_extra
from checkrail.cli.files import print_problems
from checkrail.cli.server_startup import UVICORN_OPTIONS
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from checkrail.engine.scope import Sink
    from checkrail.gateway.startup import OpenGateway

OPTIONS: dict[str, Any] = {**UVICORN_OPTIONS, "ws": "none"}
"""What uvicorn is told of a gateway."""

_CHATTY = ("aiohttp", "alembic", "asyncio", "uvicorn", "watchfiles")


def open_gateway(
    config: str | None, hooks: str | None, *, sink: Sink | Iterable[Sink] | None = None
) -> OpenGateway:
    """Load the files of a gateway, or print what is wrong with them and exit."""
    require_extra("gateway")
    from checkrail.config.hook_files import find_gateway_files
    from checkrail.config.problems import ConfigError
    from checkrail.gateway.startup import OpenGateway

    try:
        return OpenGateway(find_gateway_files(config, hooks), sink=sink)
    except ConfigError as error:
        print_problems(error.problems, "red")
        sys.exit(REFUSED_FILE)


def log_to_stderr(level: int) -> None:
    """Show what hooks and the gateway log."""
    form = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    logging.basicConfig(level=level, format=form, stream=sys.stderr)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def not_writable_error(what: str, path: Path, error: OSError) -> CheckrailError:
    """Return the error for a file that cannot be written."""
    return CheckrailError(
        f"{what} cannot be written to {str(path)!r}: {error.strerror}. Name a file in a folder "
        "that is there and can be written to"
    )


def gateway_variables(address: str) -> dict[str, str]:
    """Return the variables by which SDKs find a gateway."""
    openai = f"{address}/v1"
    return {
        "OPENAI_BASE_URL": openai,
        "OPENAI_API_BASE": openai,
        "ANTHROPIC_BASE_URL": address,
        "GOOGLE_GEMINI_BASE_URL": address,
    }
