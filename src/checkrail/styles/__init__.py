"""Ways to write a hook, each a thin layer on the engine. Each is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkrail.engine.event import LIVE
    from checkrail.styles.agent_status import AgentEvent, AgentStatus, Live
    from checkrail.styles.decorators import Hooks
    from checkrail.styles.fluent import HookDecision, On, on
    from checkrail.styles.hook_chain import HookChain, load_hooks_from_config
    from checkrail.styles.hook_context import HookContext, HookEvent
    from checkrail.styles.proxy import adapt, is_proxy_hook
    from checkrail.styles.run_context import RunContext
    from checkrail.styles.run_hooks import RunHooks

_HOME = {
    "LIVE": "agent_status",
    "AgentEvent": "agent_status",
    "AgentStatus": "agent_status",
    "HookChain": "hook_chain",
    "HookContext": "hook_context",
    "HookDecision": "fluent",
    "HookEvent": "hook_context",
    "Hooks": "decorators",
    "Live": "agent_status",
    "On": "fluent",
    "RunContext": "run_context",
    "RunHooks": "run_hooks",
    "adapt": "proxy",
    "is_proxy_hook": "proxy",
    "load_hooks_from_config": "hook_chain",
    "on": "fluent",
}

__all__ = [
    "LIVE",
    "AgentEvent",
    "AgentStatus",
    "HookChain",
    "HookContext",
    "HookDecision",
    "HookEvent",
    "Hooks",
    "Live",
    "On",
    "RunContext",
    "RunHooks",
    "adapt",
    "is_proxy_hook",
    "load_hooks_from_config",
    "on",
]


def __getattr__(name: str) -> Any:
    """Import a way to write hooks."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return found
