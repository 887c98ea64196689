"""`redact`: takes secrets, e-mail addresses and card numbers out of what flows through a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.builtin.patterns import PATTERNS, is_secret, scrub, scrubber
from checkrail.builtin.walk import Change, Paths, path_of, rewritten
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import CONTRACTS, HookPoint, Lane

if TYPE_CHECKING:
    from checkrail.builtin.options import RedactOptions

__all__ = ["BUILTIN", "PATTERNS", "build", "redact", "scrub"]


def build(options: RedactOptions) -> Callable[[Event[Any], Any], Continue | None]:
    """Make the hook."""
    change = _change(options)
    fields = None if options.fields_ is None else tuple(map(path_of, options.fields_))

    def redact(event: Event[Any], value: Any) -> Continue | None:
        paths = None if fields is None else _within(fields, event, value)
        try:
            changed = rewritten(value, change, paths)
        except RecursionError:
            message = "the value nests too deeply to be gone through"
            raise InvalidOutcomeError(message) from None
        return None if changed is value else Continue(changed, redacted=True)

    return redact


def _change(options: RedactOptions) -> Change:
    clean = scrubber(options.kinds, options.patterns, options.label)
    hidden = options.label.replace("{kind}", "secrets")
    by_name = "secrets" in options.kinds

    def change(key: str | None, text: str) -> str:
        named = by_name and key is not None and is_secret(key, text)
        changed = hidden if named else clean(text)
        return text if changed == text else changed

    return change


def _within(fields: Paths, event: Event[Any], value: Any) -> Paths | None:
    """Read paths from the value on; they may begin with its name on the wire, as in `when`."""
    wire = CONTRACTS[event.point].wire
    if hasattr(value, wire):
        return fields
    paths = tuple(path[1:] if path[0] == wire else path for path in fields)
    return None if () in paths else paths


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
    example={"kinds": ["secrets", "card"], "patterns": {"badge": r"\bB-\d{6}\b"}},
)


def redact(event: Event[Any], value: Any) -> Continue | None:
    """Take out of a value what is not for everybody's eyes."""
    return BUILTIN.at(event)(event, value)  # type: ignore[no-any-return]
