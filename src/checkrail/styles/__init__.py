"""Ways to write a hook, each a thin layer on the engine. Each is imported when it is first used."""

from typing import TYPE_CHECKING

from checkrail.lazy import import_on_use

if TYPE_CHECKING:
    from checkrail.config.loader import load_hooks_from_config
    from checkrail.engine.event import LIVE
    from checkrail.styles.agent_status import AgentEvent, AgentStatus, Live
    from checkrail.styles.fluent import HookDecision, On, on
    from checkrail.styles.hook_chain import HookChain
    from checkrail.styles.hook_context import HookContext, HookEvent
    from checkrail.styles.lifecycle import (
        InboundEvent,
        LifecycleEvent,
        LifecycleHook,
        OutboundEvent,
        ResponseTransformEvent,
        SessionEndEvent,
        SessionStartEvent,
        ToolCallEvent,
    )
    from checkrail.styles.proxy import HookFn, adapt, is_proxy_hook

_HOME = {
    "LIVE": "checkrail.engine.event",
    "AgentEvent": "checkrail.styles.agent_status",
    "AgentStatus": "checkrail.styles.agent_status",
    "HookChain": "checkrail.styles.hook_chain",
    "HookContext": "checkrail.styles.hook_context",
    "HookDecision": "checkrail.styles.fluent",
    "HookEvent": "checkrail.styles.hook_context",
    "HookFn": "checkrail.styles.proxy",
    "InboundEvent": "checkrail.styles.lifecycle",
    "LifecycleEvent": "checkrail.styles.lifecycle",
    "LifecycleHook": "checkrail.styles.lifecycle",
    "Live": "checkrail.styles.agent_status",
    "On": "checkrail.styles.fluent",
    "OutboundEvent": "checkrail.styles.lifecycle",
    "ResponseTransformEvent": "checkrail.styles.lifecycle",
    "SessionEndEvent": "checkrail.styles.lifecycle",
    "SessionStartEvent": "checkrail.styles.lifecycle",
    "ToolCallEvent": "checkrail.styles.lifecycle",
    "adapt": "checkrail.styles.proxy",
    "is_proxy_hook": "checkrail.styles.proxy",
    "load_hooks_from_config": "checkrail.config.loader",
    "on": "checkrail.styles.fluent",
}

__all__ = [
    "LIVE",
    "AgentEvent",
    "AgentStatus",
    "HookChain",
    "HookContext",
    "HookDecision",
    "HookEvent",
    "HookFn",
    "InboundEvent",
    "LifecycleEvent",
    "LifecycleHook",
    "Live",
    "On",
    "OutboundEvent",
    "ResponseTransformEvent",
    "SessionEndEvent",
    "SessionStartEvent",
    "ToolCallEvent",
    "adapt",
    "is_proxy_hook",
    "load_hooks_from_config",
    "on",
]

__getattr__ = import_on_use(__name__, _HOME)
