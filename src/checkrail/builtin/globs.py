"""Globs, and regular expressions between slashes, as the built-in hooks match names with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkrail.engine.matchers import check_name, compiled
from checkrail.regex import read_pattern


def any_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Make a test: does a name match one of these? A glob has to match it from end to end."""
    tests = [compiled(read_pattern(pattern)) for pattern in patterns]

    def matches(name: str) -> bool:
        check_name(name)
        return any(test(name) for test in tests)

    return matches
