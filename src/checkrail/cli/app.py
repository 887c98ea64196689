"""The command and its subcommands, each imported when it is called."""

from __future__ import annotations

import importlib

import click

from checkrail.engine.errors import suggestion
from checkrail.resources import pause_gc

REFUSED_FILE = 1
BLOCKED = 3
FAILED = 4

COMMANDS = {
    "approvals": "See what hooks ask people, and answer it.",
    "calls": "See the calls of models that went through a gateway.",
    "chat": "Talk to an agent of a file.",
    "check": "Validate a file and print the plan.",
    "db": "Bring the server's database up to date.",
    "dev": "Serve a project on this machine, and reload it.",
    "fire": "Run the hooks of a file on one event.",
    "gateway": "Put hooks in front of models.",
    "hooks": "Show the built-in hooks.",
    "init": "Make a project that runs.",
    "keys": "Make, list and revoke API keys of the server.",
    "litellm-config": "Print what puts hooks into a LiteLLM proxy.",
    "resume": "Tell a session of a server something.",
    "runner": "Carry out runs of a server that is somewhere else.",
    "runs": "See, follow and cancel runs of a server.",
    "schema": "Print what hooks outside the process are sent and may answer.",
    "serve": "Serve a project in production.",
    "sessions": "See and end the sessions of a server.",
    "with": "Run a command with hooks in front of its models.",
}

MODULES = {"litellm-config": "litellm_config", "with": "with_command"}
"""Commands whose names cannot be those of modules."""


class LazyGroup(click.Group):
    """Knows its commands by name, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = MODULES.get(cmd_name, cmd_name)
        with pause_gc():
            command: click.Command = importlib.import_module(f"checkrail.cli.{module}").command
        return command

    def resolve_command(
        self,
        ctx: click.Context,
        args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was meant, or suggest the one it may have been."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = suggestion(args[0], COMMANDS)
            told = f"there is no command {args[0]!r}{hint}: see `checkrail --help`"
            raise click.UsageError(told, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: checkrail check checkrail.yaml",
)
@click.version_option(package_name="checkrail")
def app() -> None:
    """Checkrail: one hook engine for the whole life of an AI agent.

    Exit codes: 0 fine, 1 the file has problems, 2 the command was misused, 3 blocked, 4 failed.
    """
