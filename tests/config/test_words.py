"""What was probably meant by a word that nobody knows."""

from datetime import UTC, datetime

import pytest

from checkrail.actions.expression_fields import kind_of
from checkrail.config.problems import OTHER_WORDS, describe_value, edit_distance, suggest_word
from checkrail.config.schema import COMMON, entry_keys, hook_types
from checkrail.engine.frozen import freeze


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        ("mode", "mode", 0),
        ("timout", "timeout", 1),
        ("shadwo", "shadow", 1),
        ("gates", "gate", 1),
        ("moode", "mide", 2),
        ("match", "path", 2),
        ("", "ab", 2),
        ("action", "function", 3),
        ("a", "abcdefgh", 3),
    ],
)
def test_how_far_two_words_are_apart(one, other, far):
    assert edit_distance(one, other, 2) == far
    assert edit_distance(other, one, 2) == far


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("timout", "did you mean 'timeout'?"),
        ("Timeout", "did you mean 'timeout'?"),
        ("piority", "did you mean 'priority'?"),
        ("tool", "did you mean 'tools'?"),
        ("If", "did you mean 'when'?"),
        ("matcher", "did you mean one of: tools, agents, models, users, channels, tags, when?"),
        ("acton", ""),
        ("cost", ""),
    ],
)
def test_what_was_meant(name, hint):
    assert suggest_word(name, entry_keys()) == hint


def test_every_other_word_leads_to_words_that_exist():
    keys, words = {*entry_keys()}, {*hook_types().words}
    for check in COMMON.values():
        words |= {*getattr(check, "words", ())}
    words |= {"continue", "block"}
    for name, said in OTHER_WORDS.items():
        assert {*said} <= keys | words, name


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (freeze({"a": 1}), "a mapping"),
        (freeze([1]), "a list"),
        ((1,), "a list"),
        (True, "true or false"),
        (1.5, "a number"),
        ("x", "a text"),
        (None, "nothing"),
        (int, "a class"),
        (len, "a function"),
        (test_what_was_meant, "a function"),
        (datetime.now(UTC), "a time"),
        (object(), "an object of the class object"),
    ],
)
def test_kinds_are_named_in_the_words_of_the_formats(value, kind):
    assert kind_of(value) == kind


def test_values_are_shown_where_they_are_short():
    found = [describe_value(value) for value in (None, False, "", "x", 1, [], [1], {}, {"a": 1})]
    assert found == [
        *("nothing", "false", "an empty text", "the text 'x'", "the number 1"),
        *("an empty list", "a list", "a mapping", "a mapping"),
    ]
