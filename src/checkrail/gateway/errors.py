"""Why the gateway does not answer a request: with the status and the words that its caller gets."""

from __future__ import annotations

from checkrail.engine.errors import CheckrailError


class GatewayError(CheckrailError):
    """A request that is not answered; `status` and `message` are sent to its caller."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class NotAdmittedError(GatewayError):
    """A caller is not admitted."""


class InvalidRequestError(GatewayError):
    """A request cannot be handled: its path leads nowhere, or its body cannot be read."""


class UpstreamError(GatewayError):
    """An upstream sent no answer, or not all of it.

    `again` says whether it is worth asking the same upstream once more.
    """

    def __init__(self, status: int, message: str, *, again: bool = False) -> None:
        self.again = again
        super().__init__(status, message)
