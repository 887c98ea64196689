"""One call of a model through the gateway: the request, the hooks, the upstream, the answer."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.builtin.budget import HAS_PRICE
from checkrail.config.gateway import GatewayConfig, PriceConfig
from checkrail.engine.event import Context
from checkrail.engine.points import HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.call_tracking import AskSource, CallSink, OpenCall, tally_decision
from checkrail.gateway.costs import add_answer_cost, can_have_price
from checkrail.gateway.headers import Headers, refusal_headers
from checkrail.gateway.hidden_rounds import HiddenRounds
from checkrail.gateway.hooks import POINTS, AnswerOutcome, GatewayHooks
from checkrail.gateway.identity import Identity
from checkrail.gateway.relay import (
    HeldReply,
    ReplyStream,
    build_upstream_refusal,
    find_evasion,
    is_stream,
    iter_pieces,
    relay_stream,
    start_stream,
)
from checkrail.gateway.stream import StreamedReply
from checkrail.gateway.tool_memory import ToolMemory
from checkrail.gateway.upstreams import (
    BodyFor,
    NoUpstreamError,
    Route,
    UpstreamError,
    UpstreamResponse,
    Upstreams,
)
from checkrail.gateway.usage_reader import UsageReader, read_answer_usage
from checkrail.gateway.verdicts import FINAL, Refused
from checkrail.llm.json_bytes import is_json, read_json, read_object, write_json
from checkrail.llm.restoration import RESTORER, Restorer
from checkrail.llm.secret_vault import SecretVault, SecretVaults
from checkrail.llm.wire_format import Body, Format, Refusal, UnreadableError
from checkrail.times import uuid7
from checkrail.turns import run_in_line

log = logging.getLogger("checkrail.gateway")

JSON = (b"content-type", b"application/json")
NOT_CACHED = (b"cache-control", b"no-cache")

ASKED = ("model", "messages", "tools", "params")
"""What of a request goes to the upstream."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request as it came in, and the ids that it belongs to."""

    format: Format
    body: bytes
    headers: Headers = ()
    query: bytes = b""
    ids: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    to: str = ""
    """Where it goes, if that is not where the format has its answers."""
    opened: OpenCall = dataclasses.field(default_factory=OpenCall)

    @property
    def target_path(self) -> str:
        """The path that it is sent to."""
        return self.to or self.format.path

    @property
    def has_no_answer(self) -> bool:
        """Whether no model answers it, as when tokens are counted."""
        return self.target_path in self.format.aside


