"""What the decorators can be told, for type checkers: nothing of this is needed at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from checkrail.engine.asks import AskHandler
from checkrail.engine.options import HookOptions
from checkrail.engine.records import History
from checkrail.engine.scope import Sink


class DecoratorOptions(HookOptions, total=False):
    """The options of a hook, with its name; `when` may also be a CEL expression."""

    name: str
    when: Callable[..., Any] | str | None  # type: ignore[misc]


class RegistryOptions(TypedDict, total=False):
    """What a `Hooks` that makes its own registry can be told about it."""

    sink: Sink | Iterable[Sink] | None
    ask: AskHandler | None
    history: History
    max_retries: int


class RunHookOptions(HookOptions, total=False):
    """The options of a run hook, with its name."""

    name: str
