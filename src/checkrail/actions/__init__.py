"""What a declared hook does: a function, a rule, a command, a web service, an agent, a person."""

from typing import TYPE_CHECKING, Any

from checkrail.actions.command import command
from checkrail.actions.errors import ActionError
from checkrail.actions.expression import compile_expression
from checkrail.actions.python import load, load_function
from checkrail.actions.rule import rule

if TYPE_CHECKING:
    from checkrail.actions.types import ACTION_TYPES

__all__ = [
    "ACTION_TYPES",
    "ActionError",
    "command",
    "compile_expression",
    "load",
    "load_function",
    "rule",
]


def __getattr__(name: str) -> Any:
    """Import what needs pydantic when it is first asked for."""
    if name != "ACTION_TYPES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from checkrail.actions.types import ACTION_TYPES

    return ACTION_TYPES
