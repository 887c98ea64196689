import sys
import time

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from checkrail import Block, CheckrailError, HookRegistry, ModelRequest
from checkrail.telemetry import PrometheusSink

AT = {"point": "before_run", "hook": "mine"}


@pytest.fixture
def metrics():
    return CollectorRegistry()


@pytest.fixture
def registry(metrics):
    return HookRegistry(PrometheusSink(metrics))


async def test_calls_and_decisions_are_counted(registry, metrics):
    registry.register(
        lambda event, value: Block("no") if value["n"] > 1 else None,
        "before_run",
        name="mine",
    )
    for number in range(5):
        await registry.fire("before_run", {"n": number})
    calls = {**AT, "lane": "transform"}
    assert metrics.get_sample_value("checkrail_hook_calls_total", calls) == 5
    name = "checkrail_hook_decisions_total"
    decided = {**AT, "shadow": "false"}
    assert metrics.get_sample_value(name, {**decided, "decision": "continue"}) == 2
    assert metrics.get_sample_value(name, {**decided, "decision": "block"}) == 3


async def test_what_a_shadow_would_have_done_is_counted_apart(registry, metrics):
    registry.register(lambda event: Block("no"), "before_run", name="mine", mode="shadow")
    await registry.fire("before_run", {})
    name = "checkrail_hook_decisions_total"
    labels = {**AT, "decision": "block"}
    assert metrics.get_sample_value(name, {**labels, "shadow": "true"}) == 1
    assert metrics.get_sample_value(name, {**labels, "shadow": "false"}) is None


async def test_failures_are_counted_by_kind(registry, metrics):
    def broken(event):
        raise ValueError("no")

    registry.register(broken, "before_llm_call", name="mine")
    registry.register(lambda event: "text", "before_run", name="wrong", on_error="continue")
    await registry.fire("before_llm_call", ModelRequest())
    await registry.fire("before_run", {})
    name = "checkrail_hook_failures_total"
    labels = {"point": "before_llm_call", "hook": "mine", "kind": "error"}
    assert metrics.get_sample_value(name, labels) == 1
    labels = {"point": "before_run", "hook": "wrong", "kind": "invalid"}
    assert metrics.get_sample_value(name, labels) == 1
    assert "checkrail_hook_decisions_total{" not in generate_latest(metrics).decode()


async def test_hooks_that_hold_the_event_loop_are_counted(registry, metrics):
    registry.register(lambda event: time.sleep(0.02), "before_run", name="slow", timeout=0.01)
    registry.register(lambda event: None, "before_run", name="quick")
    await registry.fire("before_run", {})
    name = "checkrail_hook_overruns_total"
    assert metrics.get_sample_value(name, {"point": "before_run", "hook": "slow"}) == 1
    assert metrics.get_sample_value(name, {"point": "before_run", "hook": "quick"}) is None


async def test_durations_are_measured(registry, metrics):
    registry.register(lambda event: None, "before_run", name="mine")
    verdict = await registry.fire("before_run", {})
    assert metrics.get_sample_value("checkrail_hook_duration_seconds_count", AT) == 1
    total = metrics.get_sample_value("checkrail_hook_duration_seconds_sum", AT)
    assert total == pytest.approx(verdict.records[-1].duration_ms / 1000)


async def test_the_default_registry_is_used_unless_said():
    sink = PrometheusSink()
    try:
        hooks = HookRegistry(sink)
        hooks.register(lambda event: None, "before_run", name="mine")
        await hooks.fire("before_run", {})
        assert b'checkrail_hook_calls_total{hook="mine"' in generate_latest()
    finally:
        for collector in (sink._calls, sink._decisions, sink._failures, sink._durations):
            prometheus_client.REGISTRY.unregister(collector)


def test_a_second_sink_for_the_same_registry_is_told_to_share(metrics):
    PrometheusSink(metrics)
    with pytest.raises(CheckrailError, match="share one PrometheusSink"):
        PrometheusSink(metrics)


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(CheckrailError, match=r'pip install "checkrail\[telemetry\]"'):
        PrometheusSink()
