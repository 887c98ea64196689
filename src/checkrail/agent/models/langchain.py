"""LangChain's chat models as models of the loop."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from checkrail.agent.models.langchain_messages import (
    check_stream_end,
    langchain_messages,
    read_answer,
    read_text,
    usage_of,
)
from checkrail.agent.models.model import ModelError
from checkrail.agent.models.openai_refusals import CompletionsWithRefusals
from checkrail.agent.models.sdk_errors import RequestTarget, classify_error
from checkrail.agent.models.sdk_model import SHORTEST_SECRET, LoopClients
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.extras import needs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable


class LangChainClients:
    """Gives a chat model a client of the running event loop, where its integration shares one."""

    def __init__(self, chat_model: BaseChatModel) -> None:
        self._root: Any = getattr(chat_model, "root_async_client", None)
        self._proxy: str | None = getattr(chat_model, "openai_proxy", None)
        self._clients = LoopClients(self._make_client)
        self._shares = _shares_client(chat_model)

    async def localize(self, chat_model: BaseChatModel) -> BaseChatModel:
        """Return a copy of the chat model that works in the running loop, or the model itself."""
        if self._root is None:
            return chat_model
        client = await self._clients.current_client() if self._shares else self._root
        completions = CompletionsWithRefusals(client.chat.completions)
        return chat_model.model_copy(
            update={"root_async_client": client, "async_client": completions},
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    def _make_client(self) -> Any:
        openai = importlib.import_module("openai")
        http = openai.DefaultAsyncHttpxClient(timeout=self._root.timeout, proxy=self._proxy)
        return self._root.with_options(http_client=http)


def _shares_client(chat_model: BaseChatModel) -> bool:
    """Return whether the HTTP client is the integration's own, and not one that a user gave."""
    if getattr(chat_model, "http_socket_options", None):
        return False  # they are part of the integration's HTTP client
    given = getattr(chat_model, "http_async_client", None)
    return given is None or bool(getattr(chat_model, "openai_proxy", None))


MODEL_FIELDS = ("model", "model_name", "model_id")
"""Where chat models keep the name of their model."""

TOOL_PARAMS = ("tool_choice", "parallel_tool_calls", "strict")
"""What is said with the tools: every integration writes it in its provider's way."""


