"""The metrics of a gateway that runs alone: those of its hooks, and of its calls."""

from __future__ import annotations

import importlib.util

from checkrail.engine.registry import HookRegistry
from checkrail.telemetry.prometheus import CallMetrics, PrometheusSink

WITHOUT = 'metrics need prometheus-client: pip install "checkrail[telemetry]"'


class GatewayMetrics:
    """Counts what a gateway does, and writes it for Prometheus."""

    def __init__(self, registry: HookRegistry) -> None:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

        self.content_type = CONTENT_TYPE_LATEST
        self._registry = CollectorRegistry()
        self.count_call = CallMetrics(self._registry)
        registry.sinks = (*registry.sinks, PrometheusSink(self._registry))

    def render(self) -> bytes:
        """Return the metrics of this process."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)


def open_metrics(registry: HookRegistry) -> GatewayMetrics | None:
    """Return the metrics of a gateway; None where the package for them is not installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        return None
    return GatewayMetrics(registry)
