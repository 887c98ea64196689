import asyncio
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from checkrail import Block, CheckrailError, Continue, HookRegistry, ModelRequest
from checkrail.telemetry import OpenTelemetrySink


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("tests")


@pytest.fixture
def registry(tracer):
    return HookRegistry(OpenTelemetrySink(tracer))


def spans(exporter):
    return [span for span in exporter.get_finished_spans() if span.name.startswith("hook ")]


async def test_a_hook_call_is_one_span(registry, exporter):
    registry.register(lambda event: Block("no"), "before_run", name="limit", lane="gate")
    await registry.fire("before_run", {}, run_id="r1", agent_name="a")
    [span] = spans(exporter)
    assert span.name == "hook limit"
    assert dict(span.attributes) == {
        "checkrail.point": "before_run",
        "checkrail.hook": "limit",
        "checkrail.lane": "gate",
        "checkrail.mode": "enforce",
        "checkrail.shadow": False,
        "checkrail.decision": "block",
        "checkrail.run_id": "r1",
        "checkrail.agent_name": "a",
    }
    assert span.status.status_code is trace.StatusCode.UNSET


async def test_a_span_has_the_times_of_the_call(registry, exporter):
    async def slow(event):
        await asyncio.sleep(0.02)

    registry.register(slow, "before_run")
    record = (await registry.fire("before_run", {})).records[-1]
    [span] = spans(exporter)
    assert span.end_time / 1e9 == pytest.approx(record.time, abs=1)
    took = (span.end_time - span.start_time) / 1e6
    assert took == pytest.approx(record.duration_ms, abs=0.01)


async def test_it_stands_under_the_current_span(registry, exporter, tracer):
    registry.register(lambda event: None, "before_run", name="one")
    with tracer.start_as_current_span("run") as parent:
        await registry.fire("before_run", {})
    await registry.fire("before_run", {})
    within, without = spans(exporter)
    assert within.parent.span_id == parent.get_span_context().span_id
    assert within.context.trace_id == parent.get_span_context().trace_id
    assert without.parent is None


async def test_a_failure_is_an_error(registry, exporter):
    def broken(event):
        raise ValueError("top-secret")

    registry.register(broken, "before_llm_call", on_error="continue")
    await registry.fire("before_llm_call", ModelRequest())
    [span] = spans(exporter)
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == "error"
    assert span.attributes["checkrail.failure"] == "error"
    assert "checkrail.decision" not in span.attributes


async def test_a_timeout_is_an_error(registry, exporter):
    async def late(event):
        await asyncio.sleep(10)

    registry.register(late, "before_run", timeout=0.05)
    await registry.fire("before_run", {})
    [span] = spans(exporter)
    assert span.status.description == span.attributes["checkrail.failure"] == "timeout"


async def test_a_shadow_says_so(registry, exporter):
    registry.register(lambda event: Block("no"), "before_run", name="tried", mode="shadow")
    await registry.fire("before_run", {})
    [span] = spans(exporter)
    assert span.attributes["checkrail.shadow"] is True
    assert span.attributes["checkrail.mode"] == "shadow"


async def test_no_value_reason_or_error_text_is_told(registry, exporter):
    def broken(event):
        raise ValueError("top-secret")

    registry.register(lambda event: Continue({"a": "top-secret"}), "before_run", name="change")
    registry.register(lambda event: Block("top-secret"), "before_run", name="gate", lane="gate")
    registry.register(broken, "before_run", lane="observe")
    await registry.fire("before_run", {"b": "top-secret"})
    assert len(spans(exporter)) == 3
    assert "top-secret" not in "".join(span.to_json() for span in spans(exporter))


async def test_without_a_tracer_it_takes_the_global_one():
    registry = HookRegistry(OpenTelemetrySink())
    registry.register(lambda event: Block("no"), "before_run", name="limit")
    assert (await registry.fire("before_run", {})).reason == "no"


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(CheckrailError, match=r'pip install "checkrail\[telemetry\]"'):
        OpenTelemetrySink()
