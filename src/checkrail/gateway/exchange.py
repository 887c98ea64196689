"""One call of a model through the gateway: the request, the hooks, the upstream, the answer."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.builtin.budget import HAS_PRICE
from checkrail.config.gateway import GatewayConfig
from checkrail.engine.points import HookPoint
from checkrail.engine.records import uuid7
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.costs import may_have_price, priced
from checkrail.gateway.formats.base import Body, Format, Refusal, UnreadableError
from checkrail.gateway.formats.json_bytes import is_json, read_json, read_object, write_json
from checkrail.gateway.headers import Headers, retry_after
from checkrail.gateway.judging import POINTS, Answered, Judge
from checkrail.gateway.memory import Memory
from checkrail.gateway.relaying import (
    Flow,
    begun,
    evasive,
    is_stream,
    relayed,
    unanswered,
    written,
)
from checkrail.gateway.streaming import Streamed
from checkrail.gateway.upstreams import (
    BodyFor,
    NoUpstreamError,
    Route,
    Sent,
    UpstreamError,
    Upstreams,
)
from checkrail.gateway.verdicts import Refused

log = logging.getLogger("checkrail.gateway")

JSON = (b"content-type", b"application/json")
STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]

ASKED = ("model", "messages", "tools", "params")
"""What of a request goes to the upstream."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came in, and the ids that it belongs to."""

    format: Format
    body: bytes
    headers: Headers = ()
    query: bytes = b""
    ids: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    to: str = ""
    """Where it goes, if that is not where the format has its answers."""

    @property
    def path(self) -> str:
        """Where it goes."""
        return self.to or self.format.path

    @property
    def aside(self) -> bool:
        """Whether there will be no answer to it."""
        return self.path in self.format.aside


