"""The bodies of runs that are not graphs: our own loop, a Python function, a program."""

from checkrail.runs.executors.command import run_command
from checkrail.runs.executors.loop import run_loop
from checkrail.runs.executors.python import AgentContext, run_callable

__all__ = ["AgentContext", "run_callable", "run_command", "run_loop"]
