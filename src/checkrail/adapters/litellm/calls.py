"""One call of a model through a LiteLLM proxy, and the hooks that look at it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn

from checkrail.adapters.litellm.identity import ids_of
from checkrail.adapters.litellm.models import cost_of, provider_called, provider_of
from checkrail.adapters.litellm.requests import LOGGED, body_of, metadata_of
from checkrail.builtin.budget import HAS_PRICE
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.costs import may_have_price, priced
from checkrail.gateway.formats.base import Body, Format, Refusal, UnreadableError
from checkrail.gateway.judging import POINTS, BlockedTool, Judge
from checkrail.gateway.memory import Memory
from checkrail.gateway.opening import OpenGateway
from checkrail.gateway.verdicts import Refused

log = logging.getLogger("checkrail.litellm")

CANNOT_ASK_AGAIN = (
    "a hook wants the model to be asked again, and a callback of LiteLLM cannot do that. "
    "Put `checkrail gateway` in front of the proxy for hooks that retry"
)


class Hooks:
    """The hooks that hold in a proxy, and what they remember of its calls."""

    def __init__(self, opened: OpenGateway) -> None:
        self.registry = opened.registry
        self.settings = opened.settings
        self.memory = Memory()
        self.blocked_tool: BlockedTool = opened.settings.blocked_tool
        if self.blocked_tool == "continue":
            log.warning(
                "blocked_tool: continue is not possible in LiteLLM, where a model cannot be asked "
                "again: a text stands in place of a blocked call"
            )
            self.blocked_tool = "text"

    def any(self) -> bool:
        """Return whether hooks want to see calls at all."""
        return any(self.registry.has(point) for point in POINTS)

    def call(
        self, form: Format, data: Mapping[str, Any], key: Any, *, passes_through: bool = False
    ) -> Call:
        """Read a call. Raises `Refused`."""
        body = body_of(form, data)
        try:
            request = form.read(body)
        except UnreadableError as error:
            raise Refused(Refusal(400, str(error), "invalid_request")) from None
        request = dataclasses.replace(request, provider=provider_of(request.model))
        call = Call(self, form, body, request, ids_of(data, key))
        call.judge.note_metadata(metadata_of(data))
        call.passes_through = passes_through
        return call


class Call:
    """One call: what was asked, and what hooks say of it."""

    def __init__(
        self, hooks: Hooks, form: Format, body: Body, request: ModelRequest, ids: dict[str, Any]
    ) -> None:
        self._hooks = hooks
        self.format = form
        self.body = body
        self.request = request
        self.sent = request
        self.synthetic: AssistantMessage | None = None
        self.passes_through = False
        self.keep_alive = hooks.settings.keep_alive_seconds
        known = {**ids, "model": request.model, "provider": request.provider}
        scope = hooks.registry.scope(**known)
        scope.notes[HAS_PRICE] = self._has_price
        self.judge = Judge(scope, memory=hooks.memory, blocked_tool=hooks.blocked_tool)

    def _has_price(self, model: str) -> bool:
        if may_have_price(model, self._hooks.settings.prices):
            return True
        return cost_of({"input_tokens": 1000, "output_tokens": 1000}, model) is not None

    def note_provider(self, data: Mapping[str, Any]) -> None:
        """Let hooks on the answer see the provider that was called in the end."""
        if (provider := provider_called(data.get(LOGGED))) is not None:
            self.sent = dataclasses.replace(self.sent, provider=provider)

    def check(self) -> None:
        """Refuse to ask for an answer that goes past the hooks that have to see it."""
        if self.judge.holds() == "nothing":
            return
        must_see = "hooks of this proxy have to see the answer"
        if self.request.params.get("background"):
            told = f"{must_see}: ask without background"
            raise Refused(Refusal(400, told, "unsupported_parameter"))
        if self.passes_through:
            told = f"{must_see}, and see none of a pass-through route: ask {self.format.path}"
            raise Refused(Refusal(403, told, "not_supported"))

    def counted(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer with what it cost: by the prices of the file, or by LiteLLM's."""
        names = (request.model, message.model)
        usage = priced(message.usage, names, self._hooks.settings.prices)
        if usage and "cost" not in usage:
            cost = cost_of(usage, *names)
            usage = usage if cost is None else {**usage, "cost": cost}
        return message if usage is message.usage else dataclasses.replace(message, usage=usage)

    async def send(self, request: ModelRequest) -> NoReturn:
        """Refuse to ask again. Raises `Refused`."""
        del request
        raise Refused(Refusal(501, CANNOT_ASK_AGAIN, "not_supported"))

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that outlives the caller."""
        self._hooks.registry.hold(work)
