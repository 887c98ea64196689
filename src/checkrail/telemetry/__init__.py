"""Where records go: give one of these to a registry as its `sink`."""

from checkrail.telemetry.jsonl import JsonLinesSink
from checkrail.telemetry.log import LogSink
from checkrail.telemetry.otel import OpenTelemetrySink
from checkrail.telemetry.prometheus import PrometheusSink

__all__ = ["JsonLinesSink", "LogSink", "OpenTelemetrySink", "PrometheusSink"]
