"""What it costs to redact a conversation that is sent again, and what is remembered of it."""

import asyncio
import threading
from collections import Counter
from time import thread_time

import pytest

from checkrail import HookRegistry, ModelRequest, ToolResult
from checkrail.config import load_text
from checkrail.llm.scrubber import IN_SIGHT, Scrubber, TextMemory
from checkrail.regex import Regex
from checkrail.turns import SLICE, finish_steps, run_in_slices

KEY = "sk-" + "a1B2c3D4e5" * 3
MASKED = "[redacted:secrets]"
FILES = [f"line {number} of a file, " * 40 for number in range(50)]


def searched(monkeypatch, kinds=("secrets",)):
    """Return a scrubber, and the texts that it searches."""
    made, texts = Scrubber(kinds, {}, "[redacted:{kind}]"), []
    [search] = made._searches

    def noted(text):
        texts.append(text)
        return (yield from search(text))

    monkeypatch.setattr(made, "_searches", [noted])
    return made, texts


def request_of(texts, **more):
    messages = [{"role": "user", "content": text} for text in texts]
    return ModelRequest(messages=messages, **more)


def test_a_text_is_searched_once(monkeypatch):
    made, texts = searched(monkeypatch)
    finish_steps(made.scrub(request_of(FILES)))
    assert sorted(texts) == sorted(FILES)
    texts.clear()
    assert finish_steps(made.scrub(request_of([*FILES, "and what is new in it, of some length"])))
    assert texts == ["and what is new in it, of some length"]


def test_what_stands_in_the_request_and_on_the_wire_is_searched_once(monkeypatch):
    made, texts = searched(monkeypatch)
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in FILES]
    request = request_of(FILES, raw={"messages": messages})
    finish_steps(made.scrub(request))
    assert len(texts) == len(FILES)


@pytest.mark.parametrize("size", [10, 10_000, 200_000])
def test_a_secret_comes_out_the_same_each_time(size):
    made = Scrubber(["secrets"], {}, "[redacted:{kind}]")
    filler = "nothing to see " * (size // 15)
    request = request_of([f"{filler}{KEY} {filler}", "clean " * 20])
    first, again = (finish_steps(made.scrub(request)) for _ in range(2))
    assert first.messages[0]["content"] == f"{filler}{MASKED} {filler}"
    assert first == again
    assert again.messages[1] is request.messages[1]


@pytest.mark.parametrize("texts", [["[" * 3000], [f"{number}" for number in range(300)]])
async def test_patterns_that_find_what_others_have_put_there_hold_nobody_up(monkeypatch, texts):
    """Each label is found letter by letter by the next pattern, and becomes as many labels."""
    made = Scrubber([], {"a": r"\w", "b": ".", "c": r"\w|[^x]"}, "[redacted:{kind}]")
    here, turns, sub = threading.get_ident(), [0], Regex.sub

    def noted(pattern, label, text):
        if threading.get_ident() == here:
            turns[-1] += len(text)
        return sub(pattern, label, text)

    async def count_turns():
        while True:
            turns.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(Regex, "sub", noted)
    others = asyncio.create_task(count_turns())
    await run_in_slices(made.scrub(texts))
    others.cancel()
    assert max(turns) < 40_000


def test_a_memory_knows_one_name_from_another():
    made = Scrubber(["secrets"], {}, "[redacted:{kind}]")
    word = "correct horse battery staple of somebody"
    results = [finish_steps(made.scrub({key: word})) for key in ("title", "password", "title")]
    assert results == [{"title": word}, {"password": MASKED}, {"title": word}]


def test_hooks_do_not_share_what_they_found():
    text = f"write to ann@example.com about {KEY}"
    kinds = (["email"], ["secrets"], ["email", "secrets"])
    made = [Scrubber(each, {}, "<{kind}>") for each in kinds]
    for _ in range(2):
        assert [finish_steps(each.scrub(text)) for each in made] == [
            text.replace("ann@example.com", "<email>"),
            text.replace(KEY, "<secrets>"),
            "write to <email> about <secrets>",
        ]


async def test_rules_that_are_loaded_again_search_again():
    registry = HookRegistry()
    told = "a badge B-123456 that only the newer rules know of"
    for patterns, left in (("{}", told), ("{badge: 'B-[0-9]+'}", told.replace("B-123456", "#"))):
        config = f"{{kinds: [card], patterns: {patterns}, with: '#'}}"
        text = f"hooks: {{after_tool_call: {{builtin: redact, config: {config}}}}}"
        registry.swap(load_text(text).specs)
        for _ in range(2):
            verdict = await registry.fire("after_tool_call", ToolResult("1", "read", told))
            assert verdict.value.content == left


def test_the_memory_is_bounded():
    memory = TextMemory(kept=3, weight=100)
    texts = [f"{number} " * 20 for number in range(10, 15)]
    for text in texts:
        memory.store(text, text)
    assert [memory.find(text) for text in texts] == [None, None, *texts[2:]]
    for text in texts:
        memory.store(text, "*" * 40)
    assert [memory.find(text) for text in texts] == [None, None, None, "*" * 40, "*" * 40]
    memory.store("z" * 50, "*" * 101)
    assert memory.find("z" * 50) is None


def test_a_digest_is_of_no_use_to_another_process():
    one, other = TextMemory(), TextMemory()
    assert one._digest("a" * 40) != other._digest("a" * 40)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%s"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,%s"}},
        {"type": "input_image", "image_url": "data:image/png;base64,%s"},
        {"type": "input_audio", "input_audio": {"format": "wav", "data": "%s"}},
    ],
)
def test_base64_is_left_alone(monkeypatch, part):
    made, texts = searched(monkeypatch)

    def filled(item, data):
        if isinstance(item, dict):
            return {key: filled(inner, data) for key, inner in item.items()}
        return item.replace("%s", data)

    image = filled(part, "iVBORw0KGgo/" * 200 + "==")
    request = request_of([[image]])
    assert finish_steps(made.scrub(request)) is request
    assert not [text for text in texts if len(text) > 100]
    written = request_of([[filled(part, f"iVBORw0KGgo/ {KEY} " * 100)]])
    assert KEY not in str(finish_steps(made.scrub(written)))


