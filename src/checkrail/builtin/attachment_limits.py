"""`attachment_limits`: says how many files a message may have, how large, and of which types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of, on_one_line
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import InboundMessage

if TYPE_CHECKING:
    from checkrail.builtin.options import AttachmentLimitsOptions

TOO_LARGE, WRONG_TYPE = 413, 415
Problem = tuple[str, int]
"""Why a message is refused, and with which status."""


def build(
    options: AttachmentLimitsOptions,
) -> Callable[[Event[Any], InboundMessage], Block | None]:
    """Build the hook."""
    limits = _Limits(options)

    def attachment_limits(event: Event[Any], message: InboundMessage) -> Block | None:
        message = BUILTIN.expect_value(event, message, InboundMessage)
        problem = limits.find_problem(message.attachments)
        if problem is None:
            return None
        reason, status = problem
        return Block(reason, options.status or status, "attachment_refused")

    return attachment_limits


class _Limits:
    """What attachments of one message may be."""

    def __init__(self, options: AttachmentLimitsOptions) -> None:
        self._options = options
        self._is_type = None if options.types is None else any_of(options.types)

    def find_problem(self, attachments: Sequence[Any]) -> Problem | None:
        """Return what is wrong with the attachments of a message."""
        most = self._options.max_count
        if most is not None and len(attachments) > most:
            return f"there are {len(attachments)} attachments, and {most} are the limit", TOO_LARGE
        for attachment in attachments:
            problem = self._find_wrong_type(attachment) or self._find_wrong_size(attachment)
            if problem is not None:
                return problem
        total = sum(size for each in attachments if (size := _size_of(each)) is not None)
        most = self._options.max_total
        if most is not None and total > most:
            return f"the attachments have {total} bytes, and {most} are the limit", TOO_LARGE
        return None

    def _find_wrong_type(self, attachment: Any) -> Problem | None:
        if self._is_type is None:
            return None
        found = _type_of(attachment)
        if found and self._is_type(found):
            return None
        told = f"is of the type {on_one_line(found)}" if found else "has no type"
        return f"the attachment {_name_of(attachment)} {told}, which is not taken", WRONG_TYPE

    def _find_wrong_size(self, attachment: Any) -> Problem | None:
        most, in_all = self._options.max_size, self._options.max_total
        if most is None and in_all is None:
            return None
        size = _size_of(attachment)
        if size is None:
            if self._options.unknown_size == "allow":
                return None
            return f"the size of the attachment {_name_of(attachment)} is not known", TOO_LARGE
        if most is None or size <= most:
            return None
        told = f"the attachment {_name_of(attachment)} has {size} bytes"
        return f"{told}, and {most} are the limit", TOO_LARGE


def _read_field(attachment: Any, name: str) -> Any:
    if isinstance(attachment, Mapping):
        return attachment.get(name)
    return getattr(attachment, name, None)


def _name_of(attachment: Any) -> str:
    name = _read_field(attachment, "name")
    return repr(on_one_line(name)) if isinstance(name, str) else "without a name"


def _type_of(attachment: Any) -> str:
    """Return the content type, without its parameters; empty if there is none."""
    found = _read_field(attachment, "content_type")
    return found.partition(";")[0].strip().lower() if isinstance(found, str) else ""


def _size_of(attachment: Any) -> int | None:
    size = _read_field(attachment, "size")
    if isinstance(size, bool) or not isinstance(size, (int, float)):
        return None
    return math.ceil(size) if 0 <= size < math.inf else None


BUILTIN = Builtin(
    name="attachment_limits",
    summary="blocks messages with too many attachments, too large ones, or of other types",
    points=(HookPoint.BEFORE_INBOUND,),
    lane=Lane.GATE,
    build=build,
    example={"max_count": 3, "max_size": "10 MB", "types": ["image/*", "application/pdf"]},
    reads=(InboundMessage,),
)


def attachment_limits(event: Event[Any], message: InboundMessage) -> Block | None:
    """Block a message whose attachments are not taken."""
    return BUILTIN.hook_for(event)(event, message)  # type: ignore[no-any-return]
