"""What clients hear while the database is away: to come again later, and not what a driver says."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkrail.server.auth.errors import AuthError, send_refusal
from checkrail.server.auth.guard import RULE_KEY
from checkrail.store.health import DatabaseUnavailableError, Health, Trouble, find_trouble

RETRY_AFTER = "5"  # seconds


class DatabaseUnavailable(AuthError):
    """The database is at fault, and neither the request nor the caller."""

    status = 503
    error = "database_unavailable"

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(
            f"{trouble.words}. Try again later; with an Idempotency-Key nothing is done twice",
            detail={"database": trouble.kind},
            headers={"Retry-After": RETRY_AFTER},
        )


class Outages:
    """Answers 503 where the database failed a request, as plain ASGI around the guard.

    An answer that has begun is cut off: its client sees that it is not whole.
    """

    def __init__(self, app: ASGIApp, health: Health) -> None:
        self.app = app
        self.health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and answer it if its database is at fault."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:
            trouble = find_trouble(error)
            known = isinstance(error, DatabaseUnavailableError)
            if trouble is None or not (known or RULE_KEY in scope):
                raise  # of the user's own routes, which have databases of their own
            if not known:
                self.health.note_failure(trouble, error)
            if not started:
                await send_refusal(DatabaseUnavailable(trouble), scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1013, "reason": trouble.words})