@dataclass(frozen=True, slots=True)
class Reply:
    """What the caller gets; content that is a stream is read to its end, or closed."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes | ReplyStream


class Gateway:
    """Answers calls of models by way of upstreams, with hooks on both ways."""

    def __init__(
        self,
        registry: HookRegistry,
        upstreams: Upstreams,
        settings: GatewayConfig,
        vaults: SecretVaults | None = None,
        *,
        call_sinks: Sequence[CallSink] = (),
        ask_source: AskSource | None = None,
    ) -> None:
        self.registry = registry
        self.vaults = vaults or SecretVaults(functools.partial(os.urandom, 32))
        self.upstreams = upstreams
        self.settings = settings
        self.memory = ToolMemory()
        self.hidden = HiddenRounds()
        self.ask_source = ask_source
        self._call_sinks = call_sinks
        self._keeps_calls = any(not getattr(sink, "only_counts", False) for sink in call_sinks)
        if call_sinks:
            registry.sinks = (*registry.sinks, tally_decision)

    def open_call(self, format: Format, path: str) -> OpenCall:
        """Open a call, of which a record is kept if anybody keeps them."""
        return OpenCall(format.name, path, is_kept=self._keeps_calls)

    def close_call(self, opened: OpenCall, status: int | None) -> None:
        """Hand the record of a call that is over to whoever wants it."""
        opened.end()
        if self._call_sinks:
            try:
                record = opened.close(status)
                for sink in self._call_sinks:
                    sink(record)
            except Exception:
                log.exception("a call was not recorded")

    def has_hooks(self) -> bool:
        """Return whether any hook sees calls of models."""
        return any(self.registry.has(point) for point in POINTS)

    async def answer(self, call: ModelCall) -> Reply:
        """Return the reply to a call; a refusal is a reply too."""
        try:
            if self.has_hooks():
                opened = await run_in_line(lambda: self._open_exchange(call), len(call.body))
                return await opened.reply()
            return await self._forward_call(call)
        except Refused as refused:
            call.opened.note_refused(refused.refusal)
            return _refusal_reply(call.format, refused.refusal)
        finally:
            if isinstance(call.ids, Identity):
                call.ids.drop_body()  # it may be large, and the reply may be a long stream

    def _open_exchange(self, call: ModelCall) -> Exchange:
        try:
            body = read_object(call.body, "the body of the request")
            request = call.format.read_request(body)
        except UnreadableError as error:
            raise Refused(Refusal(400, str(error), "invalid_request")) from None
        if isinstance(call.ids, Identity):
            call.ids.use_parsed(body)
        call.opened.note_request(request.model, streamed=request.stream)
        return Exchange(self, call, body, self._add_provider(call.format, request))

    def _add_provider(self, format: Format, request: ModelRequest) -> ModelRequest:
        """Return a request with the provider of its model; a hook may still choose another one."""
        try:
            provider = self.upstreams.find_route(format.name, request.model).provider
        except NoUpstreamError:
            return request
        return dataclasses.replace(request, provider=provider)

    async def _forward_call(self, call: ModelCall) -> Reply:
        """Pass on a call that no hook wants to see."""
        model = call.format.model
        if call.opened.is_kept or (model is None and self._routes_by_model(call.format)):
            body = await run_in_line(lambda: _read_body(call.body), len(call.body))
            model = model or _find_model(body)
            streamed = call.format.is_streamed(body)
            call.opened.note_request(model, streamed=streamed)
            if isinstance(call.ids, Identity):
                call.ids.use_parsed(body)
        sent = await send_to_route(self.find_route(call.format, model), call, call.body)
        return await pass_on_response(sent, call, self.settings.prices)

    def find_route(self, format: Format, model: str | None) -> Route:
        """Return the upstreams that take a model. Raises `Refused`."""
        try:
            return self.upstreams.find_route(format.name, model)
        except NoUpstreamError as error:
            raise Refused(build_upstream_refusal(error)) from None

    def _routes_by_model(self, format: Format) -> bool:
        """Return whether it depends on the model where a request goes."""
        of_format = (each for each in self.upstreams.configs if each.format == format.name)
        return any("*" not in each.models for each in of_format)


class Exchange:
    """One call whose request and answer hooks see."""

    def __init__(
        self, gateway: Gateway, call: ModelCall, body: Body, request: ModelRequest
    ) -> None:
        settings = gateway.settings
        self.gateway = gateway
        self.call = call
        self.size = len(call.body)
        self.format = call.format
        self.body = body
        self.request = request
        self.keep_alive = settings.keep_alive_seconds
        self.scope = self._build_scope()
        self.judge = GatewayHooks(
            self.scope,
            memory=gateway.memory,
            blocked_tool=settings.blocked_tool,
            ask_handler=gateway.ask_source and gateway.ask_source(call.opened),
            hidden=gateway.hidden,
            keeps_items=self.format.name == "responses"
            and self.request.params.get("store") is not False,
        )

    def _build_scope(self) -> Scope:
        known = {"model": self.request.model, "provider": self.request.provider}
        ids = {"request_id": uuid7(), **known, **self.call.ids}
        scope = self.gateway.registry.scope(**ids)
        scope.notes[HAS_PRICE] = self._has_price
        scope.notes[RESTORER] = Restorer(functools.partial(self._open_vault, scope.context))
        return scope

    def _open_vault(self, context: Context) -> SecretVault:
        """Return the secrets of the caller, in this session."""
        user = None if context.user is None else context.user.identity
        return self.gateway.vaults.open([context.metadata.get("api_key"), user, context.session_id])

    def _has_price(self, model: str) -> bool:
        return can_have_price(model, self.gateway.settings.prices)

    def note_refused(self, refusal: Refusal) -> None:
        """Note why the caller gets no whole answer."""
        self.call.opened.note_refused(refusal)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that outlives the caller."""
        self.gateway.registry.spawn(work)

    async def reply(self) -> Reply:
        """Send the request, and return the reply. Raises `Refused`.

        A stream begins with signs of life if people are asked about the request for long.
        """
        if self.gateway.ask_source is None or not self.request.stream:
            return await self._send_and_reply()
        held = HeldReply(self._send_and_reply(), self.call.opened, self.format, self.keep_alive)
        reply = await held.wait()
        if reply is not None:
            return reply
        kind = (b"content-type", self.format.stream_type)
        return Reply(200, [kind, NOT_CACHED], ReplyStream(held.content(), held.close))

    async def _send_and_reply(self) -> Reply:
        self._check_foreground()
        asked = await self.judge.check_request(self.request)
        if asked.refusal is not None:
            raise Refused(asked.refusal)
        self._check_foreground()
        if asked.message is not None or asked.request is None:
            return self._synthetic_reply(asked.message or AssistantMessage())
        try:
            if self.call.has_no_answer:
                sent, _ = await self._send_request(asked.request)
                return await pass_on_response(sent, self.call, self.gateway.settings.prices)
            return await self._request_answer(asked.request)
        except _AnsweredByHook as answered:
            return self._synthetic_reply(answered.message)

    def _check_foreground(self) -> None:
        """Refuse a request for a background answer, which would be fetched past the hooks."""
        if self.request.params.get("background") and self.judge.current_hold() != "nothing":
            told = "hooks of this gateway have to see the answer: ask without background"
            raise Refused(Refusal(400, told, "unsupported_parameter"))

    def _synthetic_reply(self, message: AssistantMessage) -> Reply:
        if self.call.has_no_answer:
            return self._zero_tokens_reply()
        if self.request.stream:
            pieces = [*self.format.build_stream(message, self.request)]
            kind = (b"content-type", self.format.stream_type)
            return Reply(200, [kind, NOT_CACHED], ReplyStream(iter_pieces(pieces)))
        return Reply(200, [JSON], write_json(self.format.build_answer(message, self.request)))

    def _zero_tokens_reply(self) -> Reply:
        """Return a count of no tokens for a request that no model sees. Raises `Refused`."""
        if not self.call.target_path.casefold().endswith("tokens"):
            told = "a hook answers this request in the model's place, so there is nothing to send"
            raise Refused(Refusal(FINAL, told, "hook_answers", final=True))
        return Reply(200, [JSON], write_json(dict(self.format.no_tokens)))

    async def _request_answer(self, request: ModelRequest) -> Reply:
        while True:
            sent, request = await self._send_request(request)
            if sent.status >= 300 or not self.judge.sees_answers():
                return await pass_on_response(sent, self.call, self.gateway.settings.prices)
            if is_stream(sent, self.format):
                stream = StreamedReply(self, sent, request)
                return Reply(sent.status, sent.headers, await start_stream(stream.content()))
            data = await read_response(sent)
            answer = self._read_answer(data, request)
            if answer is None:
                return Reply(sent.status, sent.headers, data)
            body, message = answer
            answered = await self.judge.check_answer(request, message)
            if answered.again is None:
                after = _message_or_refuse(answered)
                if after != message:
                    data = write_json(self.format.write_answer(body, message, after))
                return Reply(sent.status, sent.headers, data)
            request = answered.again

    def _read_answer(
        self, data: bytes, request: ModelRequest
    ) -> tuple[Body, AssistantMessage] | None:
        """Read an answer; None if it is malformed and no hook has to see it first."""
        try:
            body = read_object(data, "it")
            return body, self.add_cost(request, self.format.read_answer(body))
        except UnreadableError as error:
            if self.judge.current_hold() == "nothing" and is_json(data):
                log.warning("an answer is passed on unread: it is not as its API is: %s", error)
                return None
            told = f"the upstream's answer cannot be read: {error}"
            raise Refused(Refusal(502, told, "upstream_error")) from None

    async def send_request(self, request: ModelRequest) -> tuple[UpstreamResponse, ModelRequest]:
        """Send a request in the middle of a stream; return the response and the request as sent.

        Raises `Refused`.
        """
        try:
            return await self._send_request(request)
        except _AnsweredByHook:
            told = "a hook answers for an upstream to fall back to, in the middle of a stream"
            raise Refused(Refusal(502, told, "upstream_error")) from None

    async def _send_request(self, request: ModelRequest) -> tuple[UpstreamResponse, ModelRequest]:
        """Send a request until an upstream answers; return the response and the request as sent.

        Hooks see the request again for each upstream of another provider. Raises `Refused`, and
        `_AnsweredByHook` if one of them answers.
        """
        route = self.gateway.find_route(self.format, request.model)
        sent_request = dataclasses.replace(request, provider=route.provider)

        async def body_for(provider: str) -> bytes | None:
            nonlocal sent_request
            shown = await self._request_for(provider, request)
            sent_request = shown or sent_request
            return None if shown is None else await self._write_body(shown)

        body = await self._write_body(request)
        path = self.format.target_path(self.call.target_path, request.model)
        sent = await send_to_route(route, dataclasses.replace(self.call, to=path), body, body_for)
        if (problem := find_evasion(sent)) is not None:
            await sent.close()
            raise Refused(Refusal(502, problem, "upstream_error"))
        self._drop_bytes()
        return sent, sent_request

    def _drop_bytes(self) -> None:
        """Keep the request once only, as parsed: what is sent from now on is another one."""
        self.call = dataclasses.replace(self.call, body=b"")

    async def _request_for(self, provider: str, request: ModelRequest) -> ModelRequest | None:
        """Return a request as hooks leave it for another provider; None if they block it there.

        Raises `_AnsweredByHook`.
        """
        if not self.scope.has(HookPoint.BEFORE_LLM_CALL):
            return dataclasses.replace(request, provider=provider)
        asked = await self.judge.check_request_for(provider)
        if asked.message is not None:
            raise _AnsweredByHook(asked.message)
        if asked.request is None or asked.request.model != request.model:
            why = asked.refusal.message if asked.refusal else "hooks chose another model"
            log.warning("nothing is sent to the provider %r to fall back to: %s", provider, why)
            return None
        return dataclasses.replace(asked.request, provider=provider)

    async def _write_body(self, request: ModelRequest) -> bytes:
        """Return the body of a request: the original bytes, unless something changed."""
        return await run_in_line(lambda: self._build_body(request), self.size)

    def _build_body(self, request: ModelRequest) -> bytes:
        before = self.request
        same = all(getattr(request, name) == getattr(before, name) for name in ASKED)
        body = self.body if same else self.format.write_request(self.body, before, request)
        if before.stream and self.gateway.settings.ask_usage and self._needs_usage():
            body = self.format.request_usage(body)
        return self.call.body if body is self.body and self.call.body else write_json(body)

    def _needs_usage(self) -> bool:
        return self.scope.has(HookPoint.AFTER_LLM_CALL)

    def add_cost(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer to a request with its cost, and note what it used."""
        priced = add_answer_cost(message, request.model, self.gateway.settings.prices)
        self.call.opened.note_answer(priced)
        return priced


def _refusal_reply(format: Format, refusal: Refusal) -> Reply:
    more = [(name.encode(), value.encode()) for name, value in refusal_headers(refusal).items()]
    return Reply(refusal.status, [JSON, *more], write_json(format.write_error(refusal)))


class _AnsweredByHook(Exception):
    """A hook on a request to another upstream supplied the answer itself."""

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        super().__init__()


async def send_to_route(
    route: Route, call: ModelCall, body: bytes, body_for: BodyFor | None = None
) -> UpstreamResponse:
    """Send a request along its route. Raises `Refused`."""
    try:
        sent = await route.send(call.target_path, body, call.headers, call.query, body_for=body_for)
    except UpstreamError as error:
        raise Refused(build_upstream_refusal(error)) from None
    call.opened.note_upstream(sent.name, sent.provider)
    return sent


async def pass_on_response(
    sent: UpstreamResponse, call: ModelCall, prices: Sequence[PriceConfig]
) -> Reply:
    """Return an upstream's response as it is, unread but for what it used. Raises `Refused`."""
    opened = call.opened

    def note_answer(message: AssistantMessage | None) -> None:
        if message is not None:
            opened.note_answer(add_answer_cost(message, opened.model, prices))

    if is_stream(sent, call.format):
        reader = UsageReader(call.format, opened.model) if opened.is_kept else None
        content = relay_stream(sent, call.format, opened, reader)

        async def close() -> None:
            await sent.close()
            if reader is not None:
                note_answer(reader.message)

        return Reply(sent.status, sent.headers, ReplyStream(content, close))
    data = await read_response(sent)
    if opened.is_kept and sent.status < 300:
        note_answer(await run_in_line(lambda: read_answer_usage(call.format, data), len(data)))
    return Reply(sent.status, sent.headers, data)


async def read_response(sent: UpstreamResponse) -> bytes:
    """Return the whole body of an upstream's response. Raises `Refused`."""
    try:
        return await sent.read()
    except UpstreamError as error:
        raise Refused(build_upstream_refusal(error)) from None
    finally:
        await sent.close()


def _message_or_refuse(answered: AnswerOutcome) -> AssistantMessage:
    if answered.refusal is not None or answered.message is None:
        raise Refused(answered.refusal or Refusal(500, "there is no answer"))
    return answered.message


def _read_body(body: bytes) -> Body:
    """Return the body of a request; one that is unreadable is the upstream's to refuse."""
    try:
        found = read_json(body, "the body of the request")
    except UnreadableError:
        return {}
    return found if isinstance(found, dict) else {}


def _find_model(body: Body) -> str | None:
    """Return the model that a request names."""
    model = body.get("model")
    return model if isinstance(model, str) else None
