"""An audit log: who started which run, how it ended, and what it used.

A server calls these hooks around every run. Here the three moments are fired by hand.
"""

import asyncio
import logging
import sys

from checkrail import HookRegistry, RunError, RunResult
from checkrail.hooks import RunContext, RunHooks, User

hooks = RunHooks()
audit = logging.getLogger("audit")


@hooks.before_run
async def run_started(ctx: RunContext) -> None:
    who, where = ctx.user.identity, ctx.thread_id
    audit.info("started   run=%s agent=%s user=%s thread=%s", ctx.run_id, ctx.graph_id, who, where)


@hooks.after_run
async def run_completed(ctx: RunContext) -> None:
    usage = ctx.extras.get("usage_metadata", {})
    used = sum(counts["total_tokens"] for counts in usage.values())
    audit.info("completed run=%s status=%s tokens=%d", ctx.run_id, ctx.status, used)


@hooks.on_run_error
async def run_failed(ctx: RunContext) -> None:
    audit.error("failed    run=%s error=%s: %s", ctx.run_id, ctx.error_type, ctx.error)


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    registry = HookRegistry()
    hooks.register(registry)
    ada = {"agent_name": "research", "user": User(identity="ada"), "thread_id": "t1"}

    question = {"question": "How tall is the tower?"}
    usage = {"small-model": {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52}}
    await registry.fire("before_run", question, run_id="r1", **ada)
    result = RunResult(output={"answer": "330 m"}, input=question, usage=usage)
    await registry.fire("after_run", result, run_id="r1", **ada)

    await registry.fire("before_run", question, run_id="r2", **ada)
    error = RunError(error="Run was cancelled", error_type="CancelledError", input=question)
    await registry.fire("on_run_error", error, run_id="r2", **ada)


if __name__ == "__main__":
    asyncio.run(main())
