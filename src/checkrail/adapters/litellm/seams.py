"""Where a LiteLLM proxy lets others have a say in a call, and what hooks say there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from checkrail.adapters.litellm.answers import judged
from checkrail.adapters.litellm.calls import Call, Hooks
from checkrail.adapters.litellm.refusals import failed_with, not_here, refused_before
from checkrail.adapters.litellm.requests import format_at, write_back
from checkrail.adapters.litellm.streams import streamed
from checkrail.adapters.litellm.synthetic import answering
from checkrail.adapters.litellm.waiting import Waiting
from checkrail.adapters.litellm.ways import (
    NOT_SEEN,
    PASSED_ON,
    format_in,
    is_relayed,
    past_hooks,
    unasked,
    unseen,
)
from checkrail.gateway.formats.base import Format
from checkrail.gateway.opening import OpenGateway
from checkrail.gateway.verdicts import Refused

SEAMS = (
    "async_pre_call_hook",
    "async_pre_call_deployment_hook",
    "async_post_call_success_hook",
    "async_post_call_streaming_iterator_hook",
)


class Seams:
    """Answers to what LiteLLM asks its callbacks, by its own names."""

    def __init__(self, opened: OpenGateway) -> None:
        super().__init__()
        self._opened = opened
        self._hooks = Hooks(opened)
        self._waiting = Waiting()
        self._watching: asyncio.Task[None] | None = None
        with contextlib.suppress(RuntimeError):  # without a loop, the first call does it
            self._watch()

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002 - LiteLLM passes it
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Show hooks a request before LiteLLM looks for who takes it."""
        self._watch()
        route = _route(user_api_key_dict)
        form = format_in(call_type, route, data)
        told = self._refused_way(call_type, route, form)
        if told is not None:
            raise not_here(told)
        if form is None or not self._hooks.any():
            return None
        passes_through = call_type == PASSED_ON
        try:
            call = self._hooks.call(form, data, user_api_key_dict, passes_through=passes_through)
            return await self._asked(call, data)
        except Refused as refused:
            raise refused_before(form, refused.refusal, plain=passes_through) from None

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> None:
        """Refuse what came by a way on which hooks were not asked before."""
        if self._hooks.any() and (form := unasked(kwargs, call_type)) is not None:
            raise not_here(unseen(form))
        if is_relayed(call_type) and not self._hooks.settings.pass_through:
            raise not_here(NOT_SEEN)

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Show hooks an answer that came at once; what they leave of it is what is sent."""
        call = self._found(data, user_api_key_dict)
        if call is None:
            return None
        if call.synthetic is not None:
            return call.format.answer(call.synthetic, call.request)
        if not call.judge.sees_answers():
            return None
        try:
            return await judged(call, response)
        except Refused as refused:
            raise refused_before(call.format, refused.refusal) from None

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Show hooks an answer as it is streamed; what has to wait for them is held."""
        call = self._found(request_data, user_api_key_dict)
        if call is None or not (call.judge.sees_answers() or call.synthetic is not None):
            async for chunk in response:
                yield chunk
            return
        try:
            async with aclosing(streamed(call, response)) as pieces:
                async for piece in pieces:
                    yield piece
        except Refused as refused:
            instead = failed_with(call.format, refused.refusal)
            if isinstance(instead, Exception):
                raise instead from None
            yield instead

    def _refused_way(self, call_type: str, route: str, form: Format | None) -> str | None:
        """Return why a request is refused for the way that it came; None: it is not."""
        if self._hooks.any() and (told := past_hooks(call_type, route)) is not None:
            return told
        return NOT_SEEN if form is None and not self._hooks.settings.pass_through else None

    async def _asked(self, call: Call, data: dict[str, Any]) -> dict[str, Any]:
        """Show a request to hooks: what LiteLLM is to do with it. Raises `Refused`."""
        call.check()
        asked = await call.judge.request(call.request)
        if asked.refusal is not None:
            raise Refused(asked.refusal)
        self._waiting.keep(call, data)
        if asked.request is None:
            return answering(call, data, asked.message, self._waiting)
        call.sent = asked.request
        write_back(call, data, asked.request)
        return data

    def _found(self, data: dict[str, Any], key: Any) -> Call | None:
        """Find the call that is answered; one that nobody knows is judged all the same."""
        known = self._waiting.take(data)
        if known is not None:
            known.note_provider(data)
        if known is not None or not self._hooks.any():
            return known
        form = format_at(_route(key))
        if form is None:
            return None
        try:
            return self._hooks.call(form, data, key)
        except Refused as refused:
            raise refused_before(form, refused.refusal) from None

    def _watch(self) -> None:
        """Reload files that change, for as long as this loop runs. Raises if none does."""
        loop = asyncio.get_running_loop()
        task = self._watching
        if task is None or task.done() or task.get_loop() is not loop:
            self._watching = loop.create_task(self._opened.watch())


def _route(key: Any) -> str:
    return str(getattr(key, "request_route", None) or "")
