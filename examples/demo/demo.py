"""One conversation through all 16 points, each fired by the server, then runs of graphs.

The agents are real ones; their models answer from scripts. Run it with `make demo`: no key and no
network is needed.
"""

import asyncio
from collections import Counter
from pathlib import Path

from rich.text import Text
from served import Desk, answer_of, hooks_of, server

from checkrail import HookPoint
from checkrail.cli.output import console
from checkrail.cli.records import Recorded
from checkrail.cli.timeline import timeline

HERE = Path(__file__).parent
QUESTION = "I'm ann@example.com, card 4111 1111 1111 1111. Move 5000 to savings and delete my note."


class Story:
    """Prints what happens, and counts what hooks did."""

    def __init__(self) -> None:
        self.out = console()
        self.points: list[str] = []
        self.said: Counter[str] = Counter()

    def head(self, title: str, note: str = "") -> None:
        self.out.print(Text.assemble((title, "bold cyan"), "  ", (note, "dim")))

    def tell(self, text: str) -> None:
        self.out.print(f"  {text}", markup=False, highlight=False, style="italic")

    def show(self, records: list[Recorded]) -> None:
        """Print the calls of hooks, below the points at which they stand."""
        for record in records:
            if not self.points or record.point != self.points[-1]:
                self.points.append(record.point)
                self.head(record.point)
            self.out.print(timeline([record]))
            self.count(record)

    def count(self, record: Recorded) -> None:
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
        else:
            told = str(record.decision)
            self.said["pass" if told == "continue" else told] += 1


async def converse(story: Story) -> None:
    """Have Ann talk to the desk: one answer, one failure, and the end of the session."""
    async with server(HERE) as url, Desk(url) as desk:
        story.head("a conversation", "checkrail serve, on SQLite")
        story.tell("Ann writes to the desk, with her address and a card in it")
        told = await desk.say(QUESTION)
        records = await desk.records_until("after_run", "before_outbound")
        story.show(records)
        for message in await desk.conversation(told["thread_id"]):
            if message["role"] == "tool":
                story.tell(f"the model is told: {message['content']}")
            elif message["role"] == "assistant" and not message.get("tool_calls"):
                story.tell(f"the agent says: {message['content']}")
        story.tell(f'Ann reads: "{told["reply"]}"')
        story.tell("She writes to an agent whose model does not answer")
        failed = await desk.say("Are you there?", agent_name="broken")
        story.show(await desk.records_until("on_run_error", "before_outbound"))
        story.tell(f'Ann reads: "{failed["reply"]}"')
        story.tell("The session is ended")
        await desk.end(told["session_id"])
        story.show(await desk.records_until("on_session_end"))


async def ask_graphs(story: Story) -> None:
    """Ask LangGraph agents over HTTP, with LangGraph's own client."""
    async with server(HERE.parent / "server") as url:
        story.out.print()
        story.head("the run server", "LangGraph graphs, called by LangGraph's client")
        refused, _ = await answer_of(url, "research", "Where is order A-17?")
        story.tell(f"Ann asks the paid agent: {refused}")
        story.tell("Ann asks the free one: Refund 5000!")
        answer, run_id = await answer_of(url, "support", "Refund 5000!")
        records = [Recorded(each) for each in await hooks_of(url, run_id)]
    story.out.print(timeline(records))
    for record in records:
        story.count(record)
    story.tell(f"Ann reads: {answer}")


async def main() -> None:
    story = Story()
    await converse(story)
    reached = [*story.points]
    await ask_graphs(story)
    missed = set(HookPoint) - set(reached)
    if missed:
        raise SystemExit(f"the demo did not reach {', '.join(missed)}")
    told = ", ".join(f"{count} × {what}" for what, count in story.said.items())
    count = f"\n{len(set(reached))} of {len(HookPoint)} points."
    story.out.print(Text.assemble((count, "bold"), f" {told}."))
    story.out.print("The rules are in examples/demo/checkrail.yaml: change one and run it again.")
    story.out.print("The graphs' project is in examples/server: `make dev` serves it.")


if __name__ == "__main__":
    asyncio.run(main())
