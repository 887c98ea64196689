import asyncio
import itertools
from datetime import UTC, datetime

import pytest

from checkrail import Agent, AssistantMessage, Block, HookRegistry, ModelRequest
from checkrail.actions.outside import Outside
from checkrail.builtin import BUILTINS, budget
from checkrail.builtin.budget import HAS_PRICE, keeper
from checkrail.builtin.counters import MemoryAmounts, MemoryCounters
from checkrail.config import load_text
from checkrail.testing import (
    RecordingRegistry,
    ScriptedModel,
    assert_allowed,
    assert_blocked,
)

LANES = {"lane": "gate", "observes": BUILTINS["budget"].observes}
POINTS = BUILTINS["budget"].points
numbers = itertools.count()


class Clock:
    now = datetime(2026, 5, 17, 23, 0, tzinfo=UTC).timestamp()

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def limited(clock, registry=None, name="budget", store=None, **config):
    registry = registry or RecordingRegistry()
    hook = keeper(config, store=store, clock=clock)
    registry.register(hook, *POINTS, **LANES, name=name)
    return registry


async def ask(registry, tokens=0, cost=None, *, model="m", answering=None, **context):
    """Ask as a gateway does: with an id of its own, and an answer if the request is let pass."""
    scope = registry.scope(**{"request_id": f"request-{next(numbers)}", **context})
    verdict = await scope.fire("before_llm_call", ModelRequest(model))
    if verdict.decision == "continue":
        usage = {"total_tokens": tokens} | ({} if cost is None else {"cost": cost})
        await scope.fire("after_llm_call", AssistantMessage("ok", model=answering, usage=usage))
    return verdict


async def allowed(registry, tokens=0, cost=None, **context):
    return (await ask(registry, tokens, cost, **context)).decision == "continue"


async def test_requests_are_let_through_until_the_tokens_are_used_up(clock):
    registry = limited(clock, tokens=100)
    assert await allowed(registry, 60, user="ann")
    assert await allowed(registry, 39, user="ann")
    assert await allowed(registry, 500, user="ann")
    assert not await allowed(registry, user="ann")
    assert await allowed(registry, user="bob")


async def test_a_refusal_says_how_much_of_what_is_used_and_when_it_is_free_again(clock):
    registry = limited(clock, tokens=100)
    await ask(registry, 112, user="ann")
    verdict = await ask(registry, user="ann")
    assert_blocked(verdict, by="budget", status=429, code="budget_exceeded")
    assert verdict.reason == (
        "the budget of 100 tokens per day for user 'ann' is used up, 112 tokens are used: "
        "it is free again at 2026-05-18 00:00 UTC, in 3600 s"
    )


async def test_what_is_spent_counts_in_dollars(clock):
    registry = limited(clock, cost=0.25, per="month", by=[])
    assert await allowed(registry, 10_000, 0.2)
    assert await allowed(registry, 10_000, 0.07)
    verdict = await ask(registry)
    assert verdict.reason == (
        "the budget of 0.25 USD per month is used up, 0.27 USD are used: "
        "it is free again at 2026-06-01 00:00 UTC, in 1213200 s"
    )


async def test_of_two_limits_the_one_that_is_reached_refuses(clock):
    registry = limited(clock, tokens=100, cost=1.0)
    assert await allowed(registry, 10, 1.5)
    assert_blocked(await ask(registry), reason="the budget of 1 USD per day is used up, 1.5 USD")
    other = limited(clock, tokens=100, cost=1.0)
    assert await allowed(other, 100, 0.5)
    assert_blocked(await ask(other), reason="the budget of 100 tokens per day is used up")


@pytest.mark.parametrize(
    ("per", "seconds"),
    [("minute", 60), ("hour", 3600), ("day", 3600), ("week", 3600), ("month", 14 * 86400 + 3600)],
)
async def test_it_begins_anew_with_the_calendar(clock, per, seconds):
    registry = limited(clock, tokens=1, per=per)
    await ask(registry, 1)
    clock.now += seconds - 1
    assert not await allowed(registry)
    clock.now += 1
    assert await allowed(registry)


async def test_per_run_each_run_has_its_own(clock):
    registry = limited(clock, tokens=10, per="run")
    await ask(registry, 10, run_id="1", user="ann")
    verdict = await ask(registry, run_id="1", user="ann")
    assert_blocked(verdict, reason="per run for user 'ann' is used up, 10 tokens are used: another")
    assert await allowed(registry, run_id="2", user="ann")


