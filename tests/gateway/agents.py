"""An agent that reads and writes files, as a client of each API keeps its conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .dialects import Messages
from .talking import Got, Talk

Json = dict[str, Any]
Dump = Callable[[Any], str]
CONVERSATION = {
    "chat": "messages",
    "messages": "messages",
    "responses": "input",
    "gemini": "contents",
}
"""Where a request has its conversation."""


def compact(value: Any) -> str:
    """Write JSON in few characters, and none of them escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class FileAgent:
    """A client with files and a conversation; `dump` is how it writes arguments down.

    One of Gemini may name calls that came without an id, as Gemini CLI does.
    """

    def __init__(
        self,
        talk: Talk,
        files: dict[str, str],
        dump: Dump = json.dumps,
        *,
        names_calls: bool = False,
    ) -> None:
        self.talk = talk
        self.files = files
        self.dump = dump
        self.names_calls = names_calls
        self.body = talk.dialect.request("Copy the file.", stream=talk.stream)
        self._results = 0

    async def turn(self, **ids: Any) -> Got:
        """Send the conversation, and do what the model says."""
        got = await self.talk.ask(self.body, **ids)
        if got.heard.error is None:
            self._take(got)
        return got

    @property
    def messages(self) -> list[Any]:
        """The conversation."""
        return self.body[CONVERSATION[self.api]]

    @property
    def api(self) -> str:
        """The API whose conversations it keeps; clouds have that of messages."""
        dialect = self.talk.dialect
        return "messages" if isinstance(dialect, Messages) else dialect.name

    def tell(self, text: str, *, in_parts: bool = False) -> None:
        """Add a text of the user to the conversation."""
        if self.api == "gemini":
            self.messages.append({"role": "user", "parts": [{"text": text}]})
            return
        content = [{"type": "text", "text": text}] if in_parts else text
        self.messages.append({"role": "user", "content": content})

    def _take(self, got: Got) -> None:
        calls = [(f"r{self._results + n}", *call) for n, call in enumerate(got.heard.calls)]
        self._results += len(calls)
        self.messages.extend(self._said(got.heard.text, calls))
        results = [(own, name, self._run(name, args)) for own, name, args in calls]
        self.messages.extend(self._told(results))

    def _run(self, name: str, args: Json) -> str:
        if name == "read":
            return self.files[args["path"]]
        if name == "write":
            self.files[args["path"]] = args["content"]
        return self.dump(args) if name == "echo" else "ok"

    def _said(self, text: str, calls: list[tuple[str, str, Json]]) -> list[Json]:
        if self.api == "messages":
            parts = [{"type": "text", "text": text}] if text else []
            uses = [
                {"type": "tool_use", "id": own, "name": name, "input": args}
                for own, name, args in calls
            ]
            return [{"role": "assistant", "content": parts + uses}]
        if self.api == "responses":
            said = [{"role": "assistant", "content": text}] if text else []
            return said + [
                {
                    "type": "function_call",
                    "call_id": own,
                    "name": name,
                    "arguments": self.dump(args),
                }
                for own, name, args in calls
            ]
        if self.api == "gemini":
            parts = [{"text": text}] if text else []
            made = [
                {"functionCall": {**self._named(own), "name": name, "args": args}}
                for own, name, args in calls
            ]
            return [{"role": "model", "parts": parts + made}]
        written = [
            {
                "id": own,
                "type": "function",
                "function": {"name": name, "arguments": self.dump(args)},
            }
            for own, name, args in calls
        ]
        return [{"role": "assistant", "content": text or None, "tool_calls": written}]

    def _told(self, results: list[tuple[str, str, str]]) -> list[Json]:
        if not results:
            return []
        if self.api == "messages":
            parts = [
                {"type": "tool_result", "tool_use_id": own, "content": text}
                for own, _, text in results
            ]
            return [{"role": "user", "content": parts}]
        if self.api == "responses":
            return [
                {"type": "function_call_output", "call_id": own, "output": text}
                for own, _, text in results
            ]
        if self.api == "gemini":
            parts = [
                {
                    "functionResponse": {
                        **self._named(own),
                        "name": name,
                        "response": {"result": text},
                    }
                }
                for own, name, text in results
            ]
            return [{"role": "user", "parts": parts}]
        return [{"role": "tool", "tool_call_id": own, "content": text} for own, _, text in results]

    def _named(self, own: str) -> Json:
        return {"id": own} if self.names_calls else {}

    def last_result(self, asked: Json) -> str:
        """Return what a model reads as the last result of a tool in a request."""
        if self.api == "responses":
            return asked["input"][-1]["output"]
        if self.api == "gemini":
            return asked["contents"][-1]["parts"][-1]["functionResponse"]["response"]["result"]
        content = asked["messages"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["content"]

    def last_arguments(self, asked: Json) -> Json:
        """Return what a model reads as the arguments that it gave last."""
        if self.api == "responses":
            return json.loads(asked["input"][-2]["arguments"])
        if self.api == "gemini":
            return asked["contents"][-2]["parts"][-1]["functionCall"]["args"]
        message = asked["messages"][-2]
        if self.api == "messages":
            return message["content"][-1]["input"]
        return json.loads(message["tool_calls"][-1]["function"]["arguments"])
