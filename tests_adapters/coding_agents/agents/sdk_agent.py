"""A small coding agent on the official SDKs: python sdk_agent.py API PROMPT."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anthropic
import openai

MODEL = "model-1"
ABOUT = "Run a command in a shell"
SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}


def run_command(command: str) -> str:
    """Return what a command prints."""
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def use_chat(prompt: str) -> Iterator[str]:
    """Yield what the model says, by chat completions."""
    client = openai.OpenAI()
    function = {"name": "shell", "description": ABOUT, "parameters": SCHEMA, "strict": True}
    said: list[Any] = [{"role": "user", "content": prompt}]
    while True:
        with client.chat.completions.stream(
            model=MODEL, messages=said, tools=[{"type": "function", "function": function}]
        ) as stream:
            message = stream.get_final_completion().choices[0].message
        if message.content:
            yield message.content
        if not message.tool_calls:
            return
        said.append(message.model_dump(include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            found = run_command(json.loads(call.function.arguments)["command"])
            said.append({"role": "tool", "tool_call_id": call.id, "content": found})


def use_responses(prompt: str) -> Iterator[str]:
    """Yield what the model says, by the responses API."""
    client = openai.OpenAI()
    tool: Any = {"type": "function", "name": "shell", "description": ABOUT, "parameters": SCHEMA}
    said: list[Any] = [{"role": "user", "content": prompt}]
    while True:
        with client.responses.stream(
            model=MODEL, input=said, tools=[{**tool, "strict": True}], store=False
        ) as stream:
            answer = stream.get_final_response()
        if answer.output_text:
            yield answer.output_text
        said += [item.model_dump(exclude={"parsed", "parsed_arguments"}) for item in answer.output]
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return
        for call in calls:
            found = run_command(json.loads(call.arguments)["command"])
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": found})


def use_messages(prompt: str) -> Iterator[str]:
    """Yield what the model says, by the messages API."""
    client = anthropic.Anthropic()
    tool: Any = {"name": "shell", "description": ABOUT, "input_schema": SCHEMA}
    said: list[Any] = [{"role": "user", "content": prompt}]
    while True:
        with client.messages.stream(
            model=MODEL, max_tokens=1000, messages=said, tools=[tool]
        ) as stream:
            message = stream.get_final_message()
        yield from (block.text for block in message.content if block.type == "text")
        said.append({"role": "assistant", "content": message.to_dict()["content"]})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": run_command(block.input["command"]),
            }
            for block in message.content
            if block.type == "tool_use"
        ]
        if not results:
            return
        said.append({"role": "user", "content": results})


USES = {"chat": use_chat, "responses": use_responses, "messages": use_messages}

try:
    for text in USES[sys.argv[1]](sys.argv[2]):
        sys.stdout.write(f"{text}\n")
except (openai.OpenAIError, anthropic.AnthropicError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