async def test_per_run_without_a_run_the_work_ends_and_says_what_is_missing(clock):
    verdict = await ask(limited(clock, tokens=10, per="run"))
    assert (verdict.decision, verdict.code) == ("fail", "run_id_missing")
    assert "fire its points with a run_id" in verdict.reason


async def test_in_total_it_never_begins_anew(clock):
    registry = limited(clock, tokens=10, per="total", by=["key"])
    key = {"metadata": {"api_key": "key-1"}}
    await ask(registry, 10, **key)
    clock.now += 300 * 86400
    verdict = await ask(registry, **key)
    assert verdict.reason == (
        "the budget of 10 tokens in total for key 'key-1' is used up, 10 tokens are used: "
        "it does not begin anew"
    )


@pytest.mark.parametrize(
    ("by", "context"),
    [
        ("key", {"metadata": {"api_key": "x"}}),
        ("user", {"user": "x"}),
        ("session", {"session_id": "x"}),
        ("agent", {"agent_name": "x"}),
        ("model", {"model": "x"}),
    ],
)
async def test_by(clock, by, context):
    registry = limited(clock, tokens=1, by=[by])
    assert await allowed(registry, 1)
    assert await allowed(registry, 1, **context)
    assert not await allowed(registry, **context)
    assert not await allowed(registry)


async def test_a_model_is_the_one_that_was_asked_whatever_it_calls_itself(clock):
    registry = limited(clock, tokens=10, by=["model"])
    assert await allowed(registry, 10, model="gpt-5", answering="gpt-5-2026-01-01")
    assert not await allowed(registry, model="gpt-5")
    assert await allowed(registry, model="gpt-5-mini")


async def test_models_at_the_same_time_in_one_run_are_told_apart_by_their_names(clock):
    registry = limited(clock, tokens=10, by=["model"])
    scope = registry.scope(run_id="1")
    for model in ("gpt-5", "gpt-5-mini", "o3"):
        assert_allowed(await scope.fire("before_llm_call", ModelRequest(model)))
    for model in ("gpt-5-mini-2026", "gpt-5-2026"):
        message = AssistantMessage("ok", model=model, usage={"total_tokens": 10})
        await scope.fire("after_llm_call", message)
    found = {model: await allowed(registry, model=model) for model in ("gpt-5", "gpt-5-mini", "o3")}
    assert found == {"gpt-5": False, "gpt-5-mini": False, "o3": True}


async def test_its_conditions_hold_for_the_request_whatever_the_answer_says():
    registry = HookRegistry()
    registry.register(budget, config={"tokens": 10}, models=["gpt-5"])
    assert await allowed(registry, 10, model="o3", answering="gpt-5")
    assert await allowed(registry, 10, model="gpt-5", answering="gpt-5-2026-01-01")
    assert not await allowed(registry, model="gpt-5")
    assert await allowed(registry, model="o3")


async def test_without_ids_every_answer_counts(clock):
    registry = limited(clock, tokens=10)
    await registry.fire("after_llm_call", AssistantMessage("ok", usage={"total_tokens": 10}))
    assert not await allowed(registry, request_id=None)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 7, "output_tokens": 3}, 10),
        ({"prompt_tokens": 7, "completion_tokens": 3}, 10),
        ({"total_tokens": 10, "input_tokens": 1}, 10),
        (None, 0),
        ({}, 0),
        ({"total_tokens": "10"}, 0),
        ({"total_tokens": -10}, 0),
        ({"total_tokens": True}, 0),
        ({"total_tokens": float("nan")}, 0),
    ],
)
async def test_tokens_are_counted_under_all_their_names(clock, usage, tokens):
    registry = limited(clock, tokens=10)
    scope = registry.scope(request_id="1")
    await scope.fire("before_llm_call", ModelRequest("m"))
    await scope.fire("after_llm_call", AssistantMessage("ok", usage=usage))
    assert await allowed(registry) is (tokens < 10)


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_an_answer_that_was_refused_was_used_all_the_same(clock, lane):
    registry = limited(clock, tokens=10)
    refused = [Block("no")]
    registry.register(
        lambda event: refused.pop() if refused else None, "after_llm_call", lane=lane, name="no"
    )
    assert await allowed(registry, 10)
    assert not await allowed(registry)


