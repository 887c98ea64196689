"""Records as Prometheus metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkrail.engine.errors import CheckrailError
from checkrail.engine.extras import needs
from checkrail.engine.records import HookRecord, RecordKind

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
"""From a hook that only looks at a field to an agent that is asked."""


class PrometheusSink:
    """Counts hook calls, decisions and failures, and measures how long they took.

    Its metrics are in `registry`, or in the one that prometheus_client serves unless told.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        with needs("prometheus-client", "PrometheusSink", "telemetry"):
            import prometheus_client
        into = prometheus_client.REGISTRY if registry is None else registry
        try:
            self._calls = prometheus_client.Counter(
                "checkrail_hook_calls_total",
                "Hook calls that have ended",
                ("point", "hook", "lane"),
                registry=into,
            )
            self._decisions = prometheus_client.Counter(
                "checkrail_hook_decisions_total",
                "What hooks decided; with shadow, what they would have decided",
                ("point", "hook", "decision", "shadow"),
                registry=into,
            )
            self._failures = prometheus_client.Counter(
                "checkrail_hook_failures_total",
                "Hook calls that failed",
                ("point", "hook", "kind"),
                registry=into,
            )
            self._overruns = prometheus_client.Counter(
                "checkrail_hook_overruns_total",
                "Hook calls that held the event loop for longer than their timeout",
                ("point", "hook"),
                registry=into,
            )
            self._durations = prometheus_client.Histogram(
                "checkrail_hook_duration_seconds",
                "How long hook calls took",
                ("point", "hook"),
                registry=into,
                buckets=BUCKETS,
            )
        except ValueError as error:
            message = f"this registry has such metrics already ({error}): share one PrometheusSink"
            raise CheckrailError(message) from None

    def __call__(self, record: HookRecord) -> None:
        """Count one ending."""
        if record.kind is RecordKind.START:
            return
        at = (str(record.point), record.hook)
        self._calls.labels(*at, str(record.lane)).inc()
        self._durations.labels(*at).observe((record.duration_ms or 0.0) / 1000)
        if record.decision is not None:
            self._decisions.labels(*at, str(record.decision), str(record.shadow).lower()).inc()
        if record.overran and record.failure is None:
            self._overruns.labels(*at).inc()
        if record.failure is not None:
            self._failures.labels(*at, record.failure).inc()
