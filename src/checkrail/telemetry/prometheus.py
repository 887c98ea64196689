"""Records as Prometheus metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkrail.engine.errors import CheckrailError
from checkrail.engine.records import HookRecord, RecordKind
from checkrail.extras import needs
from checkrail.llm.call_record import CallRecord

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
"""From a hook that only looks at a field to an agent that is asked."""

CALL_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""From a refusal to the longest answer."""


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


class CallMetrics:
    """Counts the gateway's calls, what they used as far as it is known, and how long they took."""

    only_counts = True
    """Whether nothing has to be read of a call for this alone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Histogram

        at = ("format", "upstream")
        self._calls = Counter(
            "checkrail_gateway_calls_total",
            "Calls of models that are over, by the status of the answer and the strictest decision",
            (*at, "status", "decision"),
            registry=registry,
        )
        self._tokens = Counter(
            "checkrail_gateway_tokens_total",
            "Tokens that answers used",
            (*at, "kind"),
            registry=registry,
        )
        self._cost = Counter(
            "checkrail_gateway_cost_usd_total", "What answers cost", at, registry=registry
        )
        self._durations = Histogram(
            "checkrail_gateway_call_duration_seconds",
            "How long calls took, to the last byte",
            at,
            registry=registry,
            buckets=CALL_BUCKETS,
        )

    def __call__(self, record: CallRecord) -> None:
        """Count a call."""
        at = (record.format, record.upstream or "")
        status = "" if record.status is None else str(record.status)
        self._calls.labels(*at, status, record.decision or "").inc()
        self._durations.labels(*at).observe(record.duration_ms / 1000)
        for kind in ("input", "output"):
            if count := (record.usage or {}).get(f"{kind}_tokens"):
                self._tokens.labels(*at, kind).inc(count)
        if record.cost:
            self._cost.labels(*at).inc(record.cost)
