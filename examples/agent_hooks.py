"""Four hooks of an agent that answers questions with SQL, said in the fluent style.

- A final answer without a <plan> is asked for again, with guidance.
- A database error that the manual knows is enriched with what the manual says.
- After an unknown column, the schema is put into the conversation.
- A question that was answered before does not reach the model.

The loop below is as small as a loop can be; the model and the database are scripted.
"""

import asyncio
import dataclasses

from checkrail import AssistantMessage, HookRegistry, ModelRequest, ToolCall, ToolResult
from checkrail.styles import LIVE, AgentEvent, AgentStatus, HookDecision, Live, on

MANUAL = {"ORA-00904": "a column is misspelt or does not exist"}
SCHEMA = "orders(id, customer, total)"

MODEL = [
    AssistantMessage(
        tool_calls=[ToolCall(id="1", name="sql", args={"query": "SELECT sum FROM orders"})]
    ),
    AssistantMessage(
        tool_calls=[ToolCall(id="2", name="sql", args={"query": "SELECT total FROM orders"})]
    ),
    AssistantMessage("You sold for 420."),
    AssistantMessage("<plan>Add up the totals.</plan> You sold for 420."),
]


def database(call: ToolCall) -> ToolResult:
    if "sum" in call.args["query"]:
        error = 'ORA-00904: "SUM": invalid identifier'
        return ToolResult(call.id, call.name, content=error, is_error=True, error=error)
    return ToolResult(call.id, call.name, content="420")


class SqlAgent:
    def __init__(self) -> None:
        self.registry = HookRegistry()
        self.model = iter(MODEL)
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

    def on(self, event: AgentEvent):
        return on(self.registry, event)

    def missing_plan(self, status: AgentStatus) -> bool:
        return "<plan>" not in status.assistant_message.content

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

    async def run(self, question: str) -> str:
        history = [{"role": "user", "content": question}]
        live = Live(agent=self, history=history)
        scope = self.registry.scope(agent_name="sql", metadata={LIVE: live})
        iteration = 0
        while True:
            iteration += 1
            at = scope.bind(iteration=iteration)
            before = await at.fire("before_llm_call", ModelRequest(messages=history))
            if before.decision == "stop":
                print(f"  {iteration}. the model is not asked")
                return before.value.content
            message = next(self.model)
            if message.tool_calls:
                await self.call_tool(at, message.tool_calls[0], history)
                continue
            final = await at.fire("before_final_response", message)
            if final.decision != "retry":
                self.cache[question] = final.value.content
                print(f"  {iteration}. answer accepted; flags of this run: {live.flags}")
                return final.value.content
            print(f"  {iteration}. retry: {final.inject[0]['content']}")
            history += [{"role": "user", "content": final.reason}, *final.inject]

    async def call_tool(self, scope, call: ToolCall, history: list) -> None:
        seen = await scope.fire("after_tool_call", database(call))
        result = seen.value
        if seen.decision == "block":  # the value is then what was refused
            result = ToolResult(call.id, call.name, seen.reason, is_error=True)
        print(f"  {scope.context.iteration}. tool says: {result.content}")
        history.append({"role": "tool", "content": result.content})
        if result.is_error:
            verdict = await scope.fire("on_tool_error", result)
            history += verdict.inject
            print(f"     added: {verdict.inject[0]['content']}")


async def main() -> None:
    agent = SqlAgent()
    for _ in range(2):
        print("What did we sell for?")
        print(f"  -> {await agent.run('What did we sell for?')}")


if __name__ == "__main__":
    asyncio.run(main())