async def test_others_have_their_turn_while_a_long_history_is_searched():
    registry = HookRegistry()
    registry.swap(load_text("hooks: {before_llm_call: {builtin: redact}}").specs)
    history = [f"{number} " + "some words of code(); " * 5_000 for number in range(10)]
    going = asyncio.create_task(registry.fire("before_llm_call", request_of(history)))
    rounds = 0
    while not going.done():
        rounds += 1
        await asyncio.sleep(0)
    assert rounds > 10
    assert (await going).decision == "continue"


def test_what_is_known_of_a_long_history_is_looked_up_in_steps(monkeypatch):
    made = Scrubber(["secrets"], {}, "[redacted:{kind}]")
    history = [f"{number} " + "some words of code(); " * 5_000 for number in range(20)]
    request = request_of([*history, f"the key is {KEY}"])
    first = finish_steps(made.scrub(request))
    sizes, find = [0], TextMemory.find

    def noted(memory, text):
        sizes[-1] += len(text)
        return find(memory, text)

    monkeypatch.setattr(TextMemory, "find", noted)

    def count_steps():
        steps = made.scrub(request)
        while True:
            try:
                yield next(steps)
            except StopIteration as end:
                return end.value
            sizes.append(0)

    assert finish_steps(count_steps()) == first
    assert max(sizes) <= IN_SIGHT
    assert sum(sizes) >= sum(map(len, history))


async def test_long_work_takes_one_slice_in_a_round():
    rounds, slices = 0, []

    def work():
        for _ in range(3):
            yield None
            slices.append(rounds)
            until = thread_time() + SLICE
            while thread_time() < until:
                pass

    async def count():
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.gather(*(run_in_slices(work()) for _ in range(5)))
    counting.cancel()
    assert len(slices) == 15
    assert max(Counter(slices).values()) == 1
