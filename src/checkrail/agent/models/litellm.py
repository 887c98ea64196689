"""Models of any provider that LiteLLM's SDK knows, for those who have installed it."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import random
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from checkrail.agent.models.model import ModelError
from checkrail.agent.models.openai import OpenAIModel
from checkrail.agent.models.openai_refusals import REFUSAL, RefusalsAsText
from checkrail.agent.models.sdk_errors import RequestTarget, classify_error, unwrap_error
from checkrail.config.agent_models import address_variable, can_redirect, local_address
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.extras import MissingExtraError
from checkrail.llm.answer_errors import missing_end
from checkrail.llm.answer_fields import list_in, object_in, text_in
from checkrail.llm.chat.answer_draft import OpenAIDraft
from checkrail.llm.chat.conversation import THINKING
from checkrail.llm.conversation import is_parts

BLOCKS = "thinking_blocks"


class LiteLLMDraft(OpenAIDraft):
    """An answer on its way; thinking is kept as parts of its content, to be given back."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._thinking: list[dict[str, Any]] = []

    def read_whole(self, answer: Mapping[str, Any]) -> AssistantMessage:
        """Read an answer that came at once."""
        self._read_thinking(answer, "message")
        return self._with_thinking(super().read_whole(answer))

    def add(self, piece: Mapping[str, Any]) -> str:
        """Read a piece of a stream, and return the text in it."""
        self._read_thinking(piece, "delta")
        return super().add(piece)

    def finish(self) -> AssistantMessage:
        """Return the answer, if the stream came to its end."""
        return self._with_thinking(super().finish())

    def _find_refusal(self, said: Mapping[str, Any]) -> Any:
        own = object_in(said.get("provider_specific_fields"), "what its provider adds")
        return said.get("refusal") or own.get("refusal")

    def _read_thinking(self, answer: Mapping[str, Any], where: str) -> None:
        for choice in list_in(answer.get("choices"), "its choices")[:1]:
            said = object_in(object_in(choice, "a choice").get(where), f"its {where}")
            for block in list_in(said.get(BLOCKS), "its thinking"):
                self._add_block(dict(object_in(block, "a block of its thinking")))

    def _add_block(self, block: dict[str, Any]) -> None:
        thought = text_in(block.get("thinking"), "a thought")
        last = self._thinking[-1] if self._thinking else {}
        if block.get("type") != last.get("type") or "thinking" not in last or last.get("signature"):
            self._thinking.append(block)
            return
        last["thinking"] += thought
        last["signature"] = block.get("signature") or ""

    def _with_thinking(self, message: AssistantMessage) -> AssistantMessage:
        if not self._thinking:
            return message
        said = [{"type": "text", "text": message.content}] if message.content else []
        return dataclasses.replace(message, content=[*self._thinking, *said])


