"""`redact`: takes secrets, e-mail addresses and card numbers out of what flows through a point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import CONTRACTS, HookPoint, Lane
from checkrail.engine.values import ModelRequest, Value
from checkrail.llm.patterns import KINDS, scrub_text
from checkrail.llm.restoration import find_vault
from checkrail.llm.reversible import build_reversible
from checkrail.llm.scrubber import Scrubber
from checkrail.llm.walk import Paths, path_of
from checkrail.turns import Steps, run_in_slices

if TYPE_CHECKING:
    from checkrail.builtin.options import RedactOptions

__all__ = ["BUILTIN", "KINDS", "build", "redact", "scrub_text"]


Redacted = Continue | None


def build(options: RedactOptions) -> Callable[[Event[Any], Any], Redacted | Awaitable[Redacted]]:
    """Build the hook."""
    scrubber = Scrubber(options.kinds, options.patterns, options.label)
    reversible = build_reversible(options.kinds, options.patterns, options.restore)
    fields = None if options.fields_ is None else tuple(map(path_of, options.fields_))

    def redact(event: Event[Any], value: Any) -> Redacted | Awaitable[Redacted]:
        paths = None if fields is None else _relative_paths(fields, event, value)
        vault = reversible and find_vault(event)
        scrub = partial(reversible.scrub, vault=vault) if reversible and vault else scrubber.scrub
        return run_in_slices(_redact_value(scrub, value, paths))

    return redact


def _redact_value(
    scrub: Callable[..., Steps[Any]], value: Any, paths: Paths | None
) -> Steps[Redacted]:
    changed = yield from scrub(value, paths=paths)
    return None if changed is value else Continue(changed, redacted=True)


def _relative_paths(fields: Paths, event: Event[Any], value: Any) -> Paths | None:
    """Return paths from the value on; they may begin with its name on the wire, as in `when`."""
    wire = CONTRACTS[event.point].wire
    paths = fields
    if not hasattr(value, wire):
        paths = tuple(path[1:] if path[0] == wire else path for path in fields)
    if () in paths:
        return None
    own = value.__slots__ if isinstance(value, Value) else ()
    if own and not any(path[0] in (*own, "*") for path in paths):
        told = ", ".join(".".join(path) for path in fields)
        message = (
            f"a {type(value).__name__} has none of its fields {told}. It has: {', '.join(own)}"
        )
        raise InvalidOutcomeError(message)
    return paths


BUILTIN = Builtin(
    name="redact",
    summary="takes secrets, e-mail addresses and card numbers out of what flows through",
    points=(
        HookPoint.BEFORE_INBOUND,
        HookPoint.BEFORE_LLM_CALL,
        HookPoint.AFTER_LLM_CALL,
        HookPoint.AFTER_TOOL_CALL,
        HookPoint.BEFORE_FINAL_RESPONSE,
        HookPoint.BEFORE_OUTBOUND,
        HookPoint.ON_RESULT,
    ),
    lane=Lane.TRANSFORM,
    build=build,
    reads_with={"restore": (ModelRequest,)},
    closed=True,
    example={"kinds": ["secrets", "card"], "patterns": {"badge": r"\bB-\d{6}\b"}},
)


def redact(event: Event[Any], value: Any) -> Redacted | Awaitable[Redacted]:
    """Take out of a value what is not for everybody's eyes."""
    return BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
