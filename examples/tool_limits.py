"""Rules on tools, written as decorated functions: a limit, a repair, and an eye on the results."""

import asyncio
import dataclasses

from checkrail import Block, Continue, Event, Hooks, ToolCall, ToolResult

hooks = Hooks()


@hooks.before_tool_call(tools=["transfer"], lane="gate")
async def limit(event: Event[ToolCall], call: ToolCall) -> Block | None:
    if call.args["amount"] > 1000:
        return Block("Transfers over 1000 need the finance desk", status=403)
    return None


@hooks.before_tool_call(when="tool_call.name == 'transfer' && !has(tool_call.args.currency)")
def in_euros(event: Event[ToolCall], call: ToolCall) -> Continue:
    return Continue(dataclasses.replace(call, args={**call.args, "currency": "EUR"}))


@hooks.after_tool_call(tools="*", lane="observe")
def watch(event: Event[ToolResult]) -> None:
    print(f"  seen: {event.value.name} said {event.value.content}")


def transfer(amount: int, currency: str) -> str:
    return f"{amount} {currency} sent"


async def main() -> None:
    for amount in (20, 5000):
        print(f"transfer {amount}")
        call = ToolCall(id="1", name="transfer", args={"amount": amount})
        before = await hooks.registry.fire("before_tool_call", call)
        if before.decision == "block":
            print(f"  refused by {before.hook}: {before.reason}")
            continue
        result = ToolResult(call.id, call.name, transfer(**before.value.args))
        await hooks.registry.fire("after_tool_call", result)


if __name__ == "__main__":
    asyncio.run(main())
