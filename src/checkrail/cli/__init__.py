"""The `checkrail` command."""

import sys


def main() -> None:
    """Run the command, or say what it needs."""
    try:
        import click  # noqa: F401 - only to see whether it is there
    except ImportError:
        sys.exit('The checkrail command needs an extra: pip install "checkrail[cli]"')
    from checkrail.cli.app import app

    app(prog_name="checkrail")
