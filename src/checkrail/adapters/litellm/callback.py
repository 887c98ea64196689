"""The callback of a LiteLLM proxy: its hooks from files, and LiteLLM's class beneath."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, aclosing
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from checkrail.adapters.litellm.calls import Call, PendingCalls, ProxyHookSet
from checkrail.adapters.litellm.requests import format_at, format_of, write_back
from checkrail.config.hook_files import find_gateway_files
from checkrail.engine.errors import CheckrailError
from checkrail.engine.values import AssistantMessage
from checkrail.extras import MissingExtraError
from checkrail.gateway.errors import UpstreamError
from checkrail.gateway.headers import refusal_headers
from checkrail.gateway.startup import OpenGateway
from checkrail.gateway.stream import StreamedReply
from checkrail.gateway.upstreams import UpstreamResponse
from checkrail.gateway.verdicts import Refused
from checkrail.llm.chat.stream import DONE
from checkrail.llm.conversation import text_of
from checkrail.llm.json_bytes import write_json
from checkrail.llm.messages.api import Messages
from checkrail.llm.responses.api import Responses
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Body, Format, Refusal, UnreadableError

log = logging.getLogger("checkrail.litellm")

HOOKS = "CHECKRAIL_HOOKS"
"""The variable that names the file of hooks."""

OLDEST, NEWEST = (1, 106), (1, 106)
"""The versions of LiteLLM that all of this was tried with."""

PASSED_ON = "pass_through_endpoint"
"""What LiteLLM calls a request to a provider's own API; callbacks are asked before, not after."""

RELAYED = "allm_passthrough_route"
"""The same for a model of its list; callbacks are only asked when it has chosen who takes it."""

WEBSOCKET = "_aresponses_websocket"
"""Many requests in the responses API on one connection; callbacks are only asked as it begins."""

QUEUE = "/queue/chat/completions"
"""Where callbacks are only asked when LiteLLM has chosen who takes it."""

CURSOR = "/cursor/chat/completions"
"""Where a request may be one of the responses API, and its answer is one of the chat API."""

NOT_SEEN = "no hook sees this, and the hooks of this proxy let nothing pass unseen"

ANSWERED = "ModifyResponseException"
"""LiteLLM's exception that has a text in place of an answer."""

PLACEHOLDER = "answered by a hook"
"""What LiteLLM takes for the model's answer, until the answer takes its place."""

UNCACHED = {"no-cache": True, "no-store": True}
"""Has LiteLLM keep it for nobody else, who may have the model's answer."""


class UnknownLiteLLMError(CheckrailError):
    """A LiteLLM in which hooks would not hold."""


@functools.cache
def build_callback() -> Any:
    """Build the callback, once in a process. Raises `ConfigError` if its hooks cannot be loaded."""
    found = find_gateway_files(hooks=os.environ.get(HOOKS) or None)
    hooks = OpenGateway(found)
    open_things = ExitStack()
    with lock_startup(found.files[0]):
        open_things.enter_context(hooks.open_counters())
    atexit.register(open_things.close)
    files = ", ".join(str(loaded.file) for loaded in hooks.loaded)
    log.info("%d hooks of %s hold in this proxy", len(hooks.registry.list()), files)
    return callback_of(hooks)


@contextlib.contextmanager
def lock_startup(file: Path) -> Iterator[None]:
    """Let workers that start at once make their database one after the other."""
    with file.open("rb") as held:
        with contextlib.suppress(ImportError, OSError):  # where it cannot be locked, they try
            fcntl = importlib.import_module("fcntl")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def callback_of(hooks: OpenGateway) -> Any:
    """Return a callback that LiteLLM takes, for these hooks.

    LiteLLM looks for what a callback can do in its class alone, and not in those beneath.
    """
    try:
        logger = importlib.import_module("litellm.integrations.custom_logger").CustomLogger
    except ImportError:
        told = 'this callback is for a LiteLLM proxy: pip install "litellm[proxy]"'
        raise MissingExtraError(told) from None
    check_litellm(version("litellm"), logger, importlib.import_module("litellm.exceptions"))
    own = {name: vars(ProxyHooks)[name] for name in SEAMS}
    return type("CheckrailCallback", (ProxyHooks, logger), own)(hooks)


