"""Where a LiteLLM proxy lets others have a say in a call, and what hooks say there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from checkrail.adapters.litellm.answers import judged
from checkrail.adapters.litellm.calls import Call, Hooks
from checkrail.adapters.litellm.refusals import failed_with, refused_before
from checkrail.adapters.litellm.requests import format_of, write_back
from checkrail.adapters.litellm.streams import streamed
from checkrail.adapters.litellm.synthetic import answering
from checkrail.gateway.formats.base import Format
from checkrail.gateway.opening import OpenGateway
from checkrail.gateway.verdicts import Refused

SEAMS = (
    "async_pre_call_hook",
    "async_post_call_success_hook",
    "async_post_call_streaming_iterator_hook",
    "async_post_call_failure_hook",
)

OPEN = 10_000
"""How many calls may wait for their answers; older ones are judged as if they had just come."""


class Seams:
    """Answers to what LiteLLM asks its callbacks, by its own names."""

    def __init__(self, opened: OpenGateway) -> None:
        super().__init__()
        self._opened = opened
        self._hooks = Hooks(opened)
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._watching: asyncio.Task[None] | None = None

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002 - LiteLLM passes it
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Show hooks a request before LiteLLM looks for who takes it."""
        self._watch()
        form = format_of(call_type)
        if form is None or not self._hooks.any():
            return None
        try:
            call = self._hooks.call(form, data, user_api_key_dict)
            call.check()
            asked = await call.judge.request(call.request)
        except Refused as refused:
            raise refused_before(form, refused.refusal) from None
        if asked.refusal is not None:
            raise refused_before(form, asked.refusal)
        self._keep(call)
        if asked.request is None:
            return answering(call, data, asked.message)
        call.sent = asked.request
        write_back(call, data, asked.request)
        return data

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

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,  # noqa: ARG002 - LiteLLM passes it
        user_api_key_dict: Any,  # noqa: ARG002 - likewise
        traceback_str: str | None = None,  # noqa: ARG002 - likewise
    ) -> None:
        """Forget a call that has no answer; one that a hook answers looks failed to LiteLLM."""
        own = request_data.get("litellm_call_id")
        call = self._calls.get(own) if isinstance(own, str) else None
        if call is not None and call.synthetic is None:
            del self._calls[call.id]

    def _keep(self, call: Call) -> None:
        self._calls[call.id] = call
        while len(self._calls) > OPEN:
            self._calls.popitem(last=False)

    def _found(self, data: dict[str, Any], key: Any) -> Call | None:
        """Find the call that is answered; one that nobody knows is judged all the same."""
        known = self._calls.pop(str(data.get("litellm_call_id")), None)
        if known is not None or not self._hooks.any():
            return known
        form = self._format(data, key)
        if form is None:
            return None
        try:
            return self._hooks.call(form, data, key)
        except Refused as refused:
            raise refused_before(form, refused.refusal) from None

    def _format(self, data: dict[str, Any], key: Any) -> Format | None:
        route = getattr(key, "request_route", None) or ""
        return format_of(str(data.get("call_type") or ""), str(route))

    def _watch(self) -> None:
        """Reload files that change, for as long as this loop runs."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._opened.watch())
