"""What a client of the event protocol did wrong, in the protocol's own words."""

from __future__ import annotations

from typing import Literal

ErrorCode = Literal[
    "invalid_argument",
    "unknown_command",
    "unknown_error",
    "no_such_run",
    "no_such_subscription",
    "no_such_namespace",
    "no_such_interrupt",
    "no_such_checkpoint",
    "permission_denied",
    "not_supported",
]

STATUSES: dict[ErrorCode, int] = {
    "invalid_argument": 422,
    "unknown_command": 400,
    "unknown_error": 500,
    "no_such_run": 404,
    "no_such_subscription": 404,
    "no_such_namespace": 404,
    "no_such_interrupt": 404,
    "no_such_checkpoint": 404,
    "permission_denied": 403,
    "not_supported": 501,
}
"""The HTTP status that goes with a code, where the answer is not sent with 200."""


class ProtocolError(Exception):
    """A command or subscription that cannot be served, or is `unreadable`."""

    def __init__(
        self, code: ErrorCode, message: str, *, id: int | None = None, unreadable: bool = False
    ) -> None:
        self.code = code
        self.message = message
        self.id = id
        self.unreadable = unreadable
        super().__init__(code, message, id)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def status(self) -> int:
        """The HTTP status that says the same."""
        return STATUSES[self.code]