async def test_what_is_given_from_a_cache_costs_nothing(clock):
    registry = RecordingRegistry()
    registry.register(BUILTINS["cache"].make({}), *POINTS, observes=LANES["observes"], name="c")
    limited(clock, registry, tokens=15)
    for _ in range(5):
        await ask_cached(registry, 10)
    assert await allowed(registry, model="other")


async def ask_cached(registry, tokens):
    scope = registry.scope(request_id=f"request-{next(numbers)}")
    verdict = await scope.fire("before_llm_call", ModelRequest("m"))
    assert verdict.decision in ("continue", "replace")
    kept = verdict.value if verdict.decision == "replace" else None
    await scope.fire(
        "after_llm_call", kept or AssistantMessage("ok", usage={"total_tokens": tokens})
    )


async def test_an_answer_is_let_through_that_goes_over_and_only_the_next_is_refused(clock):
    registry = limited(clock, tokens=10)
    scopes = [registry.scope(request_id=f"at-once-{number}") for number in range(3)]
    for scope in scopes:
        assert_allowed(await scope.fire("before_llm_call", ModelRequest("m")))
    for scope in scopes:
        await scope.fire("after_llm_call", AssistantMessage("ok", usage={"total_tokens": 8}))
    assert_blocked(await ask(registry), reason="24 tokens are used")


async def test_each_hook_counts_by_itself_in_one_store(clock):
    store = MemoryAmounts(clock=clock)
    registry = limited(clock, name="small", store=store, tokens=10)
    limited(clock, registry, name="large", store=store, tokens=25)
    assert await allowed(registry, 10)
    assert_blocked(await ask(registry), by="small")
    large = limited(clock, name="large", store=store, tokens=25)
    assert await allowed(large, 15)
    assert_blocked(await ask(large), by="large", reason="25 tokens are used")


async def test_names_cannot_be_chosen_so_that_two_counts_are_one(clock):
    registry = limited(clock, tokens=1, by=["user", "agent"])
    assert await allowed(registry, 1, user='a", "b', agent_name="c")
    assert await allowed(registry, 1, user="a", agent_name='b", "c')
    long = "x" * 10_000
    assert await allowed(registry, 1, user=f"{long}1")
    assert await allowed(registry, 1, user=f"{long}2")
    assert not await allowed(registry, user=f"{long}2")


async def test_in_shadow_it_goes_on_counting_beyond_its_limit(clock):
    store = MemoryAmounts(clock=clock)
    registry = RecordingRegistry()
    hook = keeper({"tokens": 10}, store=store, clock=clock)
    registry.register(hook, *POINTS, **LANES, name="budget", mode="shadow")
    for _ in range(3):
        assert await allowed(registry, 10)
    enforced = limited(clock, store=store, tokens=10)
    assert_blocked(await ask(enforced), reason="30 tokens are used")


async def test_a_store_that_cannot_be_reached_lets_nothing_through(clock):
    class Gone:
        async def used(self, keys, start):
            await asyncio.sleep(0)
            raise ConnectionError("gone")

    verdict = await ask(limited(clock, store=Gone(), tokens=10))
    assert_blocked(verdict, status=500, code="hook_error")


TEXT = "hooks: {before_llm_call: {name: daily, builtin: budget, config: {tokens: 10}}}"


async def test_a_file_counts_in_what_its_project_has_and_goes_on_after_a_reload():
    outside = Outside()
    registry = HookRegistry()
    registry.swap(load_text(TEXT, outside=outside).specs)
    outside.counters = MemoryCounters()  # as a server gives it, when it has begun
    assert await allowed(registry, 10, user="ann")
    registry.swap(load_text(TEXT, outside=outside).specs)
    assert not await allowed(registry, user="ann")


async def test_without_a_project_each_loading_counts_by_itself():
    registry = HookRegistry()
    registry.swap(load_text(TEXT).specs)
    assert await allowed(registry, 10)
    assert not await allowed(registry)
    registry.swap(load_text(TEXT).specs)
    assert await allowed(registry)


async def test_a_rate_limit_of_a_file_counts_there_too():
    text = "hooks: {before_run: {name: two, builtin: rate_limit, config: {limit: 2, by: [key]}}}"
    outside = Outside(counters=MemoryCounters())
    found = []
    for _ in range(3):
        registry = HookRegistry()
        registry.swap(load_text(text, outside=outside).specs)
        found.append((await registry.fire("before_run", {}, metadata={"api_key": "k"})).decision)
    assert found == ["continue", "continue", "block"]


