"""One agent's life, scripted, through all 16 points and the rules in hooks.yaml.

Run it with `make demo`. No model, no key and no network is needed.
"""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from checkrail import (
    AgentResponse,
    AssistantMessage,
    HookPoint,
    HookRegistry,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
    Verdict,
)
from checkrail.cli.show import console
from checkrail.cli.timeline import timeline, verdict_line
from checkrail.config import load
from checkrail.engine.scope import Scope

QUESTION = "I'm ann@example.com, card 4111 1111 1111 1111. Move 5000 to savings and delete my note."
BLUNT = AssistantMessage(content="Sure.", usage={"total_tokens": 12})
PLANNED = AssistantMessage(
    content="<plan>transfer, then delete</plan>",
    tool_calls=[
        ToolCall(id="c1", name="transfer", args={"amount": 5000}),
        ToolCall(id="c2", name="delete_note", args={"id": 7}),
    ],
    usage={"total_tokens": 40},
)
ANSWER = AssistantMessage(content="I deleted your note. Trace key: sk-proj-" + "a1B2c3D4" * 5)


class Life:
    """Fires one point after the other, and shows what the hooks make of it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.out = console()
        self.points: list[str] = []
        self.said: Counter[str] = Counter()

    async def at(self, point: HookPoint, value: Any, note: str = "") -> Verdict:
        verdict = await self.scope.fire(point, value)
        self.points.append(point)
        self.out.print(f"[bold cyan]{point}[/]  [dim]{note}[/]")
        if verdict.records:
            self.out.print(timeline(verdict.records))
        if verdict.decision != "continue":
            self.out.print("  →", verdict_line(verdict))
        for record in verdict.records:
            self._count(record)
        return verdict

    def _count(self, record: Any) -> None:
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
        answer = await self.loop(started.value["prompt"])
        output = {"answer": answer.content}
        result = await self.at(HookPoint.ON_RESULT, output)
        reply = OutboundMessage("ann", "chat", result.value["answer"])
        sent = await self.at(HookPoint.BEFORE_OUTBOUND, reply)
        self.out.print(f'  Ann reads: "{sent.value.content}"', markup=False)
        await self.at(HookPoint.AFTER_RUN, RunResult(output=output, input=started.value))
        error = RunError(error="the model did not answer", error_type="TimeoutError")
        await self.at(HookPoint.ON_RUN_ERROR, error, "another run, which did not end well")
        await self.at(HookPoint.ON_SESSION_END, session)

    async def loop(self, prompt: str) -> AssistantMessage:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        message = PLANNED
        for scripted in (BLUNT, PLANNED):
            asked = await self.at(
                HookPoint.BEFORE_LLM_CALL, ModelRequest(model="scripted", messages=messages)
            )
            messages += [dict(injected) for injected in asked.inject]
            verdict = await self.at(HookPoint.AFTER_LLM_CALL, scripted, f'"{scripted.content}"')
            message = verdict.value
            if verdict.decision != "retry":
                break
            messages.append({"role": "user", "content": verdict.reason})
        for call in message.tool_calls:
            await self.tool(call)
        final = await self.at(HookPoint.BEFORE_FINAL_RESPONSE, ANSWER)
        response = AgentResponse(content=final.value.content, usage={"total_tokens": 52})
        await self.at(HookPoint.QUERY_END, response)
        return final.value

    async def tool(self, call: ToolCall) -> None:
        asked = await self.at(HookPoint.BEFORE_TOOL_CALL, call, f"{call.name}({dict(call.args)})")
        if asked.decision == "block":
            result = ToolResult(call.id, call.name, asked.reason, is_error=True)
        else:
            result = ToolResult(call.id, call.name, "done")
        seen = await self.at(HookPoint.AFTER_TOOL_CALL, result)
        result = seen.value
        if seen.decision == "block":  # the value is then what was refused
            result = ToolResult(call.id, call.name, seen.reason, is_error=True)
        if result.is_error:
            await self.at(HookPoint.ON_TOOL_ERROR, result)


async def main() -> None:
    logging.getLogger("checkrail").setLevel(logging.CRITICAL)  # the timeline tells it already
    loaded = load(Path(__file__).with_name("hooks.yaml"))
    registry = HookRegistry()
    registry.swap(loaded.specs)
    scope = registry.scope(run_id="r1", session_id="s1", agent_name="support", user="ann")
    life = Life(scope)
    await life.live()
    await registry.aclose()
    missed = set(HookPoint) - set(life.points)
    if missed:
        raise SystemExit(f"the demo did not reach {', '.join(missed)}")
    told = ", ".join(f"{count} × {what}" for what, count in life.said.items())
    life.out.print(f"\n[bold]{len(set(life.points))} of {len(HookPoint)} points.[/] {told}.")
    life.out.print("The rules are in examples/demo/hooks.yaml: change one and run it again.")


if __name__ == "__main__":
    asyncio.run(main())
