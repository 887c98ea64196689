"""Calls of models through a LiteLLM proxy: the hooks that look at one, and those under way."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from checkrail.adapters.litellm.requests import LOGGED, body_of, metadata_of
from checkrail.builtin.budget import HAS_PRICE
from checkrail.engine.values import AssistantMessage, ModelRequest, User
from checkrail.gateway.costs import add_cost, can_have_price
from checkrail.gateway.headers import CREDENTIALS, Headers
from checkrail.gateway.hooks import POINTS, BlockedTool, GatewayHooks
from checkrail.gateway.identity import Identity
from checkrail.gateway.startup import OpenGateway
from checkrail.gateway.tool_memory import ToolMemory
from checkrail.gateway.verdicts import Refused
from checkrail.llm.json_bytes import write_json
from checkrail.llm.wire_format import Body, Format, Refusal, UnreadableError
from checkrail.times import uuid7


def provider_of(model: str | None) -> str | None:
    """Return whose model stands behind a name, if all that LiteLLM may choose from are of one.

    A name that LiteLLM does not list tells it by what stands before a slash.
    """
    found = {_find_provider(params) for params in _find_deployments(model)}
    if len(found) == 1:
        return found.pop()
    prefix, slash, _ = (model or "").partition("/")
    return prefix if slash and not found else None


def provider_called(logged: Any) -> str | None:
    """Return the provider that LiteLLM called in the end, which may be a fallback, if known.

    `logged` is the object that it logs a call with.
    """
    details = getattr(logged, "model_call_details", None)
    found = details.get("custom_llm_provider") if isinstance(details, Mapping) else None
    return found if isinstance(found, str) and found else None


def cost_of(usage: Mapping[str, Any], *models: str | None) -> float | None:
    """Return what tokens cost in USD by LiteLLM's prices; None: it has none."""
    reckon: Any = getattr(sys.modules.get("litellm"), "cost_per_token", None)
    if reckon is None:
        return None
    details = usage.get("input_tokens_details") or {}
    counts = {
        "prompt_tokens": usage.get("input_tokens") or 0,
        "completion_tokens": usage.get("output_tokens") or 0,
        "cache_read_input_tokens": details.get("cached_tokens") or 0,
        "cache_creation_input_tokens": details.get("cache_creation_tokens") or 0,
    }
    names = [
        *models,
        *(params.get("model") for each in models for params in _find_deployments(each)),
    ]
    for name in names:
        try:
            total = float(sum(reckon(model=name or "", **counts)))
        except Exception:  # noqa: BLE001, S112 - it raises anything for a model that it has no price of
            continue
        if total:
            return round(total, 12)
    return None


def _find_deployments(model: str | None) -> list[Mapping[str, Any]]:
    """Return the deployments of a model name in the proxy's config."""
    router = getattr(sys.modules.get("litellm.proxy.proxy_server"), "llm_router", None)
    if router is None or not model:
        return []
    try:
        listed = router.get_model_list(model_name=model) or []
    except Exception:  # noqa: BLE001 - who has the model is only good to know
        return []
    given = [each.get("litellm_params") for each in listed if isinstance(each, Mapping)]
    return [params for params in given if isinstance(params, Mapping)]


def _find_provider(params: Mapping[str, Any]) -> str | None:
    if named := params.get("custom_llm_provider"):
        return str(named)
    prefix, slash, _ = str(params.get("model") or "").partition("/")
    return prefix if slash else None


DIGEST = re.compile(r"[0-9a-f]{64}")
NOBODY = "default_user_id"
"""Whom LiteLLM takes the holder of its master key for."""


