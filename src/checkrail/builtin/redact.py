"""`redact`: takes secrets, e-mail addresses and card numbers out of what flows through a point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.builtin.patterns import PATTERNS, inline_characters, is_secret, scrub, scrubber
from checkrail.builtin.walk import Change, Paths, path_of, rewritten, within
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import CONTRACTS, HookPoint, Lane
from checkrail.turns import in_turn_or_thread

if TYPE_CHECKING:
    from checkrail.builtin.options import RedactOptions

__all__ = ["BUILTIN", "PATTERNS", "build", "redact", "scrub"]


Redacted = Continue | None


def build(options: RedactOptions) -> Callable[[Event[Any], Any], Redacted | Awaitable[Redacted]]:
    """Make the hook."""
    change = _change(options)
    most = inline_characters(options.patterns.values(), options.label)
    fields = None if options.fields_ is None else tuple(map(path_of, options.fields_))

    def redact(event: Event[Any], value: Any) -> Redacted | Awaitable[Redacted]:
        paths = None if fields is None else _within(fields, event, value)

        def work(inline: bool) -> Redacted:  # noqa: FBT001 - see `in_turn_or_thread`
            try:
                changed = rewritten(value, within(most, change) if inline else change, paths)
            except RecursionError:
                message = "the value nests too deeply to be gone through"
                raise InvalidOutcomeError(message) from None
            return None if changed is value else Continue(changed, redacted=True)

        return in_turn_or_thread(work)

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


def redact(event: Event[Any], value: Any) -> Redacted | Awaitable[Redacted]:
    """Take out of a value what is not for everybody's eyes."""
    return BUILTIN.at(event)(event, value)  # type: ignore[no-any-return]
