import asyncio
import itertools

import pytest

from checkrail import (
    Agent,
    AssistantMessage,
    Block,
    Continue,
    HookRegistry,
    ModelRequest,
    Replace,
    Retry,
    Stop,
    ToolCall,
)
from checkrail.builtin import BUILTINS, cache
from checkrail.builtin.cache import MemoryAnswers, caching
from checkrail.config import ConfigError, load_text
from checkrail.testing import RecordingRegistry, ScriptedModel

ASKED = [{"role": "user", "content": "How tall is it?"}]
ANSWER = AssistantMessage("330 m", usage={"total_tokens": 9}, stop_reason="stop")
LANES = {"lane": "transform", "observes": BUILTINS["cache"].observes, "name": "cache"}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def cached(clock=None, registry=None, **config):
    registry = registry or RecordingRegistry()
    hook = caching(config, clock=clock or Clock())
    registry.register(hook, *BUILTINS["cache"].points, **LANES)
    return registry


numbers = itertools.count()


async def ask(registry, answer=ANSWER, messages=ASKED, *, ids=None, **fields):
    """Ask as a loop does; give what was answered without a model, and in the end."""
    given = {"request_id": f"request-{next(numbers)}"} if ids is None else ids
    scope = registry.scope(**{**given, **fields.pop("context", {})})
    request = ModelRequest(**{"model": "m", "messages": messages, **fields})
    before = await scope.fire("before_llm_call", request)
    if before.decision == "block":
        return None
    kept = before.value if before.decision == "replace" else None
    if answer is not None or kept is not None:
        await scope.fire("after_llm_call", kept or answer)
    return kept


async def test_an_identical_request_gets_the_answer_that_the_first_one_had():
    registry = cached()
    assert await ask(registry) is None
    kept = await ask(registry, answer=None)
    assert (kept.content, kept.stop_reason) == ("330 m", "stop")


async def test_an_answer_that_is_given_again_uses_nothing_and_says_what_it_is():
    registry = cached()
    await ask(registry)
    kept = await ask(registry)
    assert kept.usage == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert kept.metadata == {"cached": True}


