"""The SDK's client beneath a LangChain chat model of OpenAI's: one for each event loop.

`langchain_openai` shares one HTTP client among all chat models with the same base URL, in all event
loops. Its connections belong to the loop that opened them, and fail or hang in another.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from checkrail.agent.models.openai_refusals import CompletionsWithRefusals
from checkrail.agent.models.sdk_clients import LoopClients

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


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
        client = await self._clients.get() if self._shares else self._root
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
