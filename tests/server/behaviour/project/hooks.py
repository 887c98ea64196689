"""Hooks around runs, as a project's users write them."""

import asyncio
import json
import os
from pathlib import Path

from checkrail.hooks import RunHooks

hooks = RunHooks()
LOG = Path(os.environ["HOOKS_LOG"])


def write(event, ctx, **more):
    told = {
        "event": event,
        "run_id": ctx.run_id,
        "thread_id": ctx.thread_id,
        "graph_id": ctx.graph_id,
        "user": ctx.user.identity,
        "config": ctx.config,
        "input": ctx.input,
        **more,
    }
    with LOG.open("a") as file:
        file.write(json.dumps(told) + "\n")


@hooks.before_run
async def validate_subscription(ctx):
    plan = ctx.config.get("configurable", {}).get("plan")
    if plan == "none":
        raise hooks.RejectRun("Active subscription required", status_code=402)
    if plan == "later":
        raise hooks.RejectRun("Come back later", retry_after=90)
    if plan == "odd":
        raise hooks.RejectRun("Looks like success", status_code=200)
    if plan == "slow":
        await asyncio.sleep(60)
    if plan == "broken":
        raise KeyError("no such plan")


@hooks.after_run
async def completed(ctx):
    usage = ctx.extras.get("usage_metadata")
    write("after_run", ctx, status=ctx.status, output=ctx.output, usage=usage)


@hooks.on_run_error
async def failed(ctx):
    usage = ctx.extras.get("usage_metadata")
    write("on_run_error", ctx, error=ctx.error, error_type=ctx.error_type, usage=usage)
