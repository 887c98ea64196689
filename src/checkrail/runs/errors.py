"""What can be wrong with a request for a run, with the HTTP status that says so."""

from __future__ import annotations

from typing import Any

from checkrail.engine.errors import CheckrailError
from checkrail.engine.outcomes import is_refusal_status

SOON = 5.0
"""Seconds after which a place may be free that somebody else has now."""


class RequestError(CheckrailError):
    """A request that cannot be met: what happened, and what to do."""

    status = 400
    error = "bad_request"
    retry_after: float | None = None
    """In how many seconds it is worth asking again, if that is known."""

    def __init__(self, message: str, detail: Any = None, **more: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.__dict__.update(more)

    def __str__(self) -> str:
        return self.message


class KeyRevokedError(RequestError):
    """The API key in whose name something is to be done is not in force any more."""

    status = 401
    error = "unauthenticated"


class NotFoundError(RequestError):
    """What was named does not exist, or belongs to somebody else."""

    status = 404
    error = "not_found"


class ConflictError(RequestError):
    """It cannot be done as things stand."""

    status = 409
    error = "conflict"


class ChangedError(RequestError):
    """Something is not any more what the request is about."""

    status = 412
    error = "precondition_failed"


class InvalidError(RequestError):
    """The request does not make sense."""

    status = 422
    error = "invalid"


class TooManyError(RequestError):
    """There is no room for more."""

    status = 429
    error = "too_many"


class RefusedError(RequestError):
    """A hook refused the run; the status is the hook's."""

    error = "refused"

    def __init__(
        self,
        message: str,
        status: int,
        run_id: str,
        hook: str | None,
        code: str | None,
        *,
        retry_after: float | None = None,
    ) -> None:
        detail = {"run_id": run_id, "blocked_by": hook, "code": code}
        super().__init__(str(message), detail, retry_after=retry_after)
        self.status = status if is_refusal_status(status) else 500
        self.run_id = run_id
