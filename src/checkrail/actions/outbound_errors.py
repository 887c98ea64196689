"""Why an outgoing request was not sent, or not answered.

A message names the scheme, host and port at most: paths, queries and headers may be secrets.
"""

from __future__ import annotations

from typing import Literal

from checkrail.actions.errors import ActionError
from checkrail.engine.errors import UnreachableError


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
