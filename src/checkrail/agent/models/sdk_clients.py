"""Clients of an SDK: one for each event loop, since their connections belong to one."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, NamedTuple


class _Open(NamedTuple):
    client: Any
    holder: AsyncGenerator[None]
    keeper: weakref.finalize[Any, Any]


class LoopClients:
    """Makes a client when a loop first needs one, and closes it when that loop ends.

    A client is held by an asynchronous generator: `asyncio.run` ends those of its loop before it
    closes it, and a loop also ends those that nobody holds any longer, so a client is closed in its
    own loop in either case.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, _Open] = {}

    async def get(self) -> Any:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        known = self._open.get(loop)
        if known is not None and not known.client.is_closed():
            return known.client
        for other in [*self._open]:
            if other is loop or other.is_closed():
                self._forget(other)
        client = self._make()
        self._open[loop] = opened = self._held(client)
        await anext(opened.holder)
        return client

    async def aclose(self) -> None:
        """Close the client of the running loop; the next `get` makes another."""
        loop = asyncio.get_running_loop()
        if loop in self._open:
            client, holder, _ = self._forget(loop)
            await client.close()
            with suppress(RuntimeError):  # a loop that is ending may be at it already
                await holder.aclose()

    def _held(self, client: Any) -> _Open:
        holder = _hold(client)
        # Collected in one go with this, connections would complain that nobody had closed them.
        keeper = weakref.finalize(self, _let_go, holder)
        keeper.atexit = False
        return _Open(client, holder, keeper)

    def _forget(self, loop: asyncio.AbstractEventLoop) -> _Open:
        opened = self._open.pop(loop)
        opened.keeper.detach()
        return opened


async def _hold(client: Any) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.close()


def _let_go(holder: AsyncGenerator[None]) -> None:
    """Do nothing: the loop ends a generator that is held no longer."""