def ids_of(data: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Return the ids of a call, as the gateway finds them; its id is LiteLLM's."""
    said = {"metadata": metadata_of(data), "user": data.get("user")}
    said["safety_identifier"] = data.get("safety_identifier")
    found = dict(Identity(_request_headers(data), write_json(said), key=_key_name(key)))
    found["request_id"] = _call_id(data) or uuid7()
    metadata = dict(found.get("metadata") or {})
    user, team = _key_text(key, "user_id"), _key_text(key, "team_id")
    if user and user != NOBODY:  # LiteLLM knows whose key it is; whom they speak for is their word
        claimed = found.get("user")
        if isinstance(claimed, str) and claimed != metadata.get("api_key"):
            metadata["end_user"] = claimed
        found["user"] = User(user, org_id=team)
    if team:
        metadata["team"] = team
    found["metadata"] = metadata
    return found


def _call_id(data: Mapping[str, Any]) -> str | None:
    """Return LiteLLM's id of a call; on pass-through routes, only its logging object has it."""
    return data.get("litellm_call_id") or _key_text(data.get(LOGGED), "litellm_call_id")


def _request_headers(data: Mapping[str, Any]) -> Headers:
    request = data.get("proxy_server_request")
    headers = request.get("headers") if isinstance(request, dict) else None
    named = [
        (str(name).lower().encode(errors="replace"), str(value).encode(errors="replace"))
        for name, value in (headers or {}).items()
    ]
    return [header for header in named if header[0] not in CREDENTIALS]


def _key_name(key: Any) -> str | None:
    """Return the alias of a key, or its digest, which is what LiteLLM has of most keys."""
    if alias := _key_text(key, "key_alias"):
        return alias
    kept = _key_text(key, "api_key")
    if kept is None:
        return None
    digest = kept if DIGEST.fullmatch(kept) else hashlib.sha256(kept.encode()).hexdigest()
    return f"key-{digest[:16]}"


def _key_text(key: Any, name: str) -> str | None:
    found = getattr(key, name, None)
    return found if isinstance(found, str) and found else None


log = logging.getLogger("checkrail.litellm")

CANNOT_ASK_AGAIN = (
    "a hook wants the model to be asked again, and a callback of LiteLLM cannot do that. "
    "Put `checkrail gateway` in front of the proxy for hooks that retry"
)


class ProxyHookSet:
    """The hooks that hold in a proxy, and what they remember of its calls."""

    def __init__(self, opened: OpenGateway) -> None:
        self.registry = opened.registry
        self.settings = opened.settings
        self.memory = ToolMemory()
        self.blocked_tool: BlockedTool = opened.settings.blocked_tool
        if self.blocked_tool == "continue":
            log.info("a text stands in place of a blocked call: a model cannot be called again")
            self.blocked_tool = "text"

    def has_hooks(self) -> bool:
        """Return whether there are hooks for calls at all."""
        return any(self.registry.has(point) for point in POINTS)

    def read_call(
        self, form: Format, data: Mapping[str, Any], key: Any, *, passes_through: bool = False
    ) -> Call:
        """Read a call. Raises `Refused`."""
        body = body_of(form, data)
        try:
            request = form.read_request(body)
        except UnreadableError as error:
            raise Refused(Refusal(400, str(error), "invalid_request")) from None
        request = dataclasses.replace(request, provider=provider_of(request.model))
        call = Call(self, form, body, request, ids_of(data, key))
        call.judge.note_metadata(metadata_of(data))
        call.passes_through = passes_through
        return call


class Call:
    """One call: its request, and what hooks decide on it."""

    def __init__(
        self,
        hooks: ProxyHookSet,
        form: Format,
        body: Body,
        request: ModelRequest,
        ids: dict[str, Any],
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
        self.judge = GatewayHooks(scope, memory=hooks.memory, blocked_tool=hooks.blocked_tool)

    def _has_price(self, model: str) -> bool:
        if can_have_price(model, self._hooks.settings.prices):
            return True
        return cost_of({"input_tokens": 1000, "output_tokens": 1000}, model) is not None

    def note_provider(self, data: Mapping[str, Any]) -> None:
        """Let hooks on the answer see the provider that was called in the end."""
        if (provider := provider_called(data.get(LOGGED))) is not None:
            self.sent = dataclasses.replace(self.sent, provider=provider)

    def check_supported(self) -> None:
        """Refuse a request whose answer would bypass the hooks that have to see it."""
        if self.judge.current_hold() == "nothing":
            return
        must_see = "hooks of this proxy have to see the answer"
        if self.request.params.get("background"):
            told = f"{must_see}: ask without background"
            raise Refused(Refusal(400, told, "unsupported_parameter"))
        if self.passes_through:
            told = f"{must_see}, and see none of a pass-through route: ask {self.format.path}"
            raise Refused(Refusal(403, told, "not_supported"))

    def add_cost(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer with what it cost: by the prices of the file, or by LiteLLM's."""
        names = (request.model, message.model)
        usage = add_cost(message.usage, names, self._hooks.settings.prices)
        if usage and "cost" not in usage:
            cost = cost_of(usage, *names)
            usage = usage if cost is None else {**usage, "cost": cost}
        return message if usage is message.usage else dataclasses.replace(message, usage=usage)

    async def send_request(self, request: ModelRequest) -> NoReturn:
        """Refuse to call the model again. Raises `Refused`."""
        del request
        raise Refused(Refusal(501, CANNOT_ASK_AGAIN, "not_supported"))

    def note_refused(self, refusal: Refusal) -> None:
        """Note nothing: LiteLLM has records of its own."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run some work that outlives the caller."""
        self._hooks.registry.spawn(work)


MARK = "_checkrail_call"
"""Where a call that no model answers has its number: LiteLLM takes such a one for failed, and
lets go of that object."""

MOST = 10_000
"""How many calls that no model answers may wait for their streams."""


class PendingCalls:
    """The calls whose answers have not come yet; those that LiteLLM forgets are forgotten.

    They are found again by what LiteLLM carries along with them. Its id of a call is no help:
    callers may send one, and two of them the same.
    """

    def __init__(self) -> None:
        self._logged: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()
        self._marked: OrderedDict[str, Call] = OrderedDict()

    def add_logged(self, call: Call, data: dict[str, Any]) -> None:
        """Remember a call until its answer comes."""
        logged = data.get(LOGGED)
        if logged is not None:
            self._logged[logged] = call

    def add_marked(self, call: Call, data: dict[str, Any]) -> None:
        """Remember a call that a stream of ours will answer: nothing of `data` goes to a model."""
        data[MARK] = number = uuid7()
        self._marked[number] = call
        while len(self._marked) > MOST:
            self._marked.popitem(last=False)

    def pop_answered(self, data: dict[str, Any]) -> Call | None:
        """Remove and return the call that is answered now."""
        marked = self._marked.pop(str(data.get(MARK)), None)
        logged = data.get(LOGGED)
        return marked or (self._logged.pop(logged, None) if logged is not None else None)