def check_litellm(installed: str, logger: type, exceptions: object) -> None:
    """Refuse a LiteLLM that is too old or lacks what hooks need, and warn of newer ones."""
    found = tuple(int(number) for number in re.findall(r"\d+", installed)[:2])
    lacking = [name for name in SEAMS if not hasattr(logger, name)]
    lacking += [] if hasattr(exceptions, ANSWERED) else [ANSWERED]
    if found < OLDEST or lacking:
        why = f"it lacks {', '.join(lacking)}" if lacking else "it is too old"
        raise UnknownLiteLLMError(
            f"hooks would not hold in LiteLLM {installed}: {why}. "
            f'Run: pip install "litellm[proxy]=={_version_text(NEWEST)}.*"'
        )
    if found > NEWEST:
        told = "LiteLLM %s is newer than %s, up to which hooks were tried: see that yours hold"
        log.warning(told, installed, _version_text(NEWEST))


def _version_text(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)


def format_in(call_type: str, route: str, data: Mapping[str, Any]) -> Format | None:
    """Return the format of a request that hooks see; None: it is not one of the three APIs."""
    if call_type != PASSED_ON:
        return format_of(call_type)
    return format_at(route) if "messages" in data or "input" in data else None


def bypass_remedy(call_type: str, route: str) -> str | None:
    """Return what to do instead of a request that hooks cannot follow; None: they can."""
    if call_type == WEBSOCKET:
        return "hooks of this proxy do not see WebSockets: ask /v1/responses by HTTP"
    if route.endswith(CURSOR) and format_of(call_type) is not format_at(route):
        return "hooks of this proxy do not see this mixture of two APIs: ask /v1/responses"
    return None


def unseen_format(kwargs: Mapping[str, Any], call_type: Any) -> Format | None:
    """Return the format of a call that hooks have to see, and have not seen."""
    if is_relayed(call_type):
        return format_at(str(kwargs.get("endpoint")))
    request = kwargs.get("proxy_server_request")
    url = request.get("url") if isinstance(request, dict) else None
    path = urlsplit(str(url)).path.rstrip("/")
    return format_at(path) if path.endswith(QUEUE) else None


def is_relayed(call_type: Any) -> bool:
    """Return whether a call is passed through to a model of LiteLLM's list."""
    return bool(getattr(call_type, "value", call_type) == RELAYED)


def unseen_remedy(form: Format) -> str:
    """Return what to do instead, for a call that came by such a way."""
    return f"hooks of this proxy do not see what comes by this way: ask {form.path}"


log = logging.getLogger("checkrail.litellm")

HIDDEN = "_hidden_params"
"""What LiteLLM notes of an answer for itself."""


def _to_body(response: Any) -> Body:
    """Return an answer as JSON has it; what has no such form is empty, and so cannot be read."""
    if isinstance(response, dict):
        return {name: value for name, value in response.items() if name != HIDDEN}
    dump = getattr(response, "model_dump", None)
    found = dump(mode="json", exclude_unset=True) if dump is not None else None
    return found if isinstance(found, dict) else {}


async def review_answer(call: Call, response: Any) -> Body | None:
    """Show hooks an answer; return what to send in its place, or None. Raises `Refused`."""
    body = _to_body(response)
    message = _read_answer(call, body)
    if message is None:
        return None
    answered = await call.judge.check_answer(call.sent, message)
    if answered.refusal is not None:
        raise Refused(answered.refusal)
    if answered.message is None:
        await call.send_request(call.sent)
    if answered.message == message:
        return None
    return call.format.write_answer(body, message, answered.message)


