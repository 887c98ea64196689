"""A chat model that answers from what it is asked: the same question, the same answer, always."""

from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

MODEL = "parrot-1"


class Parrot(BaseChatModel):
    """Says what it was told; `add 2 3` it gives to the tool of that name, if it has tools."""

    tooled: bool = False

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def bind_tools(self, tools: Any, **options: Any) -> Runnable[Any, AIMessage]:
        return self.model_copy(update={"tooled": bool(tools)})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        text, calls = self._answer(messages[-1])
        message = AIMessage(text, tool_calls=calls, **_told(messages, text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        text, calls = self._answer(messages[-1])
        for chunk in [*_words(text), *_calls(calls), _last(messages, text)]:
            part = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.content), chunk=part)
            yield part

    def _answer(self, last: BaseMessage) -> tuple[str, list[ToolCall]]:
        if isinstance(last, ToolMessage):
            return f"The answer is {last.content}", []
        words = str(last.text).split()
        if self.tooled and words[0] == "add":
            args = {"a": int(words[1]), "b": int(words[2])}
            return "", [ToolCall(name="add", args=args, id=f"call-{args['a']}-{args['b']}")]
        return f"You said: {last.text}", []


def _words(text: str) -> list[AIMessageChunk]:
    parts = text.split(" ")
    return [AIMessageChunk(f"{word} ") for word in parts[:-1]] + [AIMessageChunk(parts[-1])]


def _calls(calls: list[ToolCall]) -> list[AIMessageChunk]:
    return [
        AIMessageChunk(
            "",
            tool_call_chunks=[
                tool_call_chunk(
                    name=call["name"],
                    args=str(call["args"]).replace("'", '"'),
                    id=call["id"],
                    index=index,
                )
            ],
        )
        for index, call in enumerate(calls)
    ]


def _last(messages: list[BaseMessage], text: str) -> AIMessageChunk:
    return AIMessageChunk("", chunk_position="last", **_told(messages, text))


def _told(messages: list[BaseMessage], text: str) -> dict[str, Any]:
    read, said = len(messages), max(1, len(text.split()))
    usage = {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
    return {"usage_metadata": usage, "response_metadata": {"model_name": MODEL}}
