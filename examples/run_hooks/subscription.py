"""A gate in front of paid agents: without a subscription the run is refused with 402."""

import asyncio

from checkrail import HookRegistry
from checkrail.hooks import RunContext, RunHooks, User

PAID_AGENTS = {"research", "coding"}
SUBSCRIBERS = {"ada"}

hooks = RunHooks()


async def has_subscription(identity: str) -> bool:
    await asyncio.sleep(0)  # a call to the billing service
    return identity in SUBSCRIBERS


@hooks.before_run
async def subscribed(ctx: RunContext) -> None:
    if ctx.graph_id not in PAID_AGENTS:
        return
    if not await has_subscription(ctx.user.identity):
        raise hooks.RejectRun("Active subscription required", status_code=402)


async def main() -> None:
    registry = HookRegistry()
    hooks.register(registry)
    for name, agent in [("ada", "research"), ("bob", "research"), ("bob", "smalltalk")]:
        user = User(identity=name)
        verdict = await registry.fire("before_run", {}, agent_name=agent, user=user)
        told = f"{verdict.status} {verdict.reason}" if verdict.decision == "block" else "may run"
        print(f"{name} asks {agent}: {told}")


if __name__ == "__main__":
    asyncio.run(main())
