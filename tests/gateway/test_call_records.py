"""Every call of a model leaves one record: whose it was, what it used, and what became of it."""

import json
import threading
from dataclasses import replace

import httpx
import pytest

from checkrail.config.gateway import PriceConfig
from checkrail.engine.outcomes import Block, Continue, Retry
from checkrail.engine.registry import HookRegistry
from checkrail.llm.call_record import countable_usage

from .dialects import EVERY
from .place import PATHS
from .provider import CHAT, MESSAGES, RESPONSES, Fail, Hang, Provider, Raw, Say
from .serving import gateway_at, upstreams_at

APIS = (CHAT, MESSAGES, RESPONSES)
STREAM = {"content-type": "text/event-stream"}
PRICES = (PriceConfig("gpt-*", 1.0, 2.0),)


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


class Kept:
    """The records of a gateway, each of which may come a moment after the answer."""

    def __init__(self):
        self.all = []
        self._came = threading.Semaphore(0)

    def __call__(self, record):
        self.all.append(record)
        self._came.release()

    def next(self):
        assert self._came.acquire(timeout=20), "no record came"
        return self.all[-1]


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def gateway(provider, kept):
    """Open a gateway with some hooks; gives its address."""

    def opened(registry=None, **settings):
        upstreams = [replace(each, provider="maker") for each in upstreams_at(provider)]
        settings = {"prices": PRICES, **settings}
        return gateway_at(*upstreams, registry=registry, call_sinks=[kept], **settings)

    return opened


def body_of(path, *, stream=False, model="gpt-5", **more):
    said = [{"role": "user", "content": "My secret is plum"}]
    given = {"input": said} if path == RESPONSES else {"messages": said}
    limits = {"max_tokens": 50} if path == MESSAGES else {}
    if stream and path == CHAT:
        more["stream_options"] = {"include_usage": True}
    return {"model": model, **given, **limits, "stream": stream, **more}


def watch(point):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="watch", lane="observe")
    return registry


def block(point, reason="never"):
    registry = HookRegistry()
    registry.register(lambda event: Block(reason), point, name="never")
    return registry


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("hooks", [None, "before_llm_call", "after_llm_call", "before_tool_call"])
def test_a_call_is_recorded_with_what_it_used_whatever_hooks_see_of_it(
    gateway, kept, path, stream, hooks
):
    registry = watch(hooks) if hooks else None
    ids = {"x-request-id": "req-1", "x-checkrail-user": "ada", "x-checkrail-session-id": "s-1"}
    ids |= {"authorization": "Bearer sk-secret-of-ada", "x-checkrail-agent": "coder"}
    with gateway(registry) as url:
        answer = httpx.post(url + path, json=body_of(path, stream=stream), headers=ids, timeout=20)
        assert answer.status_code == 200
        record = kept.next()
    assert (record.request_id, record.user_id, record.session_id) == ("req-1", "ada", "s-1")
    assert (record.agent_name, record.path, record.status) == ("coder", path, 200)
    assert record.key.startswith("key-")
    assert (record.model, record.answered_model) == ("gpt-5", "model-1")
    assert (record.upstream, record.provider, record.streamed) == ("here", "maker", stream)
    assert (record.usage["input_tokens"], record.usage["output_tokens"]) == (11, 7)
    assert record.cost == pytest.approx((11 * 1 + 7 * 2) / 1e6)
    assert 0 < record.first_byte_ms <= record.duration_ms
    assert record.reason is None
    assert record.decisions == (None if hooks in (None, "before_tool_call") else {"continue": 1})
    assert "plum" not in repr(record)
    assert "sk-secret" not in repr(record)
    assert len(kept.all) == 1


