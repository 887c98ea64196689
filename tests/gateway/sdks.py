"""The official SDKs, sync and async, asked in each of the ways that they have."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

Json = dict[str, Any]

MODEL = "model-1"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@dataclass
class Told:
    """What an SDK makes of an answer: its text, its calls as (id, name, arguments), and so on."""

    text: str = ""
    calls: list[tuple[str, str, Json]] = field(default_factory=list)
    stop: str | None = None
    usage: tuple[int, int] | None = None


async def settled(value: Any) -> Any:
    """Give what a sync SDK gives at once, and an async one when it is awaited."""
    return await value if inspect.isawaitable(value) else value


async def items(stream: Any) -> list[Any]:
    """Read a stream of either kind to its end."""
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return [*stream]


@contextlib.asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """Enter what a helper of either kind gives."""
    if hasattr(manager, "__aenter__"):
        async with manager as inside:
            yield inside
    else:
        with manager as inside:
            yield inside


class ChatSdk:
    """`openai`, chat completions."""

    name = "chat"
    package = openai
    plain, calling = "stop", "tool_calls"

    def client(self, url: str, *, sync: bool, **more: Any) -> Any:
        kind = openai.OpenAI if sync else openai.AsyncOpenAI
        return kind(base_url=f"{url}/v1", **{"api_key": "sk-caller", "max_retries": 0, **more})

    def question(self, text: str) -> Json:
        function = {
            "name": "forecast",
            "description": "Tells the weather.",
            "parameters": SCHEMA,
            "strict": True,
        }
        return {
            "model": MODEL,
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": text},
            ],
            "tools": [{"type": "function", "function": function}],
        }

    def with_results(self, asked: Json, told: Told, *results: str) -> Json:
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for call_id, name, args in told.calls
        ]
        said = {"role": "assistant", "content": told.text, "tool_calls": calls}
        given = [
            {"role": "tool", "tool_call_id": call_id, "content": result}
            for (call_id, _, _), result in zip(told.calls, results, strict=True)
        ]
        return {**asked, "messages": [*asked["messages"], said, *given]}

    async def create(self, client: Any, asked: Json) -> Told:
        return self._told(await settled(client.chat.completions.create(**asked)))

    async def streamed(self, client: Any, asked: Json) -> Told:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        stream = await settled(client.chat.completions.create(**asked, **options))
        told = Told()
        calls: dict[int, list[str]] = {}
        for chunk in await items(stream):
            if chunk.usage is not None:
                told.usage = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            for choice in chunk.choices:
                told.text += choice.delta.content or ""
                told.stop = choice.finish_reason or told.stop
                for call in choice.delta.tool_calls or ():
                    known = calls.setdefault(call.index, ["", "", ""])
                    known[0] += call.id or ""
                    known[1] += call.function.name or ""
                    known[2] += call.function.arguments or ""
        told.calls = [(call_id, name, json.loads(args)) for call_id, name, args in calls.values()]
        return told

    async def helper(self, client: Any, asked: Json) -> Told:
        options = {"stream_options": {"include_usage": True}}
        async with entered(client.chat.completions.stream(**asked, **options)) as stream:
            return self._told(await settled(stream.get_final_completion()))

    def _told(self, made: Any) -> Told:
        (choice,) = made.choices
        calls = [
            (call.id, call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls or ()
        ]
        usage = made.usage.prompt_tokens, made.usage.completion_tokens
        return Told(choice.message.content or "", calls, choice.finish_reason, usage)


class MessagesSdk:
    """`anthropic`, messages."""

    name = "messages"
    package = anthropic
    plain, calling = "end_turn", "tool_use"

    def client(self, url: str, *, sync: bool, **more: Any) -> Any:
        kind = anthropic.Anthropic if sync else anthropic.AsyncAnthropic
        return kind(base_url=url, **{"api_key": "sk-caller", "max_retries": 0, **more})

    def question(self, text: str) -> Json:
        return {
            "model": MODEL,
            "max_tokens": 1000,
            "system": "Be short.",
            "messages": [{"role": "user", "content": text}],
            "tools": [
                {"name": "forecast", "description": "Tells the weather.", "input_schema": SCHEMA}
            ],
        }

    def with_results(self, asked: Json, told: Told, *results: str) -> Json:
        said = [{"type": "text", "text": told.text}] if told.text else []
        said += [
            {"type": "tool_use", "id": call_id, "name": name, "input": args}
            for call_id, name, args in told.calls
        ]
        given = [
            {"type": "tool_result", "tool_use_id": call_id, "content": result}
            for (call_id, _, _), result in zip(told.calls, results, strict=True)
        ]
        more = [{"role": "assistant", "content": said}, {"role": "user", "content": given}]
        return {**asked, "messages": [*asked["messages"], *more]}

    async def create(self, client: Any, asked: Json) -> Told:
        return self._told(await settled(client.messages.create(**asked)))

    async def streamed(self, client: Any, asked: Json) -> Told:
        told = Told()
        blocks: dict[int, list[Any]] = {}
        sent = 0
        for event in await items(await settled(client.messages.create(**asked, stream=True))):
            match event.type:
                case "message_start":
                    sent = event.message.usage.input_tokens
                case "content_block_start":
                    blocks[event.index] = [event.content_block, ""]
                case "content_block_delta" if event.delta.type == "text_delta":
                    told.text += event.delta.text
                case "content_block_delta":
                    blocks[event.index][1] += event.delta.partial_json
                case "message_delta":
                    told.stop = event.delta.stop_reason
                    told.usage = sent, event.usage.output_tokens
        told.calls = [
            (block.id, block.name, json.loads(args))
            for block, args in blocks.values()
            if block.type == "tool_use"
        ]
        return told

    async def helper(self, client: Any, asked: Json) -> Told:
        async with entered(client.messages.stream(**asked)) as stream:
            text = "".join(await items(stream.text_stream))
            told = self._told(await settled(stream.get_final_message()))
        assert told.text == text
        return told

    def _told(self, made: Any) -> Told:
        text = "".join(block.text for block in made.content if block.type == "text")
        uses = [block for block in made.content if block.type == "tool_use"]
        calls = [(use.id, use.name, use.input) for use in uses]
        usage = made.usage.input_tokens, made.usage.output_tokens
        return Told(text, calls, made.stop_reason, usage)


class ResponsesSdk:
    """`openai`, responses."""

    name = "responses"
    package = openai
    plain, calling = "completed", "completed"

    client = ChatSdk.client

    def question(self, text: str) -> Json:
        tool = {
            "type": "function",
            "name": "forecast",
            "description": "Tells the weather.",
            "parameters": SCHEMA,
            "strict": True,
        }
        return {
            "model": MODEL,
            "instructions": "Be short.",
            "input": [{"role": "user", "content": text}],
            "tools": [tool],
        }

    def with_results(self, asked: Json, told: Told, *results: str) -> Json:
        said = [{"role": "assistant", "content": told.text}] if told.text else []
        for call_id, name, args in told.calls:
            call = {"type": "function_call", "call_id": call_id, "name": name}
            said.append({**call, "arguments": json.dumps(args)})
        given = [
            {"type": "function_call_output", "call_id": call_id, "output": result}
            for (call_id, _, _), result in zip(told.calls, results, strict=True)
        ]
        return {**asked, "input": [*asked["input"], *said, *given]}

    async def create(self, client: Any, asked: Json) -> Told:
        return self._told(await settled(client.responses.create(**asked)))

    async def streamed(self, client: Any, asked: Json) -> Told:
        text, arguments, told = "", "", Told()
        for event in await items(await settled(client.responses.create(**asked, stream=True))):
            match event.type:
                case "response.output_text.delta":
                    text += event.delta
                case "response.function_call_arguments.delta":
                    arguments += event.delta
                case "response.completed":
                    told = self._told(event.response)
        assert told.text == text
        assert [args for *_, args in told.calls] == ([json.loads(arguments)] if arguments else [])
        return told

    async def helper(self, client: Any, asked: Json) -> Told:
        async with entered(client.responses.stream(**asked)) as stream:
            return self._told(await settled(stream.get_final_response()))

    def _told(self, made: Any) -> Told:
        calls = [
            (item.call_id, item.name, json.loads(item.arguments))
            for item in made.output
            if item.type == "function_call"
        ]
        usage = made.usage.input_tokens, made.usage.output_tokens
        return Told(made.output_text, calls, made.status, usage)


Sdk = ChatSdk | MessagesSdk | ResponsesSdk
SDKS: dict[str, Sdk] = {each.name: each for each in (ChatSdk(), MessagesSdk(), ResponsesSdk())}
WAYS = ("create", "streamed", "helper")
"""The ways to ask: `create`, `create(stream=True)`, and the helper `stream`."""
