"""Patterns that files and requests bring: what RE2 takes, what is refused and why, and its cost."""

import time

import pytest
import re2

from checkrail import regex
from checkrail.builtin.errors import BuiltinConfigError
from checkrail.builtin.schema_check import compile_schema, find_problems
from checkrail.regex import PatternError, compile_pattern, read_pattern

BOMB = r"(a|aa)+$"
TEXT = "a" * 40 + "b"


def refusal(pattern):
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    return caught.value


@pytest.mark.parametrize(
    ("pattern", "named", "remedy"),
    [
        ("(?=a)b", "lookahead ((?=)", "Match what follows too"),
        ("a(?!b)", "lookahead ((?!)", "Match what may follow instead"),
        ("(?<=a)b", "lookbehind ((?<=)", "Match what stands in front too"),
        ("(?<!a)b", "lookbehind ((?<!)", "Match what may stand in front"),
        (r"(a)\1", r"a backreference (\1)", "Write what it refers to once more"),
        ("(?P<x>a)(?P=x)", "a backreference ((?P=)", "Write what it refers to once more"),
        ("(?(1)a|b)", "a conditional group", "Write both forms"),
        ("(?>a)", "an atomic group", "Leave out the `>`"),
        ("a++", "a possessive repeat", "Leave out the second `+`"),
        (r"a\Z", r"\Z is not", r"Write \z"),
        (r"\u00e9", r"\u", r"Write \x{00e9}"),
    ],
)
def test_what_takes_more_than_linear_time_is_refused_with_what_to_do_instead(
    pattern, named, remedy
):
    error = refusal(pattern)
    assert error.problem.startswith(named)
    assert "which are RE2's" in error.problem
    assert error.remedy.startswith(remedy)
    assert error.remedy.endswith("A hook in Python may use any pattern of `re`")


@pytest.mark.parametrize("pattern", [r"(\pL{1,50}){1,20}", "a{1001}", r"\pL{9}", "x" * 4001])
def test_a_pattern_that_is_too_large_is_refused(pattern):
    assert "too large" in str(refusal(pattern)) or "is the limit" in str(refusal(pattern))


def test_what_is_wrong_in_any_language_is_named():
    assert refusal("(").problem == "missing ): ("
    assert refusal("\ud800").problem == "a pattern with half of a surrogate pair"


def test_a_pattern_that_would_freeze_re_is_searched_at_once():
    began = time.thread_time()
    assert compile_pattern(BOMB).search(TEXT) is None
    assert compile_pattern(r"(\w+\s?)+$").search("word " * 20_000 + "!") is None
    assert time.thread_time() - began < 1


def test_matches_are_labelled_wherever_they_stand():
    badge = compile_pattern(r"\bB-\d{3}\b")
    assert badge.sub("#", "é B-123, B-4567, \ud800B-999 ü") == "é #, B-4567, \ud800# ü"
    assert badge.sub("\\1", "B-123") == "\\1"
    assert badge.search("none") is None


def test_labels_do_not_fill_the_memory():
    with pytest.raises(PatternError, match="was found so often"):
        compile_pattern("a").sub("x" * 100_000, "a" * 1000)


def test_a_text_that_is_too_much_for_a_large_pattern_is_refused_and_not_begun():
    with pytest.raises(PatternError, match="is too long for the pattern"):
        compile_pattern(".{1,400}z").search("é" * 2_000_000)


def test_only_what_stands_between_slashes_is_a_regular_expression():
    assert read_pattern("read_*") == "read_*"
    assert read_pattern("/") == "/"
    assert str(read_pattern("/^a/")) == "/^a/"
    with pytest.raises(PatternError, match="1000 is the limit"):
        read_pattern("*a" * 600)


@pytest.mark.parametrize("schema", [{"pattern": "(?=a)b"}, {"patternProperties": {r"(a)\1": True}}])
def test_patterns_of_schemas_take_linear_time_too(schema):
    with pytest.raises(BuiltinConfigError, match="without lookaround and backreferences"):
        compile_schema("schema", schema)
    assert find_problems(compile_schema("schema", {"pattern": BOMB}), TEXT)


def test_a_pattern_that_cannot_be_is_compiled_once(monkeypatch):
    tried = []

    class Counting(re2._Regexp):
        def __init__(self, pattern, options):
            tried.append(pattern)
            super().__init__(pattern, options)

    monkeypatch.setattr(re2, "_Regexp", Counting)
    for _ in range(50):  # as often as a schema may say it
        with pytest.raises(PatternError, match="too large"):
            compile_pattern(r"(\pL|a){99}once")
    assert len(tried) == 1


def test_matches_that_each_take_long_are_given_up(monkeypatch):
    seconds = iter(range(1000))
    monkeypatch.setattr(regex, "thread_time", lambda: next(seconds))
    with pytest.raises(PatternError, match="took longer than 5 s for one text"):
        compile_pattern("a").sub("[x]", "a" * 100)
    assert next(seconds) == 7  # when it began, and after each match until time was up
