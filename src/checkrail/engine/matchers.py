"""Field matchers: which tools, agents, models, users, channels or tags a hook is for."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

from checkrail.engine.points import HookPoint


class Searcher(Protocol):
    """A compiled pattern: a `re.Pattern`, or one of another engine that can `search` a text."""

    def search(self, text: str, /) -> object:
        """Return the first match in a text, or None."""


Pattern = str | Searcher
Test = Callable[[Any], bool]

LONGEST_NAME = 1000
"""A name with more characters is matched by no pattern, and fails what would match it."""

TOOL_POINTS = frozenset(
    {HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR},
)


MODEL_NAMES = ("requested_model", "answered_model")
"""Under which names metadata tell how a model was asked for first, and how it answered."""


def _tool(event: Any) -> Any:
    return event.value.name


def _agent(event: Any) -> Any:
    return event.context.agent_name


def _models(event: Any) -> Any:
    """Return every name that the model goes by: providers answer under longer ones."""
    context = event.context
    own = getattr(event.value, "model", None)
    return own, context.model, *(context.metadata.get(name) for name in MODEL_NAMES)


def _user(event: Any) -> Any:
    user = event.context.user
    return user.identity if user is not None else getattr(event.value, "user_id", None)


def _channel(event: Any) -> Any:
    return getattr(event.value, "channel", None) or event.context.metadata.get("channel")


def _tags(event: Any) -> Any:
    return event.context.metadata.get("tags")


FIELDS: dict[str, Callable[[Any], Any]] = {
    "tools": _tool,
    "agents": _agent,
    "models": _models,
    "users": _user,
    "channels": _channel,
    "tags": _tags,
}


def list_patterns(given: Pattern | Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Read one pattern or several."""
    if isinstance(given, str) or hasattr(given, "search"):
        return (cast("Pattern", given),)
    return tuple(given)


def compile_pattern(pattern: Pattern) -> Callable[[str], object]:
    """Compile a pattern: a regular expression between slashes is searched, a glob is the whole."""
    if not isinstance(pattern, str):
        return pattern.search
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "/":
        with warnings.catch_warnings():  # of what a later Python may read otherwise
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern[1:-1]).search
    return re.compile(fnmatch.translate(pattern)).match


def build_matcher(match: Mapping[str, tuple[Pattern, ...]]) -> Test | None:
    """Compile matchers into one test: every field has to match, by any of its patterns."""
    tests = [_build_field_test(FIELDS[name], given) for name, given in match.items()]
    if len(tests) <= 1:
        return tests[0] if tests else None
    return lambda event: all(test(event) for test in tests)


def check_name(name: str) -> None:
    """Raise `ValueError` for a name on which patterns would take too long."""
    if len(name) > LONGEST_NAME:
        problem = f"a name of {len(name)} characters ({name[:40]!r}...) is too long to be matched"
        raise ValueError(f"{problem}: {LONGEST_NAME} is the limit. Shorten it")


def _build_field_test(read: Callable[[Any], Any], given: tuple[Pattern, ...]) -> Test:
    searches = [compile_pattern(item) for item in given]
    exact = {item for item in given if isinstance(item, str) and re.fullmatch(r"[\w.-]+", item)}

    def hit(found: Any) -> bool:
        if not isinstance(found, str):
            return False
        if found in exact:
            return True
        check_name(found)
        return any(search(found) for search in searches)

    def test(event: Any) -> bool:
        found = read(event)
        if isinstance(found, (list, tuple, frozenset)):
            return any(hit(item) for item in found)
        return hit(found)

    return test
