"""Asking a model: within its time, whole or as a stream, and what becomes of its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.agent.endings import Cancellation
from checkrail.agent.holding import Release
from checkrail.agent.models.model import FailureKind, Model, ModelError
from checkrail.engine.errors import told
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall


async def ask(
    model: Model,
    request: ModelRequest,
    timeout: float | None,
    release: Release | None,
) -> AssistantMessage:
    """Give the model's answer, or raise `ModelError` whatever it was that failed."""
    named = request.model or model.name
    cancellation = Cancellation()
    try:
        async with asyncio.timeout(timeout) as patience:
            if release is None:
                answer = await model.complete(request)
            else:
                answer = await _streamed(model, request, release)
    except ModelError as error:
        cancellation.let_through(error)
        raise
    except TimeoutError as error:
        cancellation.let_through(error)
        limit = f" ({timeout:g} s, the agent's model_timeout)" if patience.expired() else ""
        late = f"model {named!r} did not answer in time{limit}"
        raise ModelError(late, kind="timeout") from error
    except asyncio.CancelledError as error:
        if cancellation.came:
            raise
        raise ModelError(f"model {named!r} was cancelled from within") from error
    except Exception as error:
        cancellation.let_through(error)
        kind: FailureKind = "unreachable" if isinstance(error, OSError) else "error"
        raise ModelError(f"model {named!r} failed with {told(error)}", kind=kind) from error
    cancellation.let_through()
    return _checked(answer, named)


async def _streamed(model: Model, request: ModelRequest, release: Release) -> Any:
    answer: Any = None
    pieces = model.stream(request)
    try:
        async for piece in pieces:
            if isinstance(piece, str):
                await release.feed(piece)
            else:
                answer = piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
    return answer


def _checked(answer: Any, named: str) -> AssistantMessage:
    """Give an answer if it is one: a model may be anybody's, and say anything."""
    if not isinstance(answer, AssistantMessage):
        problem = f"it is {type(answer).__name__}, not an AssistantMessage"
    else:
        problem = next(_problems(answer), "")
    if problem:
        raise ModelError(f"model {named!r} gave no proper answer: {problem}", kind="invalid")
    return answer  # type: ignore[no-any-return]


def _problems(answer: AssistantMessage) -> Iterator[str]:
    content: Any = answer.content
    calls: Any = answer.tool_calls
    if not isinstance(content, str | list | tuple):
        yield f"its content is {type(content).__name__}, not a text or parts"
    if not isinstance(calls, (list, tuple)) or not all(isinstance(c, ToolCall) for c in calls):
        yield "its tool_calls are no list of ToolCall"
    others: list[Any] = [answer.usage or {}, answer.metadata]
    if not all(isinstance(other, Mapping) for other in others):
        yield "its usage or metadata is no mapping"