@pytest.mark.parametrize("way", ["whole", "events", "array"])
@pytest.mark.parametrize("name", ["gemini", "bedrock", "vertex"])
@pytest.mark.parametrize("hooks", [None, "after_llm_call"])
def test_a_call_whose_path_names_the_model_is_recorded_too(gateway, kept, name, way, hooks):
    stream = way != "whole"
    body = EVERY[name].request("plum", stream=stream, model="gpt-5")
    target, body = EVERY[name].sent(PATHS[name], body)
    target = target.partition("?")[0] if way == "array" else target
    with gateway(watch(hooks) if hooks else None) as url:
        assert httpx.post(url + target, json=body, timeout=20).status_code == 200
        record = kept.next()
    assert (record.format, record.path, record.status) == (name, target.partition("?")[0], 200)
    assert (record.model, record.answered_model) == ("gpt-5", "model-1")
    assert record.streamed is stream
    assert (record.usage["input_tokens"], record.usage["output_tokens"]) == (11, 7)
    assert record.cost == pytest.approx((11 * 1 + 7 * 2) / 1e6)
    assert "plum" not in repr(record)


@pytest.mark.parametrize("path", APIS)
def test_a_refusal_is_recorded_with_its_reason_and_the_strictest_decision(
    gateway, kept, provider, path
):
    registry = block("before_llm_call", "not today")
    registry.register(lambda event: Continue(event.value), "before_llm_call", name="fine")
    registry.register(lambda event: Block(), "before_llm_call", name="trial", mode="shadow")
    with gateway(registry) as url:
        assert httpx.post(url + path, json=body_of(path), timeout=20).status_code == 400
        record = kept.next()
    assert (record.status, record.decision, record.reason) == (400, "block", "not today")
    assert record.decisions == {"block": 1}
    assert (record.upstream, record.usage, record.model) == (None, None, "gpt-5")
    assert provider.requests == []


def test_a_blocked_tool_call_counts_though_the_caller_gets_an_answer(gateway, kept, provider):
    provider.say(Say("Sure", calls=[("transfer", {"amount": 5}), ("look", {})]))
    registry = HookRegistry()
    rule = lambda event: Block("finance") if event.value.name == "transfer" else None  # noqa: E731
    registry.register(rule, "before_tool_call", name="limit")
    with gateway(registry) as url:
        assert httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).status_code == 200
        record = kept.next()
    assert (record.status, record.decision, record.reason) == (200, "block", "finance")
    assert record.decisions == {"block": 1, "continue": 1}


def test_rejected_answers_have_cost_something_too(gateway, kept, provider):
    provider.say(Say("first"), Say("second"))
    registry = HookRegistry()
    again = lambda event: Retry("better") if event.value.text == "first" else None  # noqa: E731
    registry.register(again, "after_llm_call", name="again")
    with gateway(registry) as url:
        assert "second" in httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).text
        record = kept.next()
    assert (record.usage["input_tokens"], record.decision) == (22, "retry")
    assert record.cost == pytest.approx(2 * (11 + 14) / 1e6)


def test_what_the_upstream_refuses_is_recorded_with_its_status(gateway, kept, provider):
    provider.say(Fail(429, "slow down, plum"))
    with gateway() as url:
        assert httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).status_code == 429
        record = kept.next()
    assert (record.status, record.usage, record.decision) == (429, None, None)
    assert "plum" not in repr(record)


def test_an_upstream_that_is_not_there_is_recorded_with_the_reason(gateway, kept):
    with gateway() as url:
        body = body_of(CHAT) | {"model": "nobody's"}
        httpx.post(url + CHAT, json=body, timeout=20)
        assert kept.next().status == 200
    with gateway_at(call_sinks=[kept]) as url:
        assert httpx.post(url + CHAT, json=body, timeout=20).status_code == 404
        record = kept.next()
    assert (record.status, record.reason.split(".")[0]) == (
        404,
        "no upstream speaks the API 'chat'",
    )


@pytest.mark.parametrize("hooks", [None, "after_llm_call"])
def test_a_caller_who_goes_away_before_the_answer_is_recorded_without_a_status(
    gateway, kept, provider, hooks
):
    provider.say(Hang())
    with gateway(watch(hooks) if hooks else None) as url:
        with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
            client.post(url + CHAT, json=body_of(CHAT), timeout=httpx.Timeout(20, read=0.2))
        record = kept.next()
    assert (record.status, record.reason) == (None, "the caller went away")


