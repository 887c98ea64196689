"""The OpenAI Agents SDK: `Runner.run` on a model of our own, without tracing."""

import json
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from scripted_run import ANSWER, ITEMS, QUERY, lookup, print_loop, wanted

A_TURN = 2 * len(ITEMS)
"""Items that an iteration adds: each call and each result is one."""


class ScriptedModel(Model):
    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        calls = wanted((len(input) - 1) // A_TURN)
        output = [tool_call(call_id, args) for call_id, args in calls] or [message(ANSWER)]
        usage = Usage(requests=1, input_tokens=20, output_tokens=10, total_tokens=30)
        return ModelResponse(output, usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def tool_call(call_id: str, args: dict[str, str]) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name="lookup", arguments=json.dumps(args)
    )


def message(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(
        type="message", id="m1", role="assistant", status="completed", content=content
    )


set_tracing_disabled(disabled=True)
agent = Agent("bench", model=ScriptedModel(), tools=[function_tool(lookup)])


async def once() -> Any:
    return (await Runner.run(agent, QUERY)).final_output


if __name__ == "__main__":
    print_loop("openai-agents", "OpenAI Agents SDK", once)