class LangChainModel:
    """A LangChain chat model as a model of the loop; `params` are bound to each call.

    A request may name another model of the same provider: it goes to a copy of the chat model with
    that name. Retries, timeouts, callbacks and tracing are the chat model's own. Chat models of
    OpenAI's have connections for each event loop, which `aclose` closes.
    """

    def __init__(
        self,
        chat_model: BaseChatModel,
        *,
        name: str | None = None,
        provider: str | None = None,
        **params: Any,
    ) -> None:
        with needs("langchain-core", "LangChainModel", "langchain"):
            from langchain_core.language_models import BaseChatModel
        if not isinstance(chat_model, BaseChatModel):
            raise TypeError(
                f"LangChainModel takes a LangChain chat model, not {type(chat_model).__name__}: "
                "give it the chat model itself, and as keywords what you would bind to it",
            )
        self.chat_model = chat_model
        field = model_field(chat_model)
        self.name = name or (getattr(chat_model, field) if field else type(chat_model).__name__)
        self.provider = provider or provider_of(chat_model)
        self.params: Mapping[str, Any] = freeze(params)
        self._clients = LangChainClients(chat_model)

    def __repr__(self) -> str:
        return f"LangChainModel({self.name!r})"

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the whole answer, or raise `ModelError`."""
        bound, messages = await self._prepare_call(request)
        with self._convert_errors(request, []):
            return read_answer([await bound.ainvoke(messages)], self._request_target(request).model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[str | AssistantMessage]:
        """Yield the answer's text as it comes, and at last the whole answer."""
        bound, messages = await self._prepare_call(request)
        chunks: list[AIMessage] = []
        with self._convert_errors(request, chunks):
            async with aclosing(bound.astream(messages)) as pieces:  # type: ignore[type-var]
                while (chunk := await _next_chunk(pieces)) is not None:
                    chunks.append(chunk)
                    if text := read_text(chunk):
                        yield text
            check_stream_end(chunks)
            yield read_answer(chunks, self._request_target(request).model)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones."""
        await self._clients.aclose()

    async def _prepare_call(
        self, request: ModelRequest
    ) -> tuple[Runnable[Any, AIMessage], list[Any]]:
        try:
            chat_model = await self._clients.localize(self._select_chat_model(request))
            return self._bind_request(chat_model, request), langchain_messages(request.messages)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - an integration may raise anything
            raise self._request_target(request).to_model_error(error) from None

    def _bind_request(
        self, chat_model: BaseChatModel, request: ModelRequest
    ) -> Runnable[Any, AIMessage]:
        bound: Any = _with_usage(chat_model)
        tools: list[Any] = thaw(request.tools)
        params = _adapt_params(bound, thaw(request.params), tools)
        with_tools = {name: params.pop(name) for name in TOOL_PARAMS if name in params}
        if tools:
            try:
                bound = bound.bind_tools(tools, **with_tools)
            except NotImplementedError:
                told = f"{type(self.chat_model).__name__} takes no tools: it has no bind_tools"
                raise ModelError(f"{told}. Use another chat model, or no tools") from None
        return bound.bind(**params) if params else bound  # type: ignore[no-any-return]

    def _select_chat_model(self, request: ModelRequest) -> BaseChatModel:
        """Return the chat model that a request names, which a hook may have changed."""
        wanted = request.model
        if wanted in (None, "", self.name):
            return self.chat_model
        field = model_field(self.chat_model)
        if field is None or getattr(self.chat_model, "deployment_name", None):
            raise ModelError(
                f"model {wanted!r} was asked for, but {type(self.chat_model).__name__} is bound to "
                f"{self.name!r}: leave the request's model as it is, or block the request",
            )
        return self.chat_model.model_copy(update={field: wanted})

    def _request_target(self, request: ModelRequest) -> RequestTarget:
        secrets = tuple(_find_secrets(self.chat_model))
        key = "the one that the chat model was made with"
        return RequestTarget(self.provider or "LangChain", request.model or self.name, key, secrets)

    @contextmanager
    def _convert_errors(self, request: ModelRequest, chunks: Sequence[AIMessage]) -> Iterator[None]:
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - a provider's SDK may raise anything
            # The provider's error may name the key, and so may the errors beneath it.
            raise self._request_target(request).to_model_error(
                classify_error(error), usage_of(chunks)
            ) from None


async def _next_chunk(pieces: AsyncIterator[AIMessage]) -> AIMessage | None:
    """Return the next chunk of a stream, None at its end.

    Raise `CancelledError` if the stream swallowed a cancellation: `langchain_openai` waits for each
    chunk with `asyncio.wait_for`, which does so before Python 3.12 if a chunk comes just then.
    """
    task = asyncio.current_task()
    cancels = 0 if task is None else task.cancelling()
    chunk = await anext(pieces, None)
    if task is not None and task.cancelling() > cancels:
        raise asyncio.CancelledError
    return chunk


def model_field(chat_model: BaseChatModel) -> str | None:
    """Find the field that names the model of a chat model."""
    fields = (name for name in MODEL_FIELDS if name in type(chat_model).model_fields)
    return next((name for name in fields if isinstance(getattr(chat_model, name), str)), None)


def provider_of(chat_model: BaseChatModel) -> str | None:
    """Return whose model it is."""
    # LangChain has integrations override this, for tracing: the provider is named nowhere else.
    return chat_model._get_ls_params().get("ls_provider")  # noqa: SLF001


def _with_usage(chat_model: BaseChatModel) -> BaseChatModel:
    """Return the chat model with usage in streams, unless its author has decided on that."""
    if getattr(chat_model, "stream_usage", False) is None:
        return chat_model.model_copy(update={"stream_usage": True})
    return chat_model


def _adapt_params(chat_model: Any, params: dict[str, Any], tools: list[Any]) -> dict[str, Any]:
    """Move a response format past OpenAI's SDK, which would want all tools to be strict."""
    wanted = params.get("response_format")
    by_responses = getattr(chat_model, "_use_responses_api", None)
    if by_responses is None or not isinstance(wanted, dict):
        return params
    if by_responses(params | ({"tools": tools} if tools else {})):
        return params
    own, given = getattr(chat_model, "extra_body", None), params.get("extra_body")
    body = (own or {}) | (given or {}) | {"response_format": params.pop("response_format")}
    return params | {"extra_body": body}


def _find_secrets(chat_model: BaseChatModel) -> Iterable[str]:
    for value in vars(chat_model).values():
        secret = value.get_secret_value() if hasattr(value, "get_secret_value") else None
        if isinstance(secret, str) and len(secret) >= SHORTEST_SECRET:
            yield secret
