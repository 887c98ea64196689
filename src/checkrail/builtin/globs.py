"""Globs, and regular expressions between slashes, as the built-in hooks match names with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from checkrail.engine.matchers import compiled


def any_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Make a test: does a name match one of these? A glob has to match it from end to end."""
    tests = [_test(pattern) for pattern in patterns]
    return lambda name: any(test(name) for test in tests)


def _test(pattern: str) -> Callable[[str], re.Match[str] | None]:
    found = compiled(pattern)
    is_regex = len(pattern) > 1 and pattern[0] == pattern[-1] == "/"
    return found.search if is_regex else found.fullmatch
