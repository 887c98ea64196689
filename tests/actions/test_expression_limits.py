"""What an expression may cost: it is refused when it is read, or given up while it is evaluated."""

import inspect
import time

import pytest

from checkrail.actions import ActionError, compile_expression
from checkrail.actions.expression_limits import LONGEST, with_limits
from checkrail.actions.expression_names import tokenize_expression
from checkrail.config import ConfigError, load_text
from checkrail.engine.registry import HookRegistry
from checkrail.testing import event

LOOP = "parameters.l.all(a, "


def nested(depth, value=1):
    for _ in range(depth):
        value = [value]
    return value


def refusal(text):
    with pytest.raises(ActionError) as caught:
        compile_expression(text, ["before_run"])
    return caught.value


def failure(text, value):
    """Evaluate an expression that must be given up, and soon."""
    condition = compile_expression(text, ["before_run"])
    began = time.thread_time()
    with pytest.raises(ActionError) as caught:
        condition(event("before_run", value))
    assert time.thread_time() - began < 1
    return caught.value


@pytest.mark.parametrize("quotes", ['"""', "b'''"])
def test_a_text_that_is_never_closed_is_refused_at_once(quotes):
    for text in (f"x == {quotes}" + "\\\\" * 20 + "'", (quotes + "\\") * (LONGEST // 5)):
        began = time.thread_time()
        assert "is wrong at line 1" in str(refusal(text))
        assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LOOP * 4 + "true" + ")" * 4, "4 loops within each other; 3 is the limit"),
        ("parameters.l.existsOne(a, " * 4 + "true" + ")" * 4, "4 loops"),
        ("(" * 40 + "true" + ")" * 40, "nests deeper than 32 parentheses"),
        (" + ".join(["parameters.a"] * 14) + " == ''", "adds more than 12 times"),
        (f"parameters.a == '{'x' * LONGEST}'", "characters; 8000 is the limit"),
        ("parameters.a.matches('(?=x)y')", "lookahead"),
        (r"parameters.a.matches(r'(a)\1')", "backreference"),
    ],
)
def test_what_could_take_for_ever_is_refused_when_it_is_read(text, told):
    error = refusal(text)
    assert told in error.problem
    assert error.remedy


def test_a_file_tells_the_line():
    loops = LOOP * 4 + "true" + ")" * 4
    with pytest.raises(ConfigError) as caught:
        load_text(f"hooks:\n  before_run:\n    block: no\n    when: {loops}")
    (found,) = caught.value.problems
    assert found.line == 4
    assert "4 loops within each other" in found.found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (LOOP * 3 + "a >= 0" + ")" * 3, {"l": [*range(3000)]}),
        ("parameters.l.map(a, parameters.l.map(b, a + b)).size() > 0", {"l": [*range(3000)]}),
        ("parameters.l.exists(a, parameters.l == [a]) || true", {"l": [*range(40_000)]}),
        ("parameters.l.filter(a, parameters.s.contains(a)).size() == 0", {"l": ["x"] * 40_000}),
        ("parameters.l.exists_one(a, parameters.s.matches('(a|aa)+$'))", {"l": ["x"] * 40_000}),
        ("lists.range(1000000000).size() > 0", {}),
        ("parameters.s.replace('a', parameters.s).size() > 0", {}),
        ("parameters.s.split('').size() > 0", {}),
        ("[parameters.s].join(parameters.s).size() == 0", {"s": "a" * 2_000_001}),
        ("sets.contains(parameters.l, parameters.l)", {"l": [*range(9000)]}),
        ("distinct(parameters.l).size() > 0", {"l": [*range(9000)]}),
        ("parameters.s.matches(parameters.p)", {"p": "(?=a)"}),
        ("parameters.s.matches(parameters.p)", {"p": ".{1,40}z"}),
    ],
)
def test_what_takes_too_long_is_given_up(text, value):
    error = failure(text, {"s": "a" * 1_000_000, **value})
    assert "was given up at before_run" in error.problem
    assert error.remedy


def test_growing_texts_are_given_up():
    grown = "[parameters.s]" + ".map(a, a + a)" * 12 + ".size() > 0"
    assert "more than 100 parts" in failure(grown, {"s": "a" * 1_000_000}).problem


def test_what_is_too_large_or_too_deep_is_not_handed_over():
    text = "size(parameters.l) > 0"
    assert "more than 50000 parts, too many for it" in failure(text, {"l": [1] * 60_000}).problem
    assert "nests deeper than 120 levels" in failure(text, {"l": nested(123)}).problem
    assert compile_expression("parameters.a == 1")(event("before_run", {"a": 1, "l": [1] * 60_000}))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a.all(x, x > 1)", "a.all(x, _tick() ? ( x > 1) : [][0])"),
        ("a.map(x, f(x, [1, 2]))", "a.map(x, _tick() ? ( f(x, [1, 2])) : [][0])"),
        ("a.map(x, x > 1, x)", "a.map(x, _tick() ? ( x > 1) : [][0], x)"),
        ("a . exists (x, ',)' == x)", "a . exists (x, _tick() ? ( ',)' == x) : [][0])"),
        ("a.all(x, x.all(y, y))", None),
        ("a.matches('matches(') || 'x.all(y, z)' == a", None),
        ("a.all == 1 && all(1, 2)", "a.all == 1 && all(1, 2)"),
    ],
)
def test_loops_are_made_to_look_at_the_clock(text, written):
    found = with_limits(text, tokenize_expression(text))
    if written is None:
        written = {
            "a.all(x, x.all(y, y))": (
                "a.all(x, _tick() ? ( x.all(y, _tick() ? ( y) : [][0])) : [][0])"
            ),
            "a.matches('matches(') || 'x.all(y, z)' == a": (
                "a._matches('matches(') || 'x.all(y, z)' == a"
            ),
        }[text]
    assert found == written


@pytest.mark.parametrize(
    "text",
    [
        "parameters.l.all(a, parameters.l.exists(b, a == b))",
        "parameters.l.map(a, a > 1, a * 2) == [4, 6]",
        "parameters.l.filter(a, a > 2) == [3] && parameters.l.existsOne(a, a == 1)",
        "parameters.l.map(a, {'x': a})[0].x == 1 && parameters.l.exists_one(a, a == 3)",
        "parameters.s.matches('^é+$') && !parameters.s.matches('e')",
        "parameters.s.upperAscii() == 'éé' && 'aÉB'.lowerAscii() == 'aÉb'",
        "sets.contains(parameters.l, [1, 2]) && distinct(parameters.l) == parameters.l",
    ],
)
def test_what_an_expression_says_stays_the_same(text):
    assert compile_expression(text)(event("before_run", {"l": [1, 2, 3], "s": "éé"})) is True


async def test_a_condition_that_took_long_lets_others_have_their_turn():
    value = event("before_run", {"l": [*range(20_000)]})
    answer = compile_expression("parameters.l.all(a, a >= 0)")(value)
    assert inspect.isawaitable(answer)
    assert await answer is True
    loaded = load_text("hooks: {before_run: {block: many, when: size(parameters.l) > 9}}")
    registry = HookRegistry()
    registry.swap(loaded.specs)
    assert (await registry.fire("before_run", {"l": [*range(20_000)]})).reason == "many"
