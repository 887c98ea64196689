"""What a declared hook does: import a function, follow a rule, run a command, ask a person."""

from checkrail.actions.errors import ActionError
from checkrail.actions.expression import compile_expression
from checkrail.actions.python import load, load_function

__all__ = [
    "ActionError",
    "compile_expression",
    "load",
    "load_function",
]