def _read_answer(call: Call, body: Body) -> AssistantMessage | None:
    """Read an answer; None: it is malformed, but no hook has to see it."""
    try:
        return call.add_cost(call.sent, call.format.read_answer(body))
    except UnreadableError as error:
        if call.judge.current_hold() == "nothing":
            log.warning("an answer is passed on unread: it is not as its API is: %s", error)
            return None
        told = f"the answer cannot be read: {error}"
        raise Refused(Refusal(502, told, "upstream_error")) from None


SEAMS = (
    "async_pre_call_hook",
    "async_pre_call_deployment_hook",
    "async_post_call_success_hook",
    "async_post_call_streaming_iterator_hook",
)


class ProxyHooks:
    """The callbacks of a LiteLLM proxy, under its own names."""

    def __init__(self, opened: OpenGateway) -> None:
        super().__init__()
        self._opened = opened
        self._hooks = ProxyHookSet(opened)
        self._waiting = PendingCalls()
        self._watching: asyncio.Task[None] | None = None
        with contextlib.suppress(RuntimeError):  # without a loop, the first call does it
            self._watch_files()

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002 - LiteLLM passes it
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Show hooks a request before LiteLLM looks for who takes it."""
        self._watch_files()
        route = _request_route(user_api_key_dict)
        form = format_in(call_type, route, data)
        told = self._find_route_refusal(call_type, route, form)
        if told is not None:
            raise unsupported_error(told)
        if form is None or not self._hooks.has_hooks():
            return None
        passes_through = call_type == PASSED_ON
        try:
            call = self._hooks.read_call(
                form, data, user_api_key_dict, passes_through=passes_through
            )
            return await self._fire_request(call, data)
        except Refused as refused:
            raise error_before_stream(form, refused.refusal, plain=passes_through) from None

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> None:
        """Refuse a call that came by a route on which no hook has seen it."""
        if self._hooks.has_hooks() and (form := unseen_format(kwargs, call_type)) is not None:
            raise unsupported_error(unseen_remedy(form))
        if is_relayed(call_type) and not self._passes_unseen():
            raise unsupported_error(NOT_SEEN)

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Show hooks an answer that came at once; what they leave of it is what is sent."""
        call = self._find_call(data, user_api_key_dict)
        if call is None:
            return None
        if call.synthetic is not None:
            return call.format.build_answer(call.synthetic, call.request)
        if not call.judge.sees_answers():
            return None
        try:
            return await review_answer(call, response)
        except Refused as refused:
            raise error_before_stream(call.format, refused.refusal) from None

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Show hooks an answer as it is streamed; what has to wait for them is held."""
        call = self._find_call(request_data, user_api_key_dict)
        if call is None or not (call.judge.sees_answers() or call.synthetic is not None):
            async for chunk in response:
                yield chunk
            return
        try:
            async with aclosing(stream_answer(call, response)) as pieces:
                async for piece in pieces:
                    yield piece
        except Refused as refused:
            instead = error_in_stream(call.format, refused.refusal)
            if isinstance(instead, Exception):
                raise instead from None
            yield instead

    def _find_route_refusal(self, call_type: str, route: str, form: Format | None) -> str | None:
        """Return why a request is refused for its route; None: it is not."""
        if self._hooks.has_hooks() and (told := bypass_remedy(call_type, route)) is not None:
            return told
        return NOT_SEEN if form is None and not self._passes_unseen() else None

    def _passes_unseen(self) -> bool:
        """Return whether all is passed on that no hook sees; a list of paths is none of LiteLLM."""
        return self._hooks.settings.pass_through in (True, None)

    async def _fire_request(self, call: Call, data: dict[str, Any]) -> dict[str, Any]:
        """Show a request to hooks, and return what LiteLLM is to do. Raises `Refused`."""
        call.check_supported()
        asked = await call.judge.check_request(call.request)
        if asked.refusal is not None:
            raise Refused(asked.refusal)
        self._waiting.add_logged(call, data)
        if asked.request is None:
            return answer_without_model(call, data, asked.message, self._waiting)
        call.sent = asked.request
        write_back(call, data, asked.request)
        return data

    def _find_call(self, data: dict[str, Any], key: Any) -> Call | None:
        """Find the call that is answered; an unknown one is shown to hooks all the same."""
        known = self._waiting.pop_answered(data)
        if known is not None:
            known.note_provider(data)
        if known is not None or not self._hooks.has_hooks():
            return known
        form = format_at(_request_route(key))
        if form is None:
            return None
        try:
            return self._hooks.read_call(form, data, key)
        except Refused as refused:
            raise error_before_stream(form, refused.refusal) from None

    def _watch_files(self) -> None:
        """Reload files that change, for as long as this loop runs. Raises if none does."""
        loop = asyncio.get_running_loop()
        task = self._watching
        if task is None or task.done() or task.get_loop() is not loop:
            self._watching = loop.create_task(self._opened.watch())


def _request_route(key: Any) -> str:
    return str(getattr(key, "request_route", None) or "")


class CallRefusedError(Exception):
    """A call that hooks refused, with the fields that LiteLLM writes its error from."""

    def __init__(self, form: Format, refusal: Refusal) -> None:
        self.status_code = refusal.status
        self.message = refusal.message
        self.type = form.write_error(refusal)["error"]["type"]
        self.code = refusal.code or str(refusal.status)
        self.param = None
        self.headers = refusal_headers(refusal)
        super().__init__(refusal.message)


def error_before_stream(form: Format, refusal: Refusal, *, plain: bool = False) -> Exception:
    """Return what to raise where no stream has begun.

    LiteLLM tells the status in place of a code; ours is in the `provider_specific_fields`, but on
    routes that write errors in a `plain` way.
    """
    if not plain and form.name == Messages.name and refusal_headers(refusal):
        return _with_headers(form, refusal)
    if plain or form.name == Messages.name:
        return CallRefusedError(form, refusal)
    from fastapi import HTTPException  # LiteLLM's proxy has it

    return HTTPException(refusal.status, form.write_error(refusal), refusal_headers(refusal))


def _with_headers(form: Format, refusal: Refusal) -> Exception:
    """Return what to raise on a route that takes headers from LiteLLM's own errors alone."""
    kind: Any = importlib.import_module("litellm.proxy._types").ProxyException
    error = CallRefusedError(form, refusal)
    raised: Exception = kind(error.message, error.type, None, refusal.status, error.headers)
    return raised


