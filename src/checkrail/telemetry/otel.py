"""Records as OpenTelemetry spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkrail.engine.records import HookRecord, RecordKind
from checkrail.extras import needs

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

NANOSECONDS = 1_000_000_000


class OpenTelemetrySink:
    """Makes a span of each hook call that has ended, under the span that is current then.

    A span tells what was decided and how long it took; never a value, a reason or the text of an
    error, which may quote one.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        with needs("opentelemetry-api", "OpenTelemetrySink", "telemetry"):
            from opentelemetry import trace

        self._tracer = tracer or trace.get_tracer("checkrail")
        self._failed = trace.StatusCode.ERROR

    def __call__(self, record: HookRecord) -> None:
        """Make the span of one ending."""
        if record.kind is RecordKind.START:
            return
        end = int(record.time * NANOSECONDS)
        span = self._tracer.start_span(
            f"hook {record.hook}",
            start_time=end - int((record.duration_ms or 0.0) * NANOSECONDS / 1000),
            attributes=attributes_of(record),
        )
        if record.failure is not None:
            span.set_status(self._failed, record.failure)
        span.end(end)


def attributes_of(record: HookRecord) -> dict[str, Any]:
    """Return the attributes of a record's span."""
    told = {
        "point": str(record.point),
        "hook": record.hook,
        "lane": str(record.lane),
        "mode": record.mode,
        "shadow": record.shadow,
        "decision": record.decision and str(record.decision),
        "failure": record.failure,
        **record.ids,
    }
    return {f"checkrail.{name}": value for name, value in told.items() if value is not None}
