"""Ways to write a hook, each a thin layer on the engine."""

from checkrail.styles.agent_status import LIVE, AgentEvent, AgentStatus, Live
from checkrail.styles.decorators import Hooks
from checkrail.styles.fluent import HookDecision, On, on
from checkrail.styles.hook_context import HookContext, HookEvent
from checkrail.styles.proxy import adapt, is_proxy_hook
from checkrail.styles.run_context import RunContext
from checkrail.styles.run_hooks import RunHooks

__all__ = [
    "LIVE",
    "AgentEvent",
    "AgentStatus",
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
    "on",
]
