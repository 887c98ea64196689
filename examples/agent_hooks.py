"""Four hooks of an agent that answers questions with SQL, said in the fluent style.

- A final answer without a <plan> is asked for again, with guidance.
- A database error that the manual knows is enriched with what the manual says.
- After an unknown column, the schema is put into the conversation.
- A question that was answered before does not reach the model.

The model answers from a script, and the database is made up: it runs without a network.
"""

import asyncio
import dataclasses

from checkrail import Agent, AgentResponse, AssistantMessage, ModelRequest, ToolCall, ToolResult
from checkrail.agent import ToolError
from checkrail.styles import AgentEvent, AgentStatus, HookDecision
from checkrail.testing import ScriptedModel

MANUAL = {"ORA-00904": "a column is misspelt or does not exist"}
SCHEMA = "orders(id, customer, total)"

SCRIPT = [
    ToolCall("1", "sql", {"query": "SELECT sum FROM orders"}),
    ToolCall("2", "sql", {"query": "SELECT total FROM orders"}),
    "You sold for 420.",
    "<plan>Add up the totals.</plan> You sold for 420.",
]


async def sql(query: str) -> str:
    """Ask the database."""
    if "sum" in query:
        raise ToolError('ORA-00904: "SUM": invalid identifier')
    return "420"


class SqlAgent(Agent):
    def __init__(self) -> None:
        super().__init__(ScriptedModel(SCRIPT), tools=[sql], name="sql")
        self.cache: dict[str, str] = {}

        self.on(AgentEvent.BEFORE_FINAL_RESPONSE).when(self.missing_plan).handle(
            decision=HookDecision.RETRY,
            effects=[self.ask_for_plan],
        )
        self.on(AgentEvent.AFTER_TOOL_EXECUTION).when(self.is_known_error).handle(
            decision=HookDecision.CONTINUE,
            value=self.with_manual,
        )
        self.on(AgentEvent.ON_TOOL_ERROR).when(self.is_unknown_column).handle(
            decision=HookDecision.CONTINUE,
            effects=[self.show_schema],
        )
        self.on(AgentEvent.BEFORE_LLM_CALL).when(self.is_cached).handle(
            decision=HookDecision.STOP,
            value=self.cached_answer,
        )
        self.on(AgentEvent.QUERY_END).handle(value=self.remember)

    def missing_plan(self, status: AgentStatus) -> bool:
        return "<plan>" not in status.assistant_message.text

    async def ask_for_plan(self, status: AgentStatus) -> None:
        guidance = "Begin your answer with a <plan>."
        status.conversation_history.append({"role": "user", "content": guidance})

    def is_known_error(self, status: AgentStatus) -> bool:
        return status.tool_result.is_error and status.tool_result.error[:9] in MANUAL

    async def with_manual(self, status: AgentStatus, result: ToolResult) -> ToolResult:
        help_text = MANUAL[result.error[:9]]
        return dataclasses.replace(result, content=f"{result.content} ({help_text})")

    def is_unknown_column(self, status: AgentStatus) -> bool:
        return "invalid identifier" in status.error

    def show_schema(self, status: AgentStatus) -> None:
        status.flags["schema_shown"] = True
        status.conversation_history.append({"role": "system", "content": f"Schema: {SCHEMA}"})

    def is_cached(self, status: AgentStatus) -> bool:
        return status.conversation_history[-1]["content"] in status.agent.cache

    def cached_answer(self, status: AgentStatus, request: ModelRequest) -> AssistantMessage:
        return AssistantMessage(status.agent.cache[request.messages[-1]["content"]])

    def remember(self, status: AgentStatus, response: AgentResponse) -> AgentResponse:
        if response.stop_reason == "answer":
            print(f"  accepted; flags of this run: {status.flags}")
            self.cache[status.conversation_history[0]["content"]] = response.content
        return response


async def main() -> None:
    agent = SqlAgent()
    for _ in range(2):
        response = await agent.run("What did we sell for?")
        print(f"  ended with {response.stop_reason}, {len(agent.model.requests)} requests so far")
        for message in response.messages:
            calls = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
            print(f"  {message['role']}: {', '.join(calls) or message['content']}")


if __name__ == "__main__":
    asyncio.run(main())
