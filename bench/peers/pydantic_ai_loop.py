"""pydantic-ai: a run of `Agent` on a `FunctionModel`, which does not count tokens."""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from scripted_run import ANSWER, QUERY, lookup, print_loop, wanted

A_TURN = 2
"""Messages that an iteration adds: an answer, and the results in one."""


async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    calls = wanted((len(messages) - 1) // A_TURN)
    parts = [ToolCallPart("lookup", args, call_id) for call_id, args in calls]
    usage = RequestUsage(input_tokens=20, output_tokens=10)
    return ModelResponse(parts or [TextPart(ANSWER)], usage=usage)


agent = Agent(FunctionModel(reply), tools=[lookup])


async def once() -> str:
    return (await agent.run(QUERY)).output


if __name__ == "__main__":
    print_loop("pydantic-ai-slim", "pydantic-ai", once)
