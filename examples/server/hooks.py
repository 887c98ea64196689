"""Hooks around every run: an audit log, and a gate in front of the paid agent."""

import logging

from checkrail.hooks import RunContext, RunHooks

PAID = {"research"}
SUBSCRIBERS = {"ada"}

hooks = RunHooks()
audit = logging.getLogger("audit")
audit.setLevel(logging.INFO)


@hooks.before_run
async def subscribed(ctx: RunContext) -> None:
    if ctx.graph_id in PAID and ctx.user.identity not in SUBSCRIBERS:
        raise hooks.RejectRun("Active subscription required", status_code=402)


@hooks.after_run
async def completed(ctx: RunContext) -> None:
    usage = ctx.extras.get("usage_metadata", {})
    used = sum(counts["total_tokens"] for counts in usage.values())
    audit.info("%s of %s: %s, %d tokens", ctx.run_id, ctx.graph_id, ctx.status, used)


@hooks.on_run_error
async def failed(ctx: RunContext) -> None:
    audit.error("%s of %s: %s: %s", ctx.run_id, ctx.graph_id, ctx.error_type, ctx.error)
