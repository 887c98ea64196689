"""`HookChain`: the name by which users of a proxy know a registry."""

from __future__ import annotations

import dataclasses
from typing import Any

from checkrail.engine.outcomes import UNSET, Reject
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.styles.hook_context import (
    CARRIED,
    STOPPED,
    HookContext,
    HookEvent,
    context_fields,
    value_in,
)
from checkrail.styles.proxy import HookFn, adapt

_REFUSING = (Decision.BLOCK, Decision.FAIL)


class HookChain:
    """The proxy hooks of a registry, called one after the other with a context."""

    def __init__(self, registry: HookRegistry | None = None) -> None:
        self.registry = HookRegistry() if registry is None else registry

    def register(self, event: HookEvent | str, name: str, hook: HookFn, **options: Any) -> None:
        """Add a hook behind those that are there; `options` are those of every hook."""
        self.registry.register(adapt(hook), HookEvent(event), name=name, **options)

    async def execute(self, ctx: HookContext) -> HookContext:
        """Return the context as the hooks of its event left it.

        A hook that fails is logged and passed over, unless its `on_error` is `block`. Raises
        `Reject` if a hook refuses.
        """
        if ctx.stop_chain:
            return ctx
        value = value_in(ctx)
        scope = self.registry.scope(
            model=ctx.model,
            provider=ctx.provider,
            request_id=ctx.request_id,
            metadata=ctx.metadata,
        )
        verdict = await scope.fire(ctx.event, value)
        if verdict.decision in _REFUSING:
            raise Reject(verdict.reason, verdict.status or 403, verdict.code, verdict.retry_after)
        changes = {} if verdict.subject is value else _changed_fields(ctx, verdict.subject)
        found = {**ctx.metadata, **scope.notes.get(CARRIED, {})}
        metadata = {key: item for key, item in found.items() if item is not UNSET}
        stopped = STOPPED in scope.notes
        return dataclasses.replace(ctx, **changes, metadata=metadata, stop_chain=stopped)

    def list_hooks(self, event: HookEvent | str | None = None) -> list[str]:
        """Return the names of the hooks at an event, or of all, each after its event."""
        if event is not None:
            return [spec.name for spec in self.registry.list(HookEvent(event))]
        return [f"{each}:{name}" for each in HookEvent for name in self.list_hooks(each)]


def _changed_fields(ctx: HookContext, value: Any) -> dict[str, Any]:
    """Return the fields that hold a value; what a context has not, and hooks left empty, stays."""
    found = context_fields(value)
    return {name: now for name, now in found.items() if now or getattr(ctx, name) is not None}
