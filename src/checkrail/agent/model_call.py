"""Asking a model: within its time, whole or as a stream, and what becomes of its failures."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.agent.models.model import FailureKind, Model, ModelError
from checkrail.agent.stream_gate import StreamGate
from checkrail.engine.errors import describe_error
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.conversation import find_problems, text_of
from checkrail.llm.stop_reasons import read_stop_reason
from checkrail.llm.timeouts import WorkCancelledItself, WorkTimedOut, run_with_timeout

log = logging.getLogger("checkrail.agent")

Spend = Callable[[Mapping[str, Any] | None, str], None]
"""Is told what a model has used, and the model's name."""


async def call_model(
    model: Model,
    request: ModelRequest,
    timeout: float | None,
    release: StreamGate | None,
    spend: Spend,
) -> AssistantMessage:
    """Return the model's answer, or raise `ModelError` whatever it was that failed.

    What it used is told to `spend` as soon as it is known, whether or not anybody still waits.
    """
    named = request.model or model.name
    try:
        return await run_with_timeout(timeout, _receive_answer(model, request, release, spend))
    except ModelError:
        raise
    except WorkTimedOut:
        late = f"model {named!r} did not answer in time ({timeout:g} s, the agent's model_timeout)"
        raise ModelError(late, kind="timeout") from None
    except TimeoutError as error:
        raise ModelError(f"model {named!r} did not answer in time", kind="timeout") from error
    except WorkCancelledItself as error:
        raise ModelError(f"model {named!r} was cancelled from within") from error.__cause__
    except Exception as error:
        kind: FailureKind = "unreachable" if isinstance(error, OSError) else "error"
        raise ModelError(
            f"model {named!r} failed with {describe_error(error)}", kind=kind
        ) from error


async def _receive_answer(
    model: Model,
    request: ModelRequest,
    release: StreamGate | None,
    spend: Spend,
) -> AssistantMessage:
    named = request.model or model.name
    try:
        if release is None:
            answer = await model.complete(request)
        else:
            answer = await _stream_answer(model, request, release)
    except BaseException as error:
        spend(getattr(error, "usage", None), named)  # of a cancellation too, if the model knows
        raise
    usage = getattr(answer, "usage", None)
    own = getattr(answer, "model", None)
    answering = own if own and isinstance(own, str) else named
    spend(usage if isinstance(usage, Mapping) else None, answering)
    return _check_answer(answer, named)


async def _stream_answer(model: Model, request: ModelRequest, release: StreamGate) -> Any:
    answer: Any = None
    pieces = model.stream(request)
    try:
        async for piece in pieces:
            if not isinstance(piece, str):
                answer = piece
                release.check_full_text(text_of(getattr(piece, "content", "")), model.name)
                break
            await release.feed(piece)
    finally:
        await _close_stream(pieces, kept=answer is not None)
    return answer


async def _close_stream(pieces: Any, *, kept: bool) -> None:
    """Close a stream; an error here does not take back an answer that has come."""
    close = getattr(pieces, "aclose", None)
    try:
        if close is not None:
            await close()
    except Exception as error:
        if not kept:
            raise
        log.warning("a model's stream failed when it was closed: %s", describe_error(error))


def _check_answer(answer: Any, named: str) -> AssistantMessage:
    """Return the answer if it is valid: anybody may have written the model."""
    if not isinstance(answer, AssistantMessage):
        problem = f"it is {type(answer).__name__}, not an AssistantMessage"
    else:
        problem = next(find_problems(answer), "")
    if problem:
        raise ModelError(f"model {named!r} gave no proper answer: {problem}", kind="invalid")
    reason = read_stop_reason(answer.stop_reason, calls=bool(answer.tool_calls))
    same = reason == answer.stop_reason
    return answer if same else dataclasses.replace(answer, stop_reason=reason)  # type: ignore[no-any-return]
