"""Hooks as classes, around sessions and messages.

A hook names the points where it stands, how long it may take, and what its failure means. Lower
priority comes first, a refusal ends the matter, and a change is what the next hook sees.
"""

import asyncio
import logging
from datetime import timedelta

from checkrail import (
    Block,
    Continue,
    Event,
    Hook,
    HookPoint,
    HookRegistry,
    InboundMessage,
    OutboundMessage,
    Session,
    ToolCall,
)
from checkrail.hooks import Context


class NoSecrets(Hook):
    """Refuses messages that carry a password."""

    name = "no-secrets"
    points = (HookPoint.BEFORE_INBOUND,)
    priority = 10

    async def execute(self, event: Event[InboundMessage]):
        if "password" in event.value.text:
            return Block("Please do not send passwords")
        return None


class Tidy(Hook):
    """Takes spaces from both ends; a text stands for the message's content."""

    name = "tidy"
    points = (HookPoint.BEFORE_INBOUND, HookPoint.BEFORE_OUTBOUND)

    async def execute(self, event: Event[InboundMessage | OutboundMessage], message):
        return Continue(message.content.strip())


class ToolsNeedChat(Hook):
    """Lets `delete` be called from a chat only, never from a job."""

    name = "tools-need-chat"
    points = (HookPoint.BEFORE_TOOL_CALL,)
    on_error = "block"
    timeout = timedelta(seconds=1)
    tools = ("delete",)

    async def execute(self, event: Event[ToolCall], call: ToolCall):
        return None if call.context == "chat" else Block(f"{call.name} needs a person")


class Flaky(Hook):
    """Fails. Its failure mode is to go on, as for every hook that says nothing else."""

    name = "flaky"
    points = (HookPoint.BEFORE_OUTBOUND,)
    priority = 1

    async def execute(self, event):
        raise ConnectionError


class Summary(Hook):
    """Sees sessions come and go; at the end it knows every thread of the session."""

    name = "summary"
    points = (HookPoint.ON_SESSION_START, HookPoint.ON_SESSION_END)

    async def execute(self, event: Event[Session], ctx: Context):
        session = event.value
        if event.point is HookPoint.ON_SESSION_START:
            print(f"session {ctx.session_id} of {session.user_id} has begun")
        else:
            threads = ", ".join(session.thread_ids)
            print(f"session {ctx.session_id} has ended ({session.reason}): threads {threads}")


async def main() -> None:
    logging.getLogger("checkrail").addHandler(logging.NullHandler())
    registry = HookRegistry()
    for hook in (Tidy(), NoSecrets(), ToolsNeedChat(), Flaky(), Summary()):
        registry.register(hook)
    print("before_inbound:", ", ".join(spec.name for spec in registry.list("before_inbound")))

    scope = registry.scope(session_id="s1", user="ada")
    await scope.fire("on_session_start", Session("s1", "ada", "web"))
    for text in ("  hello  ", "my password is 1234"):
        verdict = await scope.fire("before_inbound", InboundMessage("ada", "web", text))
        told = verdict.value.content if verdict.decision == "continue" else verdict.reason
        print(f"in:   {verdict.decision}: {told!r}")

    for context in ("chat", "job-7"):
        verdict = await scope.fire("before_tool_call", ToolCall("1", "delete", context=context))
        print(f"tool: {verdict.decision} in {context} {verdict.reason}".rstrip())

    verdict = await scope.fire("before_outbound", OutboundMessage("ada", "web", " done "))
    failed = [record.hook for record in verdict.records if record.failure]
    print(f"out:  {verdict.decision}: {verdict.value.content!r}, although {failed[0]} failed")
    ending = Session("s1", "ada", "web", thread_ids=["t1", "t2"], reason="expired")
    await scope.fire("on_session_end", ending)


if __name__ == "__main__":
    asyncio.run(main())
