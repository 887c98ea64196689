"""Globs, and regular expressions between slashes, as the built-in hooks match names with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkrail.engine.matchers import compiled


def any_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Make a test: does a name match one of these? A glob has to match it from end to end."""
    tests = [compiled(pattern) for pattern in patterns]
    return lambda name: any(test(name) for test in tests)
