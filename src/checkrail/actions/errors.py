"""What can be wrong with a declared action."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from checkrail.engine.errors import CheckrailError, UnreachableError


class ActionError(CheckrailError):
    """A declared hook cannot be built, or its action cannot be carried out.

    Of one at work callers read only what is `public`: the problem may quote what others wrote. Of
    one that is built, `key` is the key that the problem is about, if it is about one alone.
    """

    def __init__(
        self, problem: str, remedy: str = "", *, public: str = "", key: str | None = None
    ) -> None:
        self.problem = problem
        self.remedy = remedy
        self.public = public
        self.key = key
        super().__init__(problem, remedy)

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}" if self.remedy else self.problem


@contextmanager
def about_key(key: str) -> Iterator[None]:
    """Name the key that problems are about which do not name one themselves."""
    try:
        yield
    except ActionError as error:
        error.key = error.key or key
        raise


class OutboundRefused(ActionError):
    """A request was not sent, because it must not be: sending it again will not help."""


class OutboundUnreachable(UnreachableError):
    """A request got no whole answer: it may have arrived all the same, and may be repeated."""

    def __init__(
        self,
        where: str,
        why: str,
        kind: Literal["unreachable", "timeout"] = "unreachable",
    ) -> None:
        self.where = where
        self.why = why
        self.kind = kind
        super().__init__(where, why, kind)

    def __str__(self) -> str:
        return f"{self.where} gave no answer: {self.why}"
