"""What hooks and whoever fires points import beside the names of `checkrail` itself."""

from pathlib import Path

from checkrail.engine.asks import AskHandler, Question
from checkrail.engine.errors import (
    HookRefusedError,
    InvalidOutcomeError,
    TimedOutError,
    UnknownPointError,
)
from checkrail.engine.event import Context
from checkrail.engine.hook import HookSpec
from checkrail.engine.outcomes import RejectRun
from checkrail.engine.points import Decision, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.text import text_of
from checkrail.engine.values import User
from checkrail.styles.run_context import RunContext
from checkrail.styles.run_hooks import RunHooks

__all__ = [
    "AskHandler",
    "Context",
    "Decision",
    "HookRefusedError",
    "HookSpec",
    "InvalidOutcomeError",
    "Lane",
    "Question",
    "RejectRun",
    "RunContext",
    "RunHooks",
    "Scope",
    "TimedOutError",
    "UnknownPointError",
    "User",
    "load_hooks",
    "text_of",
]


def load_hooks(path: str, base_dir: str | Path | None = None) -> RunHooks:
    """Return the run hooks that an import path names, as `hooks: {path: …}` in a file does.

    `./hooks.py:hooks` is relative to `base_dir`, or else to the current folder;
    `package.module:hooks` is an installed module. A list of run hooks is joined into one.
    """
    from checkrail.actions.errors import ActionError
    from checkrail.actions.python import load

    found = load(path, None if base_dir is None else Path(base_dir))
    if isinstance(found, RunHooks):
        return found
    sets = found if isinstance(found, list | tuple) else [found]
    wrong = [each for each in sets if not isinstance(each, RunHooks)]
    if wrong or not sets:
        kind = type(wrong[0]).__name__ if wrong else "an empty list"
        raise ActionError(
            f"{path!r} is no RunHooks, but {kind}",
            "Name a RunHooks, or a list of them. Other hooks are tried with checkrail.testing",
        )
    return RunHooks(*sets)
