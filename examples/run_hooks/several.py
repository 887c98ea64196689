"""Independent concerns side by side: a rate limit, analytics, and a notification.

They are called in the order in which they are written. A hook after the run that fails is logged,
and neither the run nor the next hook notices.
"""

import asyncio
import logging
from collections import Counter

from checkrail import HookRegistry, RunResult
from checkrail.hooks import RunContext, RunHooks, User

LIMIT = 2

hooks = RunHooks()
runs_of: Counter[str] = Counter()


@hooks.before_run
async def rate_limit(ctx: RunContext) -> None:
    runs_of[ctx.user.identity] += 1
    if runs_of[ctx.user.identity] > LIMIT:
        raise hooks.RejectRun("Rate limit exceeded", status_code=429)


@hooks.after_run
async def report_to_analytics(ctx: RunContext) -> None:
    msg = "analytics is down"
    raise ConnectionError(msg)


@hooks.after_run
async def notify(ctx: RunContext) -> None:
    print(f"  notified: run {ctx.run_id} of {ctx.user.identity} ended in {ctx.status}")


async def main() -> None:
    logging.getLogger("checkrail").addHandler(logging.NullHandler())
    registry = HookRegistry()
    hooks.register(registry)
    ada = User(identity="ada")
    for number in range(1, 4):
        ids = {"run_id": f"r{number}", "agent_name": "research", "user": ada}
        admitted = await registry.fire("before_run", {}, **ids)
        if admitted.decision == "block":
            print(f"r{number}: {admitted.status} {admitted.reason}")
            continue
        print(f"r{number}: runs")
        ended = await registry.fire("after_run", RunResult(output="done"), **ids)
        failed = [record for record in ended.records if record.kind == "hook_failed"]
        print(f"  failed, without harm: {failed[0].hook} ({failed[0].error})")


if __name__ == "__main__":
    asyncio.run(main())
