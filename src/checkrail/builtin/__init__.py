"""Ready hooks.

Make one with `BUILTINS[name].make(config)`, or register its function like any other hook, with its
options in `config`.
"""

from checkrail.builtin.allow_users import BUILTIN as _ALLOW_USERS
from checkrail.builtin.allow_users import allow_users
from checkrail.builtin.attachment_limits import BUILTIN as _ATTACHMENT_LIMITS
from checkrail.builtin.attachment_limits import attachment_limits
from checkrail.builtin.base import Builtin
from checkrail.builtin.budget import BUILTIN as _BUDGET
from checkrail.builtin.budget import budget, keeper
from checkrail.builtin.cache import BUILTIN as _CACHE
from checkrail.builtin.cache import AnswerStore, cache, caching
from checkrail.builtin.counters import AmountStore, Counters, RateStore
from checkrail.builtin.errors import BuiltinConfigError
from checkrail.builtin.greeting import BUILTIN as _GREETING
from checkrail.builtin.greeting import greeting
from checkrail.builtin.inject_system import BUILTIN as _INJECT_SYSTEM
from checkrail.builtin.inject_system import inject_system
from checkrail.builtin.log_request import BUILTIN as _LOG_REQUEST
from checkrail.builtin.log_request import log_request
from checkrail.builtin.log_response import BUILTIN as _LOG_RESPONSE
from checkrail.builtin.log_response import log_response
from checkrail.builtin.profanity import BUILTIN as _PROFANITY
from checkrail.builtin.profanity import profanity
from checkrail.builtin.provider_tools import BUILTIN as _PROVIDER_TOOLS
from checkrail.builtin.provider_tools import provider_tools
from checkrail.builtin.quiet_hours import BUILTIN as _QUIET_HOURS
from checkrail.builtin.quiet_hours import quiet_hours
from checkrail.builtin.rate_limit import BUILTIN as _RATE_LIMIT
from checkrail.builtin.rate_limit import limiter, rate_limit
from checkrail.builtin.redact import BUILTIN as _REDACT
from checkrail.builtin.redact import redact
from checkrail.builtin.require_tools import BUILTIN as _REQUIRE_TOOLS
from checkrail.builtin.require_tools import require_tools
from checkrail.builtin.route_model import BUILTIN as _ROUTE_MODEL
from checkrail.builtin.route_model import route_model
from checkrail.builtin.schema_check import BUILTIN as _SCHEMA_CHECK
from checkrail.builtin.schema_check import schema_check
from checkrail.builtin.session_summary import BUILTIN as _SESSION_SUMMARY
from checkrail.builtin.session_summary import session_summary
from checkrail.builtin.strip_provider_fields import BUILTIN as _STRIP_PROVIDER_FIELDS
from checkrail.builtin.strip_provider_fields import strip_provider_fields
from checkrail.builtin.tool_policy import BUILTIN as _TOOL_POLICY
from checkrail.builtin.tool_policy import tool_policy

__all__ = [
    "BUILTINS",
    "AmountStore",
    "AnswerStore",
    "Builtin",
    "BuiltinConfigError",
    "Counters",
    "RateStore",
    "allow_users",
    "attachment_limits",
    "budget",
    "cache",
    "caching",
    "greeting",
    "inject_system",
    "keeper",
    "limiter",
    "log_request",
    "log_response",
    "profanity",
    "provider_tools",
    "quiet_hours",
    "rate_limit",
    "redact",
    "require_tools",
    "route_model",
    "schema_check",
    "session_summary",
    "strip_provider_fields",
    "tool_policy",
]

BUILTINS: dict[str, Builtin] = {
    builtin.name: builtin
    for builtin in (
        _LOG_REQUEST,
        _LOG_RESPONSE,
        _STRIP_PROVIDER_FIELDS,
        _REDACT,
        _TOOL_POLICY,
        _PROVIDER_TOOLS,
        _RATE_LIMIT,
        _SCHEMA_CHECK,
        _REQUIRE_TOOLS,
        _INJECT_SYSTEM,
        _ROUTE_MODEL,
        _CACHE,
        _BUDGET,
        _GREETING,
        _PROFANITY,
        _QUIET_HOURS,
        _ALLOW_USERS,
        _ATTACHMENT_LIMITS,
        _SESSION_SUMMARY,
    )
}
"""Every built-in hook by its name."""

for _hook in (
    log_request,
    log_response,
    strip_provider_fields,
    redact,
    tool_policy,
    provider_tools,
    rate_limit,
    schema_check,
    require_tools,
    inject_system,
    route_model,
    cache,
    budget,
    greeting,
    profanity,
    quiet_hours,
    allow_users,
    attachment_limits,
    session_summary,
):
    _builtin = BUILTINS[_hook.__name__]
    _options = {
        "lane": _builtin.lane,
        "redacts": _hook is redact,
        "observes": _builtin.observes,
        **({"on_error": "block"} if _hook is provider_tools else {}),
    }
    vars(_hook).update(
        hook_points=_builtin.points, hook_options=_options, hook_reads=_builtin.types_read
    )