def unsupported_error(told: str) -> Exception:
    """Return what to raise for a route that hooks do not support; every route passes it on."""
    from fastapi import HTTPException

    return HTTPException(403, detail=told)


def error_in_stream(form: Format, refusal: Refusal) -> Exception | bytes:
    """Return what to raise or send in place of a stream, so that the caller gets the status.

    On responses LiteLLM takes it from the `code` of an error that comes first, and from none else.
    """
    if form.name != Responses.name:
        return CallRefusedError(form, refusal)
    error = form.write_error(refusal)["error"] | {"code": str(refusal.status)}
    return write_event(write_json({"error": error}))


async def stream_answer(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield what the caller gets of a stream. Raises `Refused`, as long as nothing was given.

    LiteLLM ends streams itself where the API has a word for that.
    """
    pieces = (
        _stream_reviewed(call, response)
        if call.synthetic is None
        else _stream_synthetic(call, response)
    )
    async with aclosing(pieces):
        async for piece in pieces:
            if piece != DONE:
                yield piece


async def _stream_synthetic(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield an answer that no model gave, in place of what LiteLLM made of it."""
    async for _ in response:
        pass
    for piece in call.format.build_stream(call.synthetic or AssistantMessage(), call.request):
        yield piece


async def _stream_reviewed(call: Call, response: Any) -> AsyncGenerator[bytes]:
    """Yield an answer as hooks leave it; if it breaks off, LiteLLM reports and logs that."""
    chunks = ChunkStream(call, response)
    stream = StreamedReply(call, cast("UpstreamResponse", chunks), call.sent)
    try:
        async with aclosing(stream.content()) as content:
            async for piece in content:
                if chunks.failure is not None:
                    break
                yield piece
    except Refused:
        if chunks.failure is None:
            raise
    if chunks.failure is not None:
        raise chunks.failure


class ChunkStream:
    """A stream of LiteLLM's, as an upstream's answer that is read in bytes.

    What breaks it off is kept in `failure`.
    """

    status = 200

    def __init__(self, call: Call, response: Any) -> None:
        self.headers = [(b"content-type", b"text/event-stream")]
        self.failure: Exception | None = None
        self._call = call
        self._response = response
        self._reading: Any = None

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the stream as it comes in. Raises `UpstreamError` if it breaks off."""
        self._reading = reading = self._read_chunks()
        return reading

    async def _read_chunks(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._response:
                for piece in _to_bytes(self._call, chunk):
                    yield piece
        except Exception as error:
            self.failure = error
            raise UpstreamError(502, "the model broke off in the middle of its answer") from error

    async def close(self) -> None:
        """Let go of the stream; one that somebody reads is let go of by them."""
        if self._reading is not None and not self._reading.ag_running:
            await self._reading.aclose()


def _to_bytes(call: Call, chunk: Any) -> Iterator[bytes]:
    if isinstance(chunk, bytes | str):
        yield chunk.encode() if isinstance(chunk, str) else chunk
        return
    dump = getattr(chunk, "model_dump", None)
    body = dump(mode="json", exclude_none=True) if dump is not None else chunk
    if call.format.name == "chat" and isinstance(body, dict):
        body = _chat_chunk(call, body)
    name = body.get("type") if isinstance(body, dict) and call.format.name != "chat" else None
    yield write_event(write_json(body), name if isinstance(name, str) else None)


def _chat_chunk(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk as the API has it: usage alone, under the model that was requested."""
    choices = body.get("choices") or []
    said = any(choice.get("delta") or choice.get("finish_reason") for choice in choices)
    choices = choices if said or not body.get("usage") else []
    return body | {"model": call.request.model, "choices": choices}


def answer_without_model(
    call: Call, data: dict[str, Any], message: AssistantMessage | None, waiting: PendingCalls
) -> dict[str, Any]:
    """Make LiteLLM answer without a model; a stream begins with an exception of its own."""
    call.synthetic = answer = message or AssistantMessage()
    _check_supported(call, answer)
    if not call.request.stream:
        whole = call.format.name == "chat"
        data["mock_response"] = (
            call.format.build_answer(answer, call.request) if whole else PLACEHOLDER
        )
        data["cache"] = UNCACHED
        return data
    if call.format.name != "responses":  # there, LiteLLM writes the stream and asks nobody
        waiting.add_marked(call, data)
    modified = getattr(importlib.import_module("litellm.exceptions"), ANSWERED)
    raise modified(
        message=text_of(answer.content),
        model=call.request.model or "",
        request_data=data,
        guardrail_name="checkrail",
    )


def _check_supported(call: Call, answer: AssistantMessage) -> None:
    """Refuse an answer that LiteLLM cannot send. Raises `Refused`."""
    told = None
    if call.passes_through:
        told = f"a hook cannot answer on a pass-through route of LiteLLM: ask {call.format.path}"
    elif call.request.stream and call.format.name == "responses" and answer.tool_calls:
        told = "LiteLLM cannot stream an answer of a hook that calls tools: ask without stream"
    if told is not None:
        raise Refused(Refusal(501, told, "not_supported"))