async def test_an_agent_stops_when_its_budget_is_used_up():
    usage = {"total_tokens": 10}
    replies = [AssistantMessage(text, usage=usage) for text in ("one", "two")]
    agent = Agent(ScriptedModel(replies))
    agent.registry.register(budget, config={"tokens": 15, "by": []})
    answers = [await agent.run("?") for _ in range(3)]
    assert [answer.stop_reason for answer in answers] == ["answer", "answer", "block"]
    assert "20 tokens are used" in answers[-1].error


async def test_amounts_whose_time_is_over_are_forgotten(clock):
    store = MemoryAmounts(clock=clock)
    for number in range(5000):
        clock.now += 1
        await store.add({str(number): 1.0}, clock.now, clock.now + 10)
        assert len(store) <= 1024
    assert await store.used(["4999"], clock.now) == [1.0]


async def test_there_are_never_more_amounts_than_the_store_may_hold(clock):
    store = MemoryAmounts(max_keys=5, clock=clock)
    for number in range(50):
        await store.add({str(number): 1.0}, 0.0, clock.now + 1e6)
        assert len(store) <= 5
    assert await store.used(["0", "49"], 0.0) == [0.0, 1.0]


UNKNOWN = {"code": "unknown_price", "status": 403, "by": "budget"}


async def test_a_model_without_a_price_is_blocked_under_a_budget_in_dollars(clock, caplog):
    registry = limited(clock, cost=1)
    assert await allowed(registry, 10, model="m", answering="m-2026", user="ann")
    for _ in range(2):
        verdict = await ask(registry, model="m", user="bob")
        assert_blocked(verdict, **UNKNOWN)
        assert "the price of the model 'm' is not known: add it to gateway.prices" in verdict.reason
    assert await allowed(registry, 10, 0.1, model="other", user="ann")
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("hook 'budget' has a budget in USD, and the price of the model 'm' is ")
    assert "not known: its calls are blocked" in told


@pytest.mark.parametrize("unnamed", [None, ""])
async def test_so_is_one_that_requests_leave_to_the_provider(clock, caplog, unnamed):
    registry = limited(clock, cost=1)
    assert await allowed(registry, 10, model=unnamed, answering="m-2026")
    for _ in range(2):
        verdict = await ask(registry, model=unnamed)
        assert_blocked(verdict, **UNKNOWN)
        assert "the price of a model that is not named is not known" in verdict.reason
    (told,) = [record.getMessage() for record in caplog.records]
    assert "the price of a model that is not named is not known: its calls are blocked" in told


async def test_it_is_let_pass_if_the_budget_says_so_and_told_once(clock, caplog):
    registry = limited(clock, cost=1, unknown_price="allow")
    assert [await allowed(registry, 10, model="m") for _ in range(3)] == [True] * 3
    (told,) = [record.getMessage() for record in caplog.records]
    assert "its calls count nothing (unknown_price: allow)" in told


async def test_a_host_that_has_prices_knows_before_anything_is_paid(clock):
    registry = limited(clock, cost=1)
    scope = registry.scope(request_id="r")
    scope.notes[HAS_PRICE] = {"known"}.__contains__
    assert_blocked(await scope.fire("before_llm_call", ModelRequest("m")), **UNKNOWN)
    assert_allowed(await scope.fire("before_llm_call", ModelRequest("known")))


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": 0}, {"cost": 0.0, "total_tokens": 5}])
async def test_what_used_nothing_or_cost_nothing_says_nothing_of_a_price(clock, usage):
    registry = limited(clock, cost=1)
    scope = registry.scope(request_id="r")
    await scope.fire("before_llm_call", ModelRequest("m"))
    await scope.fire("after_llm_call", AssistantMessage("ok", usage=usage))
    assert await allowed(registry, model="m")


async def test_a_budget_of_tokens_needs_no_price(clock, caplog):
    registry = limited(clock, tokens=100)
    assert [await allowed(registry, 10, model="m") for _ in range(3)] == [True] * 3
    assert not caplog.records


async def test_a_refusal_says_in_seconds_when_it_is_free_again(clock):
    registry = limited(clock, tokens=100)
    await ask(registry, 112)
    assert (await ask(registry)).retry_after == 3600
    forever = limited(clock, tokens=100, per="total")
    await ask(forever, 112)
    assert (await ask(forever)).retry_after is None
