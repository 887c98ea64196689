"""The hooks that are owed the end of a session."""

from __future__ import annotations

from checkrail.engine.points import HookPoint
from checkrail.runs.finish.finish_hooks import FinishHooks
from checkrail.runs.finish.session_ends import session_scope, session_value
from checkrail.runs.services import RunServices
from checkrail.store.deliveries import Delivery
from checkrail.store.sessions import Session

POINT = HookPoint.ON_SESSION_END


class SessionEndHooks:
    """Fires the hooks that are owed the end of a session."""

    def __init__(self, parts: RunServices, finish: FinishHooks) -> None:
        self._parts = parts
        self._finish = finish

    async def fire(self, row: Delivery) -> None:
        """Fire the hooks of a delivery; one that raises or is late is recorded."""
        told = row.payload
        session = Session(**told["session"])
        scope = session_scope(self._parts, session)
        scope = scope.bind(metadata={**scope.context.metadata, "delivery_id": row.delivery_id})
        scope.exclude(frozenset(told.get("without", ())))
        value = session_value(session, told["thread_ids"], session.reason)
        if "hook" in told:
            await self._finish.call_hook(scope, told["hook"], POINT, value, row.delivery_id)
        else:
            await scope.fire_detached(POINT, value)
