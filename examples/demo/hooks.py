"""The hooks of the demo that need code."""

import asyncio
import dataclasses

from checkrail import (
    AgentResponse,
    AssistantMessage,
    Block,
    Continue,
    Event,
    OutboundMessage,
    Retry,
    Session,
    ToolResult,
)


def known_channels(_event: Event[Session], session: Session) -> Block | None:
    """Let sessions begin on the channel that the desk answers on."""
    if session.channel == "chat":
        return None
    return Block("This desk answers on chat only")


def wants_a_plan(event: Event[AssistantMessage], message: AssistantMessage) -> Retry | None:
    """Send the model back until it says what it is up to; later it need not repeat itself."""
    if "<plan>" in message.text or (event.iteration or 0) > 2:
        return None
    return Retry("Start with your plan between <plan> and </plan>.")


async def risk_score(_event: Event[ToolResult]) -> None:
    """Ask a service that does not answer today."""
    await asyncio.sleep(60)


def explain_errors(_event: Event[ToolResult], result: ToolResult) -> Continue:
    """Tell the model what it can do about an error."""
    return Continue(f"{result.content} Ask the user for a smaller amount.")


def short_answers(_event: Event[AssistantMessage], message: AssistantMessage) -> Retry | None:
    """Ask for a shorter answer where one is too long to read."""
    return Retry("Say it in three sentences.") if len(message.text) > 500 else None


def count_tokens(_event: Event[AgentResponse], response: AgentResponse | None) -> None:
    """Watch what a query cost; a real one would report it."""
    if response is not None and response.usage:
        response.usage["total_tokens"]


def signature(_event: Event[OutboundMessage], message: OutboundMessage) -> Continue:
    """Sign every reply."""
    return Continue(dataclasses.replace(message, content=f"{message.content} — the support desk"))


def audit(_event: Event[object]) -> None:
    """Keep what happened; a real one would write it down."""
