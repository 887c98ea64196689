"""One agent's life through all 16 points and the rules in hooks.yaml, then a run on the server.

The agents are real ones; their models answer from scripts. Run it with `make demo`: no key and no
network is needed.
"""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from rich.text import Text
from served import asked, hooks_of, server

from checkrail import (
    Agent,
    AgentResponse,
    AssistantMessage,
    HookPoint,
    HookRecord,
    HookRegistry,
    InboundMessage,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    Verdict,
    tool,
)
from checkrail.agent import HookCalled, TextDelta, ToolFinished, ToolStarted
from checkrail.cli.recorded import Recorded
from checkrail.cli.show import console
from checkrail.cli.timeline import timeline, verdict_line
from checkrail.config import load
from checkrail.engine.scope import Scope
from checkrail.testing import ScriptedModel

QUESTION = "I'm ann@example.com, card 4111 1111 1111 1111. Move 5000 to savings and delete my note."
BLUNT = "Sure."
PLANNED = AssistantMessage(
    content="<plan>transfer, then delete</plan>",
    tool_calls=[
        ToolCall(id="c1", name="transfer", args={"amount": 5000}),
        ToolCall(id="c2", name="delete_note", args={"number": 7}),
    ],
)
ANSWER = "I deleted your note. Trace key: sk-proj-" + "a1B2c3D4" * 5


@tool
def transfer(amount: int) -> str:
    """Move money to the savings account."""
    return f"moved {amount}"


@tool
async def delete_note(number: int) -> str:
    """Delete a note."""
    return f"note {number} is gone"


class Life:
    """Fires one point after the other, and shows what the hooks make of it."""

    def __init__(self, scope: Scope, agent: Agent) -> None:
        self.scope = scope
        self.agent = agent
        self.out = console()
        self.points: list[str] = []
        self.said: Counter[str] = Counter()

    async def at(self, point: HookPoint, value: Any, note: str = "") -> Verdict:
        verdict = await self.scope.fire(point, value)
        self.reach(point, note)
        if verdict.records:
            self.out.print(timeline(verdict.records))
        if verdict.decision != "continue":
            self.out.print("  →", verdict_line(verdict))
        for record in verdict.records:
            self._count(record)
        return verdict

    def reach(self, point: str, note: str = "") -> None:
        self.points.append(point)
        self.head(point, note)

    def head(self, title: str, note: str) -> None:
        self.out.print(Text.assemble((title, "bold cyan"), "  ", (note, "dim")))

    def _count(self, record: HookRecord | Recorded) -> None:
        if record.shadow and record.kind == "hook_blocked":
            self.said["decision in shadow"] += 1
        elif record.failure:
            self.said[f"hook that failed ({record.failure})"] += 1
        elif record.redacted:
            self.said["redaction"] += 1
        elif record.changed:
            self.said["change"] += 1
        elif record.injected:
            self.said["injection"] += 1
        elif record.kind != "hook_start":
            told = str(record.decision)
            self.said["pass" if told == "continue" else told] += 1

    async def live(self) -> None:
        session = Session(session_id="s1", user_id="ann", channel="chat")
        await self.at(HookPoint.ON_SESSION_START, session)
        heard = await self.at(
            HookPoint.BEFORE_INBOUND, InboundMessage("ann", "chat", QUESTION), "Ann writes"
        )
        run = await self.at(HookPoint.BEFORE_RUN, {"prompt": heard.value.content}, "admission")
        started = await self.at(HookPoint.ON_RUN_START, run.value)
        response = await self.loop(started.value["prompt"])
        output = {"answer": response.content}
        result = await self.at(HookPoint.ON_RESULT, output)
        reply = OutboundMessage("ann", "chat", result.value["answer"])
        sent = await self.at(HookPoint.BEFORE_OUTBOUND, reply)
        self.tell(f'Ann reads: "{sent.value.content}"')
        await self.at(HookPoint.AFTER_RUN, RunResult(output=output, input=started.value))
        error = RunError(error="the model did not answer", error_type="TimeoutError")
        await self.at(HookPoint.ON_RUN_ERROR, error, "another run, which did not end well")
        await self.at(HookPoint.ON_SESSION_END, session)

    async def loop(self, prompt: str) -> AgentResponse:
        stream = self.agent.stream(prompt, scope=self.scope)
        async for event in stream:
            match event:
                case HookCalled(record):
                    self.called(record)
                case ToolStarted(call):
                    self.tell(f"calls {call.name}({dict(call.args)})")
                case ToolFinished(result):
                    self.tell(f"the model is told: {result.content}")
                case TextDelta(text):
                    self.tell(f"the agent says: {text}")
        return stream.response

    async def serve(self) -> None:
        """Ask a LangGraph agent over HTTP, with LangGraph's own client."""
        async with server() as url:
            self.out.print()
            self.head("the run server", "checkrail serve, on SQLite")
            refused, _ = await asked(url, "research", "Where is order A-17?")
            self.tell(f"Ann asks the paid agent: {refused}")
            self.tell("Ann asks the free one: Refund 5000!")
            answer, run_id = await asked(url, "support", "Refund 5000!")
            records = [Recorded(each) for each in await hooks_of(url, run_id)]
        self.out.print(timeline(records))
        for record in records:
            self._count(record)
        self.tell(f"Ann reads: {answer}")

    def tell(self, text: str) -> None:
        self.out.print(f"  {text}", markup=False, highlight=False, style="italic")

    def called(self, record: HookRecord) -> None:
        if record.kind == "hook_start":
            return
        if record.point != self.points[-1]:
            self.reach(record.point)
        self.out.print(timeline([record]))
        self._count(record)


async def main() -> None:
    logging.getLogger("checkrail").setLevel(logging.CRITICAL)  # the timeline tells it already
    loaded = load(Path(__file__).with_name("hooks.yaml"))
    registry = HookRegistry()
    registry.swap(loaded.specs)
    scope = registry.scope(run_id="r1", session_id="s1", agent_name="support", user="ann")
    model = ScriptedModel([BLUNT, PLANNED, ANSWER])
    agent = Agent(model, [transfer, delete_note], "You are the support desk.", name="support")
    life = Life(scope, agent)
    await life.live()
    await registry.aclose()
    await life.serve()
    missed = set(HookPoint) - set(life.points)
    if missed:
        raise SystemExit(f"the demo did not reach {', '.join(missed)}")
    told = ", ".join(f"{count} × {what}" for what, count in life.said.items())
    reached = f"\n{len(set(life.points))} of {len(HookPoint)} points."
    life.out.print(Text.assemble((reached, "bold"), f" {told}."))
    life.out.print("The rules are in examples/demo/hooks.yaml: change one and run it again.")
    life.out.print("The server's project is in examples/server: `make dev` serves it.")


if __name__ == "__main__":
    asyncio.run(main())
