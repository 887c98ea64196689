"""Words that nobody should have to read."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail import HookRegistry, InboundMessage, OutboundMessage
from checkrail.builtin import profanity
from checkrail.builtin.profanity import WordFinder, fold_text
from checkrail.turns import finish_steps


async def fire(content, point="before_inbound", **config):
    kind = InboundMessage if point == "before_inbound" else OutboundMessage
    registry = HookRegistry()
    registry.register(profanity, config=config)
    return await registry.fire(point, kind("ann", "web", content))


@pytest.mark.parametrize("point", ["before_inbound", "before_outbound"])
async def test_words_are_masked_in_messages_and_in_replies(point):
    verdict = await fire("What the fuck? Fucking SHIT.", point)
    assert verdict.value.content == "What the ***? *** ***."


async def test_a_message_without_such_words_stays_as_it_is():
    verdict = await fire("Scunthorpe and shiitake, class assassin")
    assert verdict.value.content == "Scunthorpe and shiitake, class assassin"


async def test_the_mask_may_be_another_one():
    verdict = await fire("Shit happens", **{"with": "[...]"})
    assert verdict.value.content == "[...] happens"


async def test_a_message_may_be_blocked():
    verdict = await fire("oh shit", on_found="block", reason="Mind your words", status=422)
    assert (verdict.decision, verdict.reason) == ("block", "Mind your words")
    assert (verdict.status, verdict.code) == (422, "profanity")
    assert (await fire("oh dear", on_found="block")).decision == "continue"


async def test_the_default_words_may_be_left_out():
    verdict = await fire("shit, darn it", words=["darn"], defaults=False)
    assert verdict.value.content == "shit, *** it"


@pytest.mark.parametrize(
    ("word", "text", "masked"),
    [
        ("darn", "Darn! DARN, darned undarn", "*! *, darned undarn"),
        ("darn*", "darn darned darning undarned", "* * * undarned"),
        ("darn", "_darn_ darn_it darn-it darn2", "_*_ *_it *-it darn2"),
        ("a$$", "a$$ a$$es A$$!", "* a$$es *!"),
        ("old fool", "you Old Fool, old fools", "you *, old fools"),
        ("straße", "STRASSE, Stra\u1e9ee", "*, *"),
        ("STRASSE", "straße", "*"),
        ("naïve", "nai\u0308ve NAÏVE naïveté", "* * naïveté"),
        ("darn", "\uff44\uff41\uff52\uff4e \uff24\uff21\uff32\uff2e", "* *"),
        ("darn", "d\u200ba\u200drn\u00ad, dar\u2060n", "*, *"),
        ("ﬁg", "fig FIG", "* *"),
        ("株", "㈱ 株", "* *"),
        ("हिन्दी", "हिन्दी हिन्दीभाषी", "* हिन्दीभाषी"),
        ("हिन्द", "हिन्दी हिन्द", "हिन्दी *"),
        ("हिन्द*", "हिन्दी", "*"),
        ("가다", "\u1100\u1161\u1103\u1161 가다", "* *"),
        ("дурак", "ДУРАК дураки", "* дураки"),
        ("d.rn", "darn d.rn", "darn *"),
    ],
)
async def test_whole_words_whatever_their_case_and_encoding(word, text, masked):
    verdict = await fire(text, words=[word], defaults=False, **{"with": "*"})
    assert verdict.value.content == masked


@given(st.text(max_size=200))
def test_what_is_found_is_a_part_of_the_text_and_nothing_overlaps(text):
    finder = WordFinder(["a", "be*", "ß", "한", "é"])
    end = 0
    for start, stop in finish_steps(finder.find_spans(text)):
        assert end <= start < stop <= len(text)
        end = stop


@given(st.text(max_size=100))
def test_folding_loses_no_place(text):
    folded = fold_text(text)
    assert len(folded.text) == len(folded.starts) == len(folded.ends)
    assert list(folded.starts) == sorted(folded.starts)


def test_many_words_cost_no_more_than_few():
    words = [f"w{number}" for number in range(5000)]
    few, many = WordFinder(words[:10]), WordFinder(words)
    text = "w4999x wx w " * 20_000

    def cost(finder):
        start = time.thread_time()
        assert finish_steps(finder.find_spans(text)) == []
        return time.thread_time() - start

    assert min(cost(many) for _ in range(3)) < 20 * min(cost(few) for _ in range(3))


@pytest.mark.parametrize("word", ["darn", "darn*", "old fool", "é"])
def test_words_are_found_wherever_a_long_text_is_cut(word):
    finder = WordFinder([word])
    text = word.removesuffix("*")
    for before in range(19_980, 20_010):
        long = "x" * before + f" {text} " + "y " * 15_000
        [(start, stop)] = finish_steps(finder.find_spans(long))
        assert (start, long[start:stop]) == (before + 1, text)
        assert finish_steps(finder.find_spans("x" * before + f" {text}x " + "y " * 15_000)) == (
            [(before + 1, before + 6)] if word == "darn*" else []
        )


def test_a_word_may_be_longer_than_what_is_searched_at_once():
    long = "darn" + "x" * 100_000
    assert finish_steps(WordFinder(["darn*"]).find_spans(f"a {long} b")) == [(2, 2 + len(long))]
    assert finish_steps(WordFinder(["darn"]).find_spans(f"a {long} b darn")) == [
        (len(long) + 5, len(long) + 9)
    ]


def test_many_marks_upon_one_letter_take_no_more_time_than_as_many_letters():
    finder = WordFinder(["darn"])

    def cost(text):
        start = time.thread_time()
        finish_steps(finder.find_spans(text))
        return time.thread_time() - start

    marks = "a" + "\u0315\u0300" * 50_000
    assert cost(marks) < 50 * cost("äß" * 50_000)


async def test_others_have_their_turn_while_a_long_text_is_searched():
    rounds = 0

    async def count_rounds():
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    counting = asyncio.create_task(count_rounds())
    verdict = await fire("привет мир " * 20_000 + "shit")
    counting.cancel()
    assert verdict.value.content.endswith("мир ***")
    assert rounds > 10
