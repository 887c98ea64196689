"""Asking a model: within its time, whole or as a stream, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from contextlib import aclosing
from itertools import count
from typing import Any

from checkrail.agent.holding import Release
from checkrail.agent.models.model import FailureKind, Model, ModelError
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall


async def ask(
    model: Model,
    request: ModelRequest,
    timeout: float | None,
    release: Release | None,
) -> AssistantMessage:
    """Give the model's answer, or raise `ModelError` whatever it was that failed."""
    named = request.model or model.name
    try:
        async with asyncio.timeout(timeout) as patience:
            if release is None:
                answer = await model.complete(request)
            else:
                answer = await _streamed(model, request, release)
    except ModelError:
        raise
    except TimeoutError as error:
        limit = f" within {timeout:g} s, the agent's model_timeout" if patience.expired() else ""
        raise ModelError(
            f"model {named!r} did not answer in time{limit}", kind="timeout"
        ) from error
    except Exception as error:
        kind: FailureKind = "unreachable" if isinstance(error, OSError) else "error"
        told = f"model {named!r} failed with {type(error).__name__}: {error}"
        raise ModelError(told, kind=kind) from error
    return _checked(answer, named)


async def _streamed(model: Model, request: ModelRequest, release: Release) -> Any:
    answer: Any = None
    async with aclosing(model.stream(request)) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            if isinstance(piece, str):
                await release.feed(piece)
            else:
                answer = piece
    return answer


def _checked(answer: Any, named: str) -> AssistantMessage:
    if not isinstance(answer, AssistantMessage):
        told = f"model {named!r} answered with {type(answer).__name__}, not an AssistantMessage"
        raise ModelError(told, kind="invalid")
    calls = [*_identified(answer.tool_calls)]
    if calls != [*answer.tool_calls]:
        return dataclasses.replace(answer, tool_calls=calls)
    return answer


def _identified(calls: Iterable[ToolCall]) -> Iterable[ToolCall]:
    """Give every call an id of its own: results are told apart by it."""
    taken: set[str] = set()
    for call in calls:
        free = (f"{call.id or 'call'}_{number}" for number in count(2))
        own = (
            call.id if call.id and call.id not in taken else next(o for o in free if o not in taken)
        )
        taken.add(own)
        yield call if own == call.id else dataclasses.replace(call, id=own)
