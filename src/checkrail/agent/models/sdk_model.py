"""A model behind its provider's own SDK: what is the same for all of them."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from checkrail.agent.models.model import ModelError
from checkrail.agent.models.sdk_errors import RequestTarget
from checkrail.engine.frozen import freeze
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.answer_errors import InvalidAnswer, shorten_line

CONNECT_TIMEOUT = 10.0
"""How long a connection may take to be there, in seconds."""

NO_KEY = "none"
"""What is sent as the key to an endpoint of somebody's own, which may not want one."""

SHORTEST_SECRET = 8
"""What is shorter is no secret, and would be found in the middle of words."""


class Draft(Protocol):
    """An answer on its way: `usage` is what is known of it at any moment."""

    usage: dict[str, Any] | None

    def read_whole(self, answer: Mapping[str, Any]) -> AssistantMessage:
        """Read an answer that came at once."""

    def add(self, piece: Mapping[str, Any]) -> str:
        """Read a piece of a stream, and return the text in it."""

    def finish(self) -> AssistantMessage:
        """Return the answer, or raise `InvalidAnswer` if the stream ended before it did."""


class SdkModel(ABC):
    """Calls a model by a client of its SDK, opened for each event loop and closed when it ends.

    A client of the user's is used as it is, and stays open.
    """

    key_names: tuple[str, ...]
    """The environment variables that an API key may be in."""

    url_name: str
    """The environment variable that a base URL may be in."""

    def __init__(
        self,
        name: str,
        sdk: Any,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float | None,
        max_retries: int,
        provider: str,
        client: Any,
        params: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.provider = provider
        # Headers may hold keys: they are sent, but are nothing for hooks and records to see.
        self._headers = dict(params.get("extra_headers") or {})
        shown = {key: value for key, value in params.items() if key != "extra_headers"}
        self.params: Mapping[str, Any] = freeze(shown)
        self._sdk = sdk
        self._base_url = base_url
        self._api_key = api_key
        self._timeout = timeout
        self._max_retries = max_retries
        self._given = client
        self._clients = LoopClients(self._make_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the whole answer, or raise `ModelError`."""
        draft = self._open_draft(request.model or self.name)
        with self._convert_errors(request, draft):
            return draft.read_whole(_to_plain_data(await self._send_request(request, stream=False)))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[str | AssistantMessage]:
        """Yield the answer's text as it comes, and at last the whole answer."""
        draft = self._open_draft(request.model or self.name)
        with self._convert_errors(request, draft):
            pieces = await self._send_request(request, stream=True)
            try:
                async for piece in pieces:
                    if text := draft.add(_to_plain_data(piece)):
                        yield text
            finally:
                await pieces.close()
            yield draft.finish()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones."""
        await self._clients.aclose()

    @abstractmethod
    def _make_client(self) -> Any:
        """Build a client, or raise `ModelError` if there is no API key for it."""

    @abstractmethod
    def _request_function(self, client: Any) -> Callable[..., Any]:
        """Return the function of the client that calls the model."""

    @abstractmethod
    def _build_arguments(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """Return the arguments of that function for a request."""

    @abstractmethod
    def _open_draft(self, model: str) -> Draft:
        """Begin to read an answer."""

    def _client_options(self) -> dict[str, Any]:
        connect = min(self._timeout or CONNECT_TIMEOUT, CONNECT_TIMEOUT)
        timeout = self._sdk.Timeout(self._timeout, connect=connect)
        return {
            "base_url": self._find_url(),
            "timeout": timeout,
            "max_retries": self._max_retries,
            # The SDK's own would be closed by whichever loop runs when it is forgotten.
            "http_client": self._sdk.DefaultAsyncHttpxClient(timeout=timeout),
        }

    def _find_url(self) -> str | None:
        return self._base_url or os.environ.get(self.url_name) or None

    def _find_key(self) -> str | None:
        # A key read from a file often ends with a line break, which no header may have.
        return (self._api_key or os.environ.get(self.key_names[0]) or "").strip() or None

    def _missing_key(self) -> ModelError:
        return ModelError(
            f"there is no API key for {self.provider} model {self.name!r}: "
            f"set {self.key_names[0]} in the environment, or give `api_key`"
        )

    async def _send_request(self, request: ModelRequest, *, stream: bool) -> Any:
        create = self._request_function(self._given or await self._clients.current_client())
        arguments = self._build_arguments(request, stream=stream) | {"stream": stream}
        if self._headers:
            changed = arguments.get("extra_headers") or {}
            arguments["extra_headers"] = self._headers | changed
        return await create(**_fit_arguments(create, arguments))

    @contextmanager
    def _convert_errors(self, request: ModelRequest, draft: Draft) -> Iterator[None]:
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - an SDK raises of itself, of httpx and of json
            key = f"`api_key`, or {self.key_names[0]} in the environment"
            asked = RequestTarget(
                self.provider, request.model or self.name, key, self._find_secrets()
            )
            # The SDK's error may name the key, and so may the errors beneath it.
            raise asked.to_model_error(error, draft.usage) from None
        except asyncio.CancelledError as error:
            error.usage = draft.usage  # type: ignore[attr-defined]
            raise

    def _find_secrets(self) -> tuple[str, ...]:
        given = (getattr(self._given, name, None) for name in ("api_key", "auth_token"))
        named = (os.environ.get(name) for name in self.key_names)
        found = (self._find_key(), *given, *named, *self._headers.values())
        return tuple(key for key in found if isinstance(key, str) and len(key) >= SHORTEST_SECRET)


def _to_plain_data(answer: Any) -> dict[str, Any]:
    """Return what came as plain data: an SDK types it, but does not check it."""
    data = answer.to_dict(warnings=False) if hasattr(answer, "to_dict") else answer
    if isinstance(data, dict):
        return data
    raise InvalidAnswer(f"it is no JSON object: {shorten_line(str(data)) or 'it is empty'}")


def _fit_arguments(create: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Move what the SDK does not know into the body: the endpoint may know it."""
    known = _parameter_names(getattr(create, "__func__", create))
    unknown = {name: value for name, value in arguments.items() if name not in known}
    if not unknown or "**" in known:
        return arguments
    accepted = {name: value for name, value in arguments.items() if name in known}
    return accepted | {"extra_body": unknown | (arguments.get("extra_body") or {})}


@lru_cache(maxsize=16)
def _parameter_names(create: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(create).parameters.values()
    return frozenset("**" if one.kind is one.VAR_KEYWORD else one.name for one in parameters)


class _OpenClient(NamedTuple):
    client: Any
    holder: AsyncGenerator[None]
    keeper: weakref.finalize[Any, Any]


class LoopClients:
    """Opens a client when an event loop first needs one, and closes it when that loop ends.

    A client is held by an asynchronous generator: `asyncio.run` ends those of its loop before it
    closes it, and a loop also ends those that nobody holds any longer, so a client is closed in its
    own loop in either case.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, _OpenClient] = {}

    async def current_client(self) -> Any:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        known = self._open.get(loop)
        if known is not None and not known.client.is_closed():
            return known.client
        for other in [*self._open]:
            if other is loop or other.is_closed():
                self._pop_client(other)
        client = self._make()
        self._open[loop] = opened = self._wrap_client(client)
        await anext(opened.holder)
        return client

    async def aclose(self) -> None:
        """Close the client of the running loop; the next `current_client` opens another."""
        loop = asyncio.get_running_loop()
        if loop in self._open:
            client, holder, _ = self._pop_client(loop)
            await client.close()
            with suppress(RuntimeError):  # a loop that is ending may be at it already
                await holder.aclose()

    def _wrap_client(self, client: Any) -> _OpenClient:
        holder = _hold_client(client)
        # Collected in one go with this, connections would complain that nobody had closed them.
        keeper = weakref.finalize(self, _release_holder, holder)
        keeper.atexit = False
        return _OpenClient(client, holder, keeper)

    def _pop_client(self, loop: asyncio.AbstractEventLoop) -> _OpenClient:
        opened = self._open.pop(loop)
        opened.keeper.detach()
        return opened


async def _hold_client(client: Any) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.close()


def _release_holder(holder: AsyncGenerator[None]) -> None:
    """Do nothing: the event loop closes a generator that has no reference left."""
