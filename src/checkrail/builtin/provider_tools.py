"""`provider_tools`: says which tools a provider may run itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of, on_one_line
from checkrail.engine.event import Event
from checkrail.engine.matchers import LONGEST_NAME
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.provider_tools import MCP, Denies, ProviderTool, Sieve

if TYPE_CHECKING:
    from checkrail.builtin.options import ProviderToolsOptions

Judged = Block | Continue | None


def build(options: ProviderToolsOptions) -> Callable[[Event[Any], Any], Judged]:
    """Build the hook."""
    denies = _build_test(options)

    def provider_tools(event: Event[Any], value: Any) -> Judged:
        sieve = Sieve(denies)
        left = _strip(sieve, event, value)
        refused = sieve.fixed or (sieve.denied if options.on_denied == "block" else ())
        if refused:
            why = f"the provider's tool {on_one_line(refused[0].names[0])!r} is not allowed"
            return Block(options.reason or why, options.status, "tool_not_allowed")
        return None if left is value else Continue(left)

    return provider_tools


def _strip(sieve: Sieve, event: Event[Any], value: Any) -> ModelRequest | AssistantMessage:
    if isinstance(value, ModelRequest):
        return sieve.strip_request(value)
    return sieve.strip_answer(BUILTIN.expect_value(event, value, AssistantMessage))


def _build_test(options: ProviderToolsOptions) -> Denies:
    denied = any_of(options.deny)
    allowed = None if options.allow is None else any_of(options.allow)
    some_servers = any(pattern.startswith(f"{MCP}:") for pattern in options.allow or ())

    def denies(tool: ProviderTool) -> bool:
        if any(len(name) > LONGEST_NAME for name in tool.names) or any(map(denied, tool.names)):
            return True
        if allowed is None or (tool.is_mcp_label and some_servers):
            return False
        return not any(map(allowed, tool.own_names))

    return denies


BUILTIN = Builtin(
    name="provider_tools",
    summary="blocks or takes out tools that the provider would run itself, such as web search",
    points=(HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL),
    lane=Lane.TRANSFORM,
    build=build,
    example={"allow": ["web_search", "mcp:*.example.com"], "on_denied": "strip"},
    closed=True,
    reads=(ModelRequest, AssistantMessage),
)


def provider_tools(event: Event[Any], value: Any) -> Judged:
    """Refuse or take out a provider's own tools that may not be used."""
    return BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
