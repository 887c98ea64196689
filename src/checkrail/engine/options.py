"""How a hook can be treated, for type checkers: nothing of this is needed at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, TypedDict

from checkrail.engine.hook import FailureKind, LaneName, Mode, OnError
from checkrail.engine.matchers import Pattern
from checkrail.engine.points import Decision, Lane

Patterns = Pattern | Iterable[Pattern]


class HookOptions(TypedDict, total=False):
    """How a hook is to be treated; what is not said has a default."""

    lane: LaneName | Lane | None
    priority: int
    tools: Patterns
    agents: Patterns
    models: Patterns
    users: Patterns
    channels: Patterns
    tags: Patterns
    when: Callable[..., Any] | None
    timeout: float | timedelta | None
    timeout_seconds: float
    on_error: OnError | Mapping[FailureKind, OnError] | None
    failure_mode: str | Enum
    mode: Mode
    enabled: bool
    max_retries: int
    background: bool
    optional: bool
    thread: bool
    stream: str
    config: Mapping[str, Any]
    source: str
    target_type: str
    target_name: str
    decisions: frozenset[Decision] | None
    redacts: bool
    observes: frozenset[str]
