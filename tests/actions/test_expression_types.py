"""What is found by type: every refusal is checked against the language itself."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import product

import cel
import pytest
from cel.stdlib import STDLIB_FUNCTIONS

from checkrail.actions import ActionError, compile_expression
from checkrail.actions.expression_limits import Meter
from checkrail.actions.expression_types import (
    ANY,
    Kind,
    are_comparable,
    kinds_of_operation,
    load_signatures,
    names_of,
)

SAMPLES = {
    "null": ["null"],
    "bool": ["true", "false"],
    "int": ["1", "2"],
    "uint": ["1u", "2u"],
    "double": ["1.0", "0.5", "1e-3"],
    "text": ['"1"', '"a"', "'YWJj'", '"true"', '"2024-01-01T00:00:00Z"', '"1h"', '"UTC"'],
    "bytes": ['b"abc"'],
    "time": ["now"],
    "duration": ["day"],
    "list": ["[1, 2]", "['a', 'b']"],
    "map": ["{'a': 1}", "{1: 2}"],
    "object": ["thing"],
}
CONVERSIONS = ("string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration")
NAMES = {"now": datetime.now(UTC), "day": timedelta(days=1), "thing": {"id": "1", "a": [1]}}


def evaluate(text):
    """Evaluate an expression as it is at an event, without what was found by type before."""
    own = {name: call for name, call in STDLIB_FUNCTIONS.items() if name != "contains"}
    return cel.compile(text).execute(cel.Context(NAMES, Meter().build_functions(own)))


def works(text):
    try:
        return evaluate(text) is not None
    except Exception:
        return False


def spellings(*kinds):
    return product(*(SAMPLES[kind] for kind in kinds))


def test_every_kind_has_a_sample():
    assert set(SAMPLES) == names_of(ANY)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%", "<", "<=", ">", ">="])
def test_an_operation_is_refused_where_the_language_refuses_it(sign):
    for left, right in product(SAMPLES, repeat=2):
        able = any(works(f"({a}) {sign} ({b})") for a, b in spellings(left, right))
        known = kinds_of_operation(sign, frozenset({left}), frozenset({right}))
        assert bool(known) is able, (left, sign, right)


def test_what_can_be_equal_is_comparable():
    for left, right in product(SAMPLES, repeat=2):
        able = any(evaluate(f"({a}) == ({b})") for a, b in spellings(left, right))
        comparable = are_comparable(frozenset({Kind(left)}), frozenset({Kind(right)}))
        assert comparable or not able, (left, right)


WRONG = [
    ("request.messages['x'] == 1", "reads ['x'] of request.messages, which is a list. The items"),
    ("request.messages[request.model] == 1", "reads [request.model] of request.messages"),
    ("tool_call.args[0] == 1", "reads [0] of tool_call.args, which is a mapping. Its keys are"),
    ("tool_call[0] == 1", "reads [0] of tool_call, which is an object. Its fields have names"),
    ("request.text[0] == 'a'", "reads [0] of request.text, which is a text"),
    ("message.tool_calls[0].nme == 'x'", "reads 'nme' of message.tool_calls[0] at line 1"),
    ("message.tool_calls.exists(c, c.nme == 'x')", "reads 'nme' of c at line 1, column 30"),
    ("message.tool_calls.name == 'x'", "which is a list and has no fields"),
    ("has(message.tool_calls[0].arguments)", "(did you mean 'args'?)"),
    ("request.text.x == 1", "which is a text and has no fields"),
    ("request.text + 1 == 2", "writes request.text + 1, which is a text and a number"),
    ("1 + request.text == 2", "which is a number and a text. CEL converts nothing"),
    ("attempt + 0.5 > 1.0", "which is a whole number and a decimal number"),
    ("attempt * '2' == 2", "writes attempt * '2'"),
    ("request.messages - 1 == 2", "which is a list and a number"),
    ("size(request.messages) + '1' == '11'", "writes size(…) + '1'"),
    ("-model == 'x'", "writes a minus before model, which is a text"),
    ("request.text.contains(3)", "calls contains with 3, which is a number. It takes a text"),
    ("request.text.contains(attempt)", "calls contains with attempt"),
    ("request.text.contains(request.messages)", "which is a list. It takes a text"),
    ("request.text.matches(true)", "calls matches with true, which is true or false"),
    ("tool_call.args.x.contains(3)", "calls contains with 3"),
    ("request.text.replace('a', 1) == ''", "calls replace with 1"),
    ("request.text.substring('a') == ''", "calls substring with 'a'"),
    ("size(attempt) > 1", "calls size with attempt, which is a number. It takes a text, bytes, a "),
    ("attempt.size() > 1", "calls size with attempt"),
    ("timestamp.getHours('UTC') > 1", "calls getHours with 1 arguments. It takes 0"),
    ("model.getHours() > 1", "calls getHours with model, which is a text. It takes a time or a "),
    ("lists.range('a') == []", "calls lists.range with 'a'"),
    ("int(request.messages) == 1", "calls int with request.messages"),
    ("request.model in 'gpt'", "looks for request.model in 'gpt', which is a text"),
    ("'a' in attempt", "looks for 'a' in attempt, which is a number. `in` is for lists and keys"),
    ("1 in user.permissions", "never holds it. What is looked for is a number"),
    ("1 in tool_call.args", "looks for 1 in tool_call.args, which never holds it"),
    ("'x' in ['a', 1].filter(x, x)", "takes x for true"),
    ("request.model in [1, 2]", "looks for request.model in [1, 2], which never holds it"),
    ("request.text && true", "takes request.text for true or false, and it is a text. Compare it"),
    ("true || request.messages", "takes request.messages for true or false"),
    ("!request.text", "takes request.text for true or false"),
    ("request.text ? true : false", "takes request.text for true or false"),
    ("request.messages.all(m, m.text.trim())", "takes trim(…) for true or false"),
    ("request.text.exists(c, c == 'x')", "calls exists on request.text, which is a text"),
    ("size(model) == model", "compares size(…) with model, which it never is. It is a number"),
    ("request.messages == model", "compares request.messages with model"),
    ("model == request.messages[0].text.size()", "compares model with size(…)"),
    ("'a' < 5", "compares 'a' with 5"),
    ("(request.text)", "is no condition"),
    ("attempt + 1", "is no condition"),
    ("true ? 'a' : 'b'", "is no condition"),
    ("[true]", "is no condition"),
    ("request.messages[-1].text.startsWith(['a'])", "calls startsWith with ['a'], which is a list"),
    ("user.identity.endsWith(user.permissions)", "calls endsWith with user.permissions"),
    ("tool_result.duration_ms.contains('1')", "which is never a text"),
    ("b'a' == 'a'", "compares b'a' with 'a'"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_fails_each_time_is_refused_when_compiled(text, told):
    with pytest.raises(ActionError) as caught:
        compile_expression(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "request.messages[0].x == 1 && request.messages[attempt].x == 'y'",
        "request.messages[-1].content[0].text.contains(model)",
        "request.params.n + 1 == 2 && request.params['n'] * 2.0 > 1.0",
        "tool_call.args[config.key] == 1 && tool_call.args.x[0] == 'a'",
        "tool_call.args.a + tool_call.args.b > 5 && -tool_call.args.a < -1e-3",
        "double(attempt) + 0.5 > 1.0 && attempt > 0.5",
        "tool_result.duration_ms / 2.0 > 1.0 || tool_result.duration_ms / 2 > 1",
        "timestamp - duration('1h') < timestamp('2024-01-01T00:00:00Z')",
        "timestamp - timestamp('2024-01-01T00:00:00Z') > duration('1h')",
        "(metadata.a ? metadata.b : metadata.c) && (true ? 1 : 'a') == 'a'",
        "attempt > 1 ? true : attempt < 0 ? false : user == null",
        "message.tool_calls.map(c, c.name) == ['a'] && message.tool_calls.filter(c, true) != []",
        "message.tool_calls.exists(c, c.name == 'a' && 'x' in c.args && c.text.contains('b'))",
        "tool_call.args.exists(k, k.startsWith('a')) && tool_call.args.all(k, 'a' < k)",
        "request.tools.map(t, has(t.name), t.name + 'x').exists(n, n == 'ax')",
        "model in ['gpt', 'claude'] && model in config.models && 1 in [1, 'a']",
        "request.model.split('-')[0] in {'gpt': true} && {1: 'a'}[1] == 'a'",
        "model == user.identity && value == original && result.output == parameters",
        "'a' in request.text.split(' ') && size('abc') > 2 && [1, 2].join(',') == '1,2'",
        "optional.of(model).value().contains('x') && [1].first().orValue(0) + 1 == 2",
        "0x1F > 1 && 5u == 5 && 1.5e3 > 1 && b'a' + b'b' == b'ab' && r'a' == 'a'",
        "type(model) == string && type(1) == int && bool('true')",
        "{'a': model}.a.contains('x') && {'a': {'b': [1]}}.a.b[0] == 1",
        "base64.encode(b'a').contains('x') && math.abs(-attempt) > 0 && math.ceil(0.5) > 0",
        "[[1, 'a']][0][1].contains('a') && size({}) == 0 && [] == request.messages",
        "text(parameters).matches('(?i)x') && parameters.a.text().lowerAscii() == 'x'",
        "!(!has(user.email)) && !metadata.a && -(-attempt) > 0",
    ],
)
def test_what_may_hold_is_not_refused(text):
    assert compile_expression(text).text == text


def test_long_and_deep_expressions_are_checked_or_left_alone():
    for text in (
        " && ".join(["attempt == 1"] * 500),
        "attempt == 1 ? " * 300 + "true" + " : false" * 300,
        "true ? " + "attempt == 1 ? true : " * 300 + "false : true",
        "!" * 1000 + "true",
    ):
        with suppress(ActionError):
            compile_expression(text)


@pytest.mark.parametrize("function", [name for name in load_signatures() if name != "text"])
def test_an_argument_is_refused_where_the_language_refuses_it(function):
    signature = load_signatures()[function]
    for count in range(len(signature.takes) - signature.spare, len(signature.takes) + 1):
        fitting = [sorted(names) for names in signature.takes[:count]]
        assert any(works(call(function, given)) for kinds in product(*fitting)
                   for given in spellings(*kinds)), (function, count)  # fmt: skip
        for place, wanted in enumerate(signature.takes[:count]):
            for kind in SAMPLES.keys() - wanted - _taken_for_numbers(wanted):
                kinds = [*fitting[:place], [kind], *fitting[place + 1 :]]
                for given in (given for some in product(*kinds) for given in spellings(*some)):
                    assert not works(call(function, given)), (function, given)


def _taken_for_numbers(wanted):
    return {"bool"} if "int" in wanted else set()  # which Python takes for 0 and 1


def call(function, given):
    if "." in function or function in CONVERSIONS:
        return f"{function}({', '.join(given)})"
    first, *rest = given
    return f"({first}).{function}({', '.join(rest)})"