@pytest.mark.parametrize("hooks", [None, "after_llm_call"])
@pytest.mark.parametrize("path", APIS)
def test_a_stream_that_breaks_off_is_recorded_with_what_it_had_used(
    gateway, kept, provider, path, hooks
):
    provider.say(Say("Hello there", dies=3))
    with gateway(watch(hooks) if hooks else None) as url:
        answer = httpx.post(url + path, json=body_of(path, stream=True), timeout=20)
        record = kept.next()
    assert (answer.status_code, record.status) == (200, 200)
    assert "broke off in the middle of its answer" in record.reason
    assert record.answered_model == "model-1"


def test_a_stream_cut_into_bytes_is_counted_like_any_other(gateway, kept, provider):
    provider.say(Say("Hello there", cut=1))
    with gateway() as url:
        httpx.post(url + CHAT, json=body_of(CHAT, stream=True), timeout=20)
        assert kept.next().usage["output_tokens"] == 7


def test_an_answer_that_is_none_is_passed_on_and_recorded(gateway, kept, provider):
    for data in (b"no json", b"[1]", b'{"choices": 5, "usage": "many"}'):
        provider.say(Raw([data], headers={"content-type": "application/json"}))
        with gateway() as url:
            assert httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).content == data
            assert (kept.next().status, kept.all[-1].usage) == (200, None)


def test_a_request_that_is_none_is_recorded_with_its_refusal(gateway, kept):
    with gateway(watch("before_llm_call")) as url:
        assert httpx.post(url + CHAT, content=b"{", timeout=20).status_code == 400
        record = kept.next()
    assert (record.status, record.model) == (400, None)


@pytest.mark.parametrize("model", [7, None, "m" * 5000, "a\0b", "\ud800", ["m"]])
def test_whatever_is_named_as_a_model_is_no_trouble(gateway, kept, model):
    with gateway() as url:
        httpx.post(url + CHAT, content=json.dumps(body_of(CHAT, model=model)), timeout=20)
        record = kept.next()
    assert record.model is None or len(record.model) <= 256


def test_what_is_not_a_call_of_a_model_leaves_no_record(gateway, kept):
    with gateway() as url:
        assert httpx.get(url + "/v1/models", timeout=20).status_code == 200
        assert httpx.post(url + "/v1/files", json={}, timeout=20).status_code == 200
        assert httpx.get(url + "/ok", timeout=20).status_code == 200
        large = "x" * (33 * 2**20)
        assert httpx.post(url + CHAT, content=large, timeout=60).status_code == 413
    assert kept.all == []


def test_a_usage_is_kept_as_numbers_and_nothing_else():
    odd = {"input_tokens": 3, "note": "plum", "cost": float("inf"), "output_tokens": -1, 5: 6}
    odd |= {"details": {"cached_tokens": 2, "why": ["x"]}, "a b": 1, "huge": 10**30, "on": True}
    assert countable_usage(odd) == {"input_tokens": 3, "details": {"cached_tokens": 2}}
    assert countable_usage(None) == {}


@pytest.mark.parametrize("path", APIS)
def test_what_an_upstream_says_of_a_request_is_not_recorded(gateway, kept, provider, path):
    said = {"type": "error", "error": {"message": "I do not like plum", "type": "x"}}
    provider.say(Raw([f"event: error\ndata: {json.dumps(said)}\n\n".encode()], headers=STREAM))
    with gateway(block("after_llm_call")) as url:
        httpx.post(url + path, json=body_of(path, stream=True), timeout=20)
        record = kept.next()
    assert record.reason
    assert "plum" not in repr(record)


def test_a_sink_that_fails_takes_nothing_from_the_caller(provider, caplog):
    def fail(record):
        raise OSError("the disk is full")

    with gateway_at(*upstreams_at(provider), call_sinks=[fail]) as url:
        assert httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).is_success
        assert httpx.post(url + CHAT, json=body_of(CHAT), timeout=20).is_success
    assert "a call was not recorded" in caplog.text
