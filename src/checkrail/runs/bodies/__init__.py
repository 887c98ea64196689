"""The bodies of runs that are not graphs: our own loop, a Python function, a program."""

from checkrail.runs.bodies.command import run_command
from checkrail.runs.bodies.loop import run_loop
from checkrail.runs.bodies.python import AgentContext, run_callable

__all__ = ["AgentContext", "run_callable", "run_command", "run_loop"]