@dataclass(frozen=True, slots=True)
class Reply:
    """What the caller gets; content that is a stream is read to its end, or closed."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes | Flow


class Gateway:
    """Answers calls of models by asking upstreams, with hooks on both ways."""

    def __init__(
        self, registry: HookRegistry, upstreams: Upstreams, settings: GatewayConfig
    ) -> None:
        self.registry = registry
        self.upstreams = upstreams
        self.settings = settings
        self.memory = Memory()

    async def answer(self, call: Call) -> Reply:
        """Return the reply to a call, whatever comes of it."""
        try:
            if any(self.registry.has(point) for point in POINTS):
                return await self._exchange(call).reply()
            return await self._forwarded(call)
        except Refused as refused:
            return _refusal_reply(call.format, refused.refusal)

    def _exchange(self, call: Call) -> Exchange:
        try:
            body = read_object(call.body, "the body of the request")
            request = call.format.read(body)
        except UnreadableError as error:
            raise Refused(Refusal(400, str(error), "invalid_request")) from None
        return Exchange(self, call, body, self._provided(call.format, request))

    def _provided(self, format: Format, request: ModelRequest) -> ModelRequest:
        """Return whose model is asked for; a hook may still ask for another one."""
        try:
            provider = self.upstreams.route(format.name, request.model).provider
        except NoUpstreamError:
            return request
        return dataclasses.replace(request, provider=provider)

    async def _forwarded(self, call: Call) -> Reply:
        """Pass on a call that no hook wants to see."""
        model = _model_in(call.body) if self._by_model(call.format) else None
        sent = await sending(self.route(call.format, model), call, call.body)
        return await passed_on(sent, call.format)

    def route(self, format: Format, model: str | None) -> Route:
        """Find who takes a model. Raises `Refused`."""
        try:
            return self.upstreams.route(format.name, model)
        except NoUpstreamError as error:
            raise Refused(unanswered(error)) from None

    def _by_model(self, format: Format) -> bool:
        """Return whether it depends on the model where a request goes."""
        of_format = (each for each in self.upstreams.configs if each.format == format.name)
        return any("*" not in each.models for each in of_format)


class Exchange:
    """One call whose request and answer hooks see."""

    def __init__(self, gateway: Gateway, call: Call, body: Body, request: ModelRequest) -> None:
        settings = gateway.settings
        self.gateway = gateway
        self.call = call
        self.format = call.format
        self.body = body
        self.request = request
        self.keep_alive = settings.keep_alive_seconds
        self.scope = self._scoped()
        self.judge = Judge(self.scope, memory=gateway.memory, blocked_tool=settings.blocked_tool)

    def _scoped(self) -> Scope:
        known = {"model": self.request.model, "provider": self.request.provider}
        ids = {"request_id": uuid7(), **known, **self.call.ids}
        scope = self.gateway.registry.scope(**ids)
        scope.notes[HAS_PRICE] = self._has_price
        return scope

    def _has_price(self, model: str) -> bool:
        return may_have_price(model, self.gateway.settings.prices)

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that outlives the caller."""
        self.gateway.registry.hold(work)

    async def reply(self) -> Reply:
        """Ask, and give the reply. Raises `Refused`."""
        self._check()
        asked = await self.judge.request(self.request)
        if asked.refusal is not None:
            raise Refused(asked.refusal)
        if asked.message is not None or asked.request is None:
            return self._synthetic(asked.message or AssistantMessage())
        try:
            if self.call.aside:
                sent, _ = await self._send(asked.request)
                return await passed_on(sent, self.format)
            return await self._asked(asked.request)
        except _AnsweredByHook as answered:
            return self._synthetic(answered.message)

    def _check(self) -> None:
        """Refuse to ask for an answer that is fetched later, past the hooks that have to see it."""
        if self.request.params.get("background") and self.judge.holds() != "nothing":
            told = "hooks of this gateway have to see the answer: ask without background"
            raise Refused(Refusal(400, told, "unsupported_parameter"))

    def _synthetic(self, message: AssistantMessage) -> Reply:
        if self.call.aside:
            return self._unsent()
        if self.request.stream:
            pieces = [*self.format.stream(message, self.request)]
            return Reply(200, [*STREAM], Flow(written(pieces)))
        return Reply(200, [JSON], write_json(self.format.answer(message, self.request)))

    def _unsent(self) -> Reply:
        """Answer a request aside that no model would see: it has no tokens."""
        if not self.call.path.endswith("tokens"):
            told = "a hook answers this request in the model's place, so there is nothing to send"
            raise Refused(Refusal(403, told, "hook_answers"))
        return Reply(200, [JSON], write_json({"input_tokens": 0}))

    async def _asked(self, request: ModelRequest) -> Reply:
        while True:
            sent, request = await self._send(request)
            if sent.status >= 300 or not self.judge.sees_answers():
                return await passed_on(sent, self.format)
            if is_stream(sent):
                stream = Streamed(self, sent, request)
                return Reply(sent.status, sent.headers, await begun(stream.content()))
            data = await read(sent)
            answer = self._read(data, request)
            if answer is None:
                return Reply(sent.status, sent.headers, data)
            body, message = answer
            answered = await self.judge.answer(request, message)
            if answered.again is None:
                after = _settled(answered)
                if after != message:
                    data = write_json(self.format.write_answer(body, message, after))
                return Reply(sent.status, sent.headers, data)
            request = answered.again

    def _read(self, data: bytes, request: ModelRequest) -> tuple[Body, AssistantMessage] | None:
        """Read an answer; None: it is odd, but nobody has to see it before the caller does."""
        try:
            body = read_object(data, "it")
            return body, self.counted(request, self.format.read_answer(body))
        except UnreadableError as error:
            if self.judge.holds() == "nothing" and is_json(data):
                log.warning("an answer is passed on unread: it is not as its API is: %s", error)
                return None
            told = f"the upstream's answer cannot be read: {error}"
            raise Refused(Refusal(502, told, "upstream_error")) from None

    async def send(self, request: ModelRequest) -> tuple[Sent, ModelRequest]:
        """Send a request in the middle of a stream: its answer, and what was sent.

        Raises `Refused`.
        """
        try:
            return await self._send(request)
        except _AnsweredByHook:
            told = "a hook answers for an upstream to fall back to, in the middle of a stream"
            raise Refused(Refusal(502, told, "upstream_error")) from None

    async def _send(self, request: ModelRequest) -> tuple[Sent, ModelRequest]:
        """Send a request to its upstreams until one answers: its answer, and what was sent.

        Hooks see the request again for each upstream of another provider. Raises `Refused`, and
        `_AnsweredByHook` if one of them answers.
        """
        route = self.gateway.route(self.format, request.model)
        sent_request = dataclasses.replace(request, provider=route.provider)

        async def body_for(provider: str) -> bytes | None:
            nonlocal sent_request
            shown = await self._request_for(provider, request)
            sent_request = shown or sent_request
            return None if shown is None else self._written(shown)

        sent = await sending(route, self.call, self._written(request), body_for)
        if (problem := evasive(sent)) is not None:
            await sent.close()
            raise Refused(Refusal(502, problem, "upstream_error"))
        return sent, sent_request

    async def _request_for(self, provider: str, request: ModelRequest) -> ModelRequest | None:
        """Return a request as hooks leave it for another provider; None: they keep it from there.

        Raises `_AnsweredByHook`.
        """
        if not self.scope.has(HookPoint.BEFORE_LLM_CALL):
            return dataclasses.replace(request, provider=provider)
        asked = await self.judge.request_for(provider)
        if asked.message is not None:
            raise _AnsweredByHook(asked.message)
        if asked.request is None or asked.request.model != request.model:
            why = asked.refusal.message if asked.refusal else "hooks chose another model"
            log.warning("nothing is sent to the provider %r to fall back to: %s", provider, why)
            return None
        return dataclasses.replace(asked.request, provider=provider)

    def _written(self, request: ModelRequest) -> bytes:
        """Write a request: the very bytes that came, unless there is something to change."""
        before = self.request
        same = all(getattr(request, name) == getattr(before, name) for name in ASKED)
        body = self.body if same else self.format.write(self.body, before, request)
        if before.stream and self.gateway.settings.ask_usage and self._counts():
            body = self.format.counting(body)
        return self.call.body if body is self.body else write_json(body)

    def _counts(self) -> bool:
        return self.scope.has(HookPoint.AFTER_LLM_CALL)

    def counted(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer to a request with what it cost."""
        names = (request.model, message.model)
        usage = priced(message.usage, names, self.gateway.settings.prices)
        return message if usage is message.usage else dataclasses.replace(message, usage=usage)


def _refusal_reply(format: Format, refusal: Refusal) -> Reply:
    wait = retry_after(refusal.retry_after)
    headers = [JSON] if wait is None else [JSON, (b"retry-after", wait.encode())]
    return Reply(refusal.status, headers, write_json(format.error(refusal)))


class _AnsweredByHook(Exception):
    """A hook on a request to another upstream gave the answer itself."""

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        super().__init__()


async def sending(route: Route, call: Call, body: bytes, body_for: BodyFor | None = None) -> Sent:
    """Send a request to who takes it. Raises `Refused`."""
    try:
        return await route.send(call.path, body, call.headers, call.query, body_for=body_for)
    except UpstreamError as error:
        raise Refused(unanswered(error)) from None


async def passed_on(sent: Sent, format: Format) -> Reply:
    """Return an answer as it is, unread. Raises `Refused`."""
    if is_stream(sent):
        return Reply(sent.status, sent.headers, Flow(relayed(sent, format), sent.close))
    return Reply(sent.status, sent.headers, await read(sent))


async def read(sent: Sent) -> bytes:
    """Read an answer that comes at once. Raises `Refused`."""
    try:
        return await sent.read()
    except UpstreamError as error:
        raise Refused(unanswered(error)) from None
    finally:
        await sent.close()


def _settled(answered: Answered) -> AssistantMessage:
    if answered.refusal is not None or answered.message is None:
        raise Refused(answered.refusal or Refusal(500, "there is no answer"))
    return answered.message


def _model_in(body: bytes) -> str | None:
    """Find the model that a request names; one that cannot be read is the upstream's to refuse."""
    try:
        found = read_json(body, "the body of the request")
    except UnreadableError:
        return None
    model = found.get("model") if isinstance(found, dict) else None
    return model if isinstance(model, str) else None
