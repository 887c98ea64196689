"""The `checkrail` command."""

import sys


def main() -> None:
    """Run the command, or print what it needs."""
    try:
        import click  # noqa: F401 - only to see whether it is there
        import rich  # noqa: F401 - likewise: others bring click without it
    except ImportError:
        sys.exit('The checkrail command needs an extra: pip install "checkrail[cli]"')
    from checkrail.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="checkrail")