@pytest.mark.parametrize(
    "other",
    [
        {"model": "other"},
        {"provider": "groq"},
        {"messages": [{"role": "user", "content": "How old is it?"}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"params": {"temperature": 1}},
        {"context": {"user": "ann"}},
        {"context": {"metadata": {"api_key": "key-1"}}},
    ],
)
async def test_a_request_that_differs_in_anything_is_asked_anew(other):
    registry = cached()
    await ask(registry)
    assert await ask(registry, answer=None, **other) is None


async def test_whether_it_is_streamed_makes_no_difference():
    registry = cached()
    await ask(registry, stream=True, params={"stream_options": {"include_usage": True}, "a": 1})
    assert await ask(registry, params={"a": 1})


async def test_the_order_of_keys_makes_no_difference():
    registry = cached()
    await ask(registry, params={"a": 1, "b": 2})
    assert await ask(registry, params={"b": 2, "a": 1})


async def test_users_do_not_get_each_others_answers_unless_that_is_said():
    registry = cached()
    await ask(registry, context={"user": "ann"})
    assert await ask(registry, answer=None, context={"user": "bob"}) is None
    assert await ask(registry, answer=None) is None
    assert await ask(registry, context={"user": "ann"})
    shared = cached(shared=True)
    await ask(shared, context={"user": "ann"})
    assert await ask(shared, context={"user": "bob"})


async def test_an_answer_is_forgotten_after_its_time(clock):
    registry = cached(clock, ttl="1m")
    await ask(registry)
    clock.now += 59
    assert await ask(registry)
    clock.now += 1
    assert await ask(registry, answer=None) is None


async def test_beyond_the_most_that_are_kept_the_one_goes_that_was_used_the_longest_ago(clock):
    registry = cached(clock, max_entries=2)
    for model in ("a", "b"):
        await ask(registry, model=model)
    assert await ask(registry, model="a")
    await ask(registry, model="c")
    found = [await ask(registry, answer=None, model=model) is not None for model in "abc"]
    assert found == [True, False, True]


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("outcome", [Block("no"), Retry("again"), Stop(AssistantMessage("bye"))])
async def test_an_answer_that_hooks_did_not_let_pass_is_not_kept(outcome, lane):
    registry = cached()
    registry.register(lambda event: outcome, "after_llm_call", lane=lane, name="no")
    await ask(registry)
    assert await ask(registry, answer=None) is None


async def test_the_answer_after_a_retry_is_not_kept_for_the_first_request():
    registry, wanted = cached(), iter([Retry("again"), None])
    registry.register(lambda event: next(wanted), "after_llm_call", lane="gate", name="picky")
    ids = {"request_id": "1"}
    await ask(registry, ids=ids)
    scope = registry.scope(**ids)
    await scope.fire("after_llm_call", AssistantMessage("better"))
    assert await ask(registry, answer=None) is None


@pytest.mark.parametrize(
    "answer", [AssistantMessage(), AssistantMessage("33", metadata={"cut_off": "the caller left"})]
)
async def test_an_answer_that_is_none_or_not_whole_is_not_kept(answer):
    registry = cached()
    await ask(registry, answer)
    assert await ask(registry, answer=None) is None


async def test_a_request_that_failed_leaves_nothing():
    registry = cached()
    assert await ask(registry, answer=None) is None
    assert await ask(registry, answer=None) is None


async def test_several_answers_at_once_are_not_kept():
    registry = cached()
    await ask(registry, params={"n": 2})
    assert await ask(registry, answer=None, params={"n": 2}) is None


async def test_without_ids_nothing_is_kept_for_nobody_knows_which_answer_is_whose():
    registry = cached()
    await ask(registry, ids={})
    assert await ask(registry, answer=None, ids={}) is None


async def test_answers_at_the_same_time_are_never_mixed_up():
    registry = cached()
    scope = registry.scope(run_id="one-for-both")
    requests = [ModelRequest(name, messages=ASKED) for name in ("a", "b")]
    for request in requests:
        await scope.fire("before_llm_call", request)
    for name in ("b", "a"):
        await scope.fire("after_llm_call", AssistantMessage(name))
    for name in ("a", "b"):
        assert await ask(registry, answer=None, model=name) is None


async def test_a_gate_is_not_passed_by_being_kept():
    registry = cached()
    await ask(registry)
    registry.register(lambda event: Block("closed"), "before_llm_call", lane="gate", name="closed")
    verdict = await registry.fire("before_llm_call", ModelRequest("m", messages=ASKED))
    assert (verdict.decision, verdict.hook) == ("block", "closed")


async def test_hooks_on_answers_see_a_kept_answer_as_the_model_gave_it():
    registry = cached()

    def signed(event, message):
        return Continue(AssistantMessage(f"{message.content}!"))

    registry.register(signed, "after_llm_call", name="signed")
    scope = registry.scope(request_id="1")
    await scope.fire("before_llm_call", ModelRequest("m", messages=ASKED))
    first = await scope.fire("after_llm_call", ANSWER)
    kept = await ask(registry)
    second = await registry.fire("after_llm_call", kept, request_id="2")
    assert first.value.content == second.value.content == "330 m!"


async def test_what_was_redacted_is_not_kept_in_its_earlier_form():
    registry = cached()

    def hide(event, message):
        return Continue(AssistantMessage("[hidden]"), redacted=True)

    registry.register(hide, "after_llm_call", name="hide")
    await ask(registry, AssistantMessage("a secret"))
    assert (await ask(registry)).content == "[hidden]"


async def test_tool_calls_of_a_kept_answer_belong_to_the_run_that_gets_it():
    registry = cached(shared=True)
    calls = [ToolCall("1", "lookup", {"city": "Paris"}, context="ann's run")]
    await ask(registry, AssistantMessage(tool_calls=calls))
    (call,) = (await ask(registry, ids={"run_id": "bob's run"})).tool_calls
    assert (call.id, call.name, call.args, call.context) == (
        "1",
        "lookup",
        {"city": "Paris"},
        "bob's run",
    )


async def test_what_another_hook_answers_before_it_is_not_kept():
    registry = RecordingRegistry()
    closed = [Replace(AssistantMessage("closed"))]
    registry.register(lambda event: closed.pop() if closed else None, "before_llm_call", name="x")
    cached(registry=registry)
    assert (await ask(registry)).content == "closed"
    assert await ask(registry, answer=None) is None


async def test_its_conditions_hold_for_the_request_whatever_the_answer_says():
    registry = HookRegistry()
    registry.register(
        cache,
        config={"ttl": 60},
        models=["gpt-5"],
        when=lambda event: event.value.params.get("temperature") == 0,
    )
    answer = AssistantMessage("330 m", model="gpt-5-2026-01-01")
    cold = {"params": {"temperature": 0}}
    await ask(registry, answer, model="gpt-5", **cold)
    assert await ask(registry, answer=None, model="gpt-5", **cold)
    await ask(registry, answer, model="gpt-5")
    assert await ask(registry, answer=None, model="gpt-5") is None
    await ask(registry, answer, model="o3", **cold)
    assert await ask(registry, answer=None, model="o3", **cold) is None


async def test_in_shadow_nothing_is_given_but_it_is_told_what_would_have_been():
    registry = RecordingRegistry()
    hook = caching({}, clock=Clock())
    registry.register(hook, *BUILTINS["cache"].points, **LANES, mode="shadow")
    await ask(registry)
    assert await ask(registry, answer=None) is None
    (record,) = [each for each in registry.records if each.decision == "replace"]
    assert record.shadow


async def test_a_store_of_ones_own():
    class Kept(dict):
        async def get(self, key):
            await asyncio.sleep(0)
            return dict.get(self, key)

        async def put(self, key, answer, ttl):
            await asyncio.sleep(0)
            self[key] = answer
            self.ttl = ttl

    registry, store = RecordingRegistry(), Kept()
    hook = caching({"ttl": "1h"}, store=store)
    registry.register(hook, *BUILTINS["cache"].points, **LANES)
    await ask(registry)
    assert (await ask(registry)).content == "330 m"
    assert (len(store), store.ttl) == (1, 3600.0)


async def test_an_answer_that_is_kept_again_counts_once(clock):
    answers = MemoryAnswers(2, clock)
    for _ in range(3):
        await answers.put("a", ANSWER, 10)
    assert len(answers) == 1


async def test_an_agent_is_answered_without_its_model():
    agent = Agent(ScriptedModel(["330 m"]))
    agent.registry.register(cache, config={})
    first, second = [await agent.run("How tall is it?") for _ in range(2)]
    assert (first.content, second.content) == ("330 m", "330 m")


async def test_in_a_file_one_entry_stands_at_both_of_its_points():
    loaded = load_text("hooks: {pre_request: {builtin: cache, config: {ttl: 1h}}}")
    registry = HookRegistry()
    registry.swap(loaded.specs)
    assert [registry.bound_hooks(point)[0].lane for point in BUILTINS["cache"].points] == [
        "transform",
        "observe",
    ]
    await ask(registry)
    assert (await ask(registry)).content == "330 m"


def test_under_the_point_where_it_only_looks_on_it_is_refused():
    with pytest.raises(ConfigError, match=r"cache under post_response.*under before_llm_call"):
        load_text("hooks: {post_response: {builtin: cache}}")


@pytest.mark.parametrize("above", ["on_error: block", "defaults: {on_error: block}"])
def test_what_becomes_of_a_failure_can_be_said_where_it_acts(above):
    own = above if above.startswith("on_error") else ""
    top = "" if own else above
    text = f"{top}\nhooks: {{before_llm_call: {{builtin: cache, {own}}}}}"
    (spec,) = load_text(text).specs
    assert spec.on_error["error"] == "block"