def with_thinking_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the thinking in a message where LiteLLM looks for it."""
    content: Any = message.get("content")
    if message.get("role") != "assistant" or not is_parts(content):
        return message
    thinking = [part for part in content if part["type"] in THINKING]
    return {**message, BLOCKS: thinking} if thinking else message


FIRST_PAUSE = 0.5
_CONNECTION = re.compile(
    r"base|url|endpoint|host|key|(?:^|_)token$|secret|credential|proxy|client|header|http|ssl|cert"
    r"|fallback|model_list|provider|deployment|litellm|callback|router|region|project|organization"
    r"|^(?:api|aws|azure|vertex|extra)_",
    re.IGNORECASE,
)
"""Params by which LiteLLM is told where a model is, who asks, and what else to call."""

_PASSED_ON = ("extra_body", "extra_headers")
"""Params whose members go to the provider; it is for these that they are looked through."""

LONGEST_PAUSE = 60.0
"""How long to wait before asking again, in seconds."""


class LiteLLMModel(OpenAIModel):
    """A model by the name that LiteLLM knows it by, such as `anthropic/claude-sonnet-5`.

    The API key is `api_key`, or where LiteLLM looks for it. `timeout` is LiteLLM's; `max_retries`
    are made here, as it makes them for some providers only. Params are asked for each time, and
    may be any that LiteLLM knows. It answers for all providers in the words of OpenAI's chat API.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = 600,
        max_retries: int = 2,
        provider: str | None = None,
        **params: Any,
    ) -> None:
        self._litellm = _import_litellm()
        provider = provider or _find_provider(self._litellm, name, base_url)
        self.key_names = (f"{provider.upper()}_API_KEY",)
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            provider=provider,
            client=self._litellm,
            **params,
        )

    def _request_function(self, client: Any) -> Callable[..., Any]:  # noqa: ARG002 - there is but one
        return self._request_completion

    async def _request_completion(self, **arguments: Any) -> Any:
        tried = 0
        while True:
            handled = sys.exception()
            try:
                answer = await self._litellm.acompletion(**arguments)
            except Exception as error:  # noqa: BLE001 - LiteLLM speaks for many SDKs
                told = _plain_error(error, handled)
                if tried >= self._max_retries or not _is_transient(told):
                    raise told from told.__cause__
                pause = _pause_seconds(error, tried)
            else:
                return _LiteLLMStream(answer, self._sdk) if arguments.get("stream") else answer
            await asyncio.sleep(pause)
            tried += 1

    def _build_arguments(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        self._check_request(request)
        if "claude" in (request.model or self.name):
            messages = [with_thinking_blocks(message) for message in request.messages]
            request = dataclasses.replace(request, messages=messages)
        connection = {
            "api_key": self._api_key,
            "base_url": self._base_url,
            "timeout": self._timeout,
            "max_retries": 0,
        }
        given = {name: value for name, value in connection.items() if value is not None}
        return given | super()._build_arguments(request, stream=stream)

    def _check_request(self, request: ModelRequest) -> None:
        """Refuse what a hook put into a request that would send it, and the key, elsewhere."""
        name = request.model or self.name
        if name != self.name and can_redirect("litellm", name):
            told = f"a hook named the model {name[:60]!r}, whose name may lead elsewhere"
            raise ModelError(f"{told}. Name it without an address")
        address = local_address("litellm", name)
        if address is not None and name.partition("/")[0] != self.name.partition("/")[0]:
            told = f"a hook named the model {name[:60]!r}, which would be looked for at {address}"
            raise ModelError(f"{told}. If it may be, set {address_variable(name)}")
        for key, value in request.params.items():
            if _is_connection_param(key, value) and (
                key not in self.params or self.params[key] != value
            ):
                told = f"a hook put `{key[:60]}` into the params of the model {self.name!r}"
                remedy = "Give it where the model is made: hooks may change how it answers"
                raise ModelError(f"{told}, which may say where it is. {remedy}")

    def _open_draft(self, model: str) -> LiteLLMDraft:
        return LiteLLMDraft(model)


def _is_connection_param(key: str, value: Any) -> bool:
    """Return whether a param may set the address of a model or the credentials for it."""
    if key in _PASSED_ON and isinstance(value, Mapping):
        return any(_CONNECTION.search(name) or "auth" in name.lower() for name in value)
    return _CONNECTION.search(key) is not None


class _LiteLLMStream:
    """A stream of LiteLLM's, which is closed, ends and fails as those of SDKs do."""

    def __init__(self, stream: Any, sdk: Any) -> None:
        self._stream = stream
        self._begun = False
        self._refusals = RefusalsAsText(getattr(stream, "completion_stream", None))
        if isinstance(self._refusals.stream, sdk.AsyncStream):
            stream.completion_stream = self._refusals

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        handled = sys.exception()
        try:
            piece = await anext(self._stream)
        except StopAsyncIteration:
            if not self._has_ended():
                raise missing_end(begun=self._begun) from None
            raise
        except Exception as error:  # noqa: BLE001 - LiteLLM speaks for many SDKs
            told = _plain_error(error, handled)
            raise told from told.__cause__
        if self._refusals.refused:
            self._mark_refused(piece)
        deltas = (choice.delta for choice in piece.choices)
        self._begun |= any(delta.content or delta.tool_calls for delta in deltas)
        return piece

    def _has_ended(self) -> bool:
        """Return whether the provider gave a stop reason: LiteLLM makes one up where it did not."""
        names = ("received_finish_reason", "intermittent_finish_reason")
        given = [getattr(self._stream, name) for name in names if hasattr(self._stream, name)]
        return not given or any(given)

    def _mark_refused(self, piece: Any) -> None:
        """Set the stop reason to refusal, for which LiteLLM has another word."""
        for choice in piece.choices:
            if choice.finish_reason:
                choice.finish_reason = REFUSAL

    async def close(self) -> None:
        await self._stream.aclose()


def _import_litellm() -> Any:
    try:
        litellm = importlib.import_module("litellm")
    except ImportError:
        told = "LiteLLMModel needs LiteLLM, which no extra of Checkrail brings"
        raise MissingExtraError(f"{told}: pip install litellm") from None
    # Else it prints advice to standard output, which may be the user's terminal or data.
    litellm.suppress_debug_info = True  # type: ignore[attr-defined]
    return litellm


def _find_provider(litellm: Any, name: str, base_url: str | None) -> str:
    try:
        _, provider, *_ = litellm.get_llm_provider(name, api_base=base_url)
    except Exception:  # noqa: BLE001 - whatever is wrong with the name, a call will tell
        provider = name.partition("/")[0]
    return str(provider)


def _is_transient(error: Exception) -> bool:
    if isinstance(error, ModelError):
        return False
    return RequestTarget("", "", "").to_model_error(error).kind in ("timeout", "unreachable")


def _pause_seconds(error: Exception, tried: int) -> float:
    """Return the seconds to wait: what the provider requests, unless that is far too long."""
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError, TypeError):
            asked = float(headers.get(name)) * unit
            if 0 < asked <= LONGEST_PAUSE:
                return asked
    return min(FIRST_PAUSE * 2.0**tried, 8.0) * random.uniform(0.75, 1)  # noqa: S311 - no secret


def _plain_error(error: Exception, handled: BaseException | None) -> Exception:
    cause = unwrap_error(error, "litellm", handled)
    if isinstance(cause, ImportError):
        package = (cause.name or "").partition(".")[0]
        told = f"LiteLLM needs the package {package!r} for this, which is not installed"
        return ModelError(f"{told}: pip install {package}")
    return classify_error(cause)
