import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkrail import turns
from checkrail.actions import ActionError, compile_expression
from checkrail.actions.expression import EVENT_NAMES, SENDER_NAMES
from checkrail.engine.hook import declare
from checkrail.engine.outcomes import Block
from checkrail.engine.points import CONTRACTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, User


@pytest.fixture(autouse=True)
def answers_at_once(monkeypatch):
    """Have an answer given at once, however long it took: the machine may be busy."""
    monkeypatch.setattr(turns, "SOON", math.inf)


def refused(text, points=()) -> str:
    with pytest.raises(ActionError) as caught:
        compile_expression(text, points)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'x' in request.messages", "looks for 'x' in request.messages, which never holds it"),
        ('!("x" in request.tools)', 'write text(request.tools).contains("x")'),
        ("'x' in new_messages", "never holds it"),
        ("'x' in message.tool_calls", "never holds it"),
        ("'x' in message", "write text(message).contains('x')"),
        ("'x' in tool_call", "never holds it"),
        ("request.text.contains('x') == 'true'", "compares contains(…) with 'true'"),
        ("message.text.matches('x') != 1", "compares matches(…) with 1, which it never is"),
        ("request.messages.exists(m, m.text == 'x') == 'yes'", "compares exists(…) with 'yes'"),
        ("request.text.contains()", "calls contains with 0 arguments. It takes 1"),
        ("message.text.startsWith('a', [1, 2])", "calls startsWith with 2 arguments"),
        ("message.text.replace('a') == ''", "calls replace with 1 arguments. It takes 2 to 3"),
        ("text(1, 2) == ''", "calls text with 2 arguments. It takes 1"),
        ("request.text", "is no condition: it is never true or false. Compare it"),
        ("request['text']", "is no condition"),
        ("request.messages", "is no condition"),
        ("tool_call", "is no condition"),
        ("user", "is no condition"),
        ("run_id", "is no condition"),
        ("5", "is no condition"),
        ("'yes'", "is no condition"),
        ("text(request)", "is no condition"),
        ("size(request.messages)", "is no condition"),
        ("request.messages.map(m, m.text)", "is no condition"),
        ("message.text.lowerAscii()", "is no condition"),
    ],
)
def test_what_never_holds_or_always_fails_is_refused(text, told):
    assert told in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "request.stream",
        "tool_result.is_error",
        "metadata.paid",
        "parameters.urgent",
        "parameters",
        "output[0]",
        "tool_call.args.force",
        "request.messages[-1].flag",
        "has(user.identity)",
        "!message.text.contains('x')",
        "request.text.contains('x') == true",
        "'content' in message",
        "'x' in request.params",
        "'x' in request.messages[-1]",
        "'x' in tool_call.args",
        "'x' in parameters",
        "parameters.a in request.messages",
        "'x' in message.tool_calls[0].args",
        "'x' in user.permissions",
        "sets.contains([1, 2], [1])",
        "text(parameters).substring(0, 2) == 'ab'",
        "parameters.text().contains('x')",
        "request.messages.exists(m, m.text.contains('x'))",
    ],
)
def test_what_may_hold_is_not_refused(text):
    assert compile_expression(text).text == text


async def test_an_expression_over_the_value_under_its_wire_name(event_at):
    over = compile_expression("tool_call.args.amount > 1000")
    assert over(await event_at("before_tool_call", ToolCall(args={"amount": 1001}))) is True
    assert over(await event_at("before_tool_call", ToolCall(args={"amount": 1000.0}))) is False


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("on_session_start", "session.session_id == 's1' && session.thread_ids == ['t1']"),
        ("before_inbound", "content == 'hello' && channel == 'web' && user_id == 'ann'"),
        ("before_run", "parameters.question == 'why' && parameters.depth.n == 1"),
        ("on_run_start", "parameters.question.startsWith('w')"),
        ("before_llm_call", "request.messages[0].role == 'user' && model == 'gpt'"),
        ("after_llm_call", "message.tool_calls.exists(c, c.name == 'transfer')"),
        ("before_tool_call", "tool_call.name == 'transfer' && 'to' in tool_call.args"),
        ("after_tool_call", "tool_result.content == 'done' && !tool_result.is_error"),
        ("on_tool_error", "tool_result.id == 'c1'"),
        ("before_final_response", "message.content.contains('h')"),
        ("query_end", "response.content == 'bye'"),
        ("on_result", "output.question == 'why'"),
        ("before_outbound", "content.endsWith('Ann') && channel != 'mail'"),
        ("after_run", "result.status == 'success' && result.output.answer == 42"),
        ("on_run_error", "error.error_type == 'ValueError'"),
        ("on_session_end", "session.channel == 'web' && user_id == 'ann'"),
    ],
)
async def test_every_point_has_its_value(point, text, event_at):
    event = await event_at(point)
    assert compile_expression(text, [point])(event) is True
    assert compile_expression("value == original && point == '" + point + "'")(event) is True


async def test_what_every_event_carries(event_at):
    context = {
        **{name: name for name in EVENT_NAMES if name.endswith("_id")},
        "agent_name": "support",
        "user": User("ann", email="ann@example.org", permissions=["pay"]),
        "model": "gpt",
        "provider": "openai",
        "attempt": 2,
        "iteration": 3,
        "metadata": {"tier": "gold"},
    }
    event = await event_at("before_run", config={"most": 5}, **context)
    for name in EVENT_NAMES:
        if name.endswith("_id"):
            assert compile_expression(f"{name} == '{name}'")(event)
    for text in (
        "agent_name == 'support' && attempt == 2 && iteration == 3",
        "user.identity == 'ann' && 'pay' in user.permissions && user.org_id == null",
        "model == 'gpt' && provider == 'openai'",
        "metadata.tier == 'gold' && config.most == 5",
        "timestamp > timestamp('2024-01-01T00:00:00Z') && timestamp.getFullYear() > 2023",
        "point == 'before_run'",
    ):
        assert compile_expression(text)(event) is True, text


async def test_absent_names_are_null(event_at):
    event = await event_at("before_run")
    for name in ("user", "model", "session_id", "iteration", "tool_call", "content", "channel"):
        assert compile_expression(f"{name} == null")(event) is True


async def test_one_expression_at_several_points(event_at):
    text = "point == 'before_tool_call' && tool_call.name == 'transfer'"
    condition = compile_expression(text, ["before_tool_call", "before_run"])
    assert condition(await event_at("before_tool_call")) is True
    assert condition(await event_at("before_run")) is False


async def test_has_and_missing_keys(event_at):
    event = await event_at("before_tool_call")
    assert compile_expression("has(tool_call.args.amount)")(event) is True
    assert compile_expression("has(tool_call.args.note)")(event) is False
    assert (
        compile_expression("has(tool_call.args.note) && tool_call.args.note == 'x'")(event) is False
    )
    with pytest.raises(ActionError, match="there is no key 'note'") as caught:
        compile_expression("tool_call.args.note == 'x'")(event)
    assert "before_tool_call" in str(caught.value)
    assert "has(x.y)" in caught.value.remedy


async def test_a_member_of_null_and_of_other_types_raises(event_at):
    event = await event_at("before_run")
    with pytest.raises(ActionError, match="could not be evaluated at before_run: No such overload"):
        compile_expression("user.identity == 'ann'")(event)
    with pytest.raises(ActionError, match="division by zero"):
        compile_expression("1 / (attempt - 1) == 1")(event)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("tool_call.args.amount", "a number"),
        ("optional.of(tool_call.name).value()", "a text"),
        ("optional.of(tool_call.args).value()", "a mapping"),
        ("tool_call.args.items", "a list"),
        ("optional.of(timestamp).value()", "a time"),
        ("optional.of(user).value()", "nothing"),
    ],
)
async def test_a_result_that_is_not_a_boolean(text, given, event_at):
    event = await event_at("before_tool_call")
    with pytest.raises(ActionError, match=f"gave {given}, not true or false"):
        compile_expression(text)(event)


async def test_only_the_names_and_fields_that_are_used_are_made(event_at):
    class Costly(dict):
        def items(self):
            raise AssertionError("was made")

    event = await event_at(
        "before_llm_call",
        ModelRequest("gpt", messages=[{"role": "user"}], params={"n": 1}),
        metadata={"plain": 1},
    )
    object.__setattr__(event.value, "messages", Costly(a=1))
    assert compile_expression("request.model == 'gpt' && request.params.n == 1")(event) is True
    with pytest.raises(AssertionError, match="was made"):
        compile_expression("request.messages == []")(event)
    with pytest.raises(AssertionError, match="was made"):
        compile_expression("size(request) > 1")(event)


async def test_macros_bring_their_own_names(event_at):
    event = await event_at("before_tool_call")
    text = "tool_call.args.items.all(item, item.price < attempt + 1)"
    assert compile_expression(text)(event) is True
    shadowed = "[5, 6].exists(value, value == 6)"
    assert compile_expression(shadowed)(event) is True
    assert "uses 'item' at line 1, column 41" in refused(
        "tool_call.args.items.all(item, true) && item"
    )


async def test_functions_of_the_extended_library(event_at):
    event = await event_at("before_tool_call")
    for text in (
        "tool_call.name.upperAscii() == 'TRANSFER'",
        "math.greatest([1, tool_call.args.amount]) == 5",
        "tool_call.args.to.contains('ob')",
        "2 in [1, 2]",
        "type(tool_call.args.amount) == int",
        "optional.of(1).hasValue()",
    ):
        assert compile_expression(text)(event) is True, text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tool_call.args.amount > ", "at line 1, column 25: mismatched input '<EOF>'"),
        ("a b", "at line 1, column 3"),
        ("attempt == 1 &&\n  ((attempt)", "at line 2, column 13"),
        ("", "at line 1, column 1"),
        ("attempt = 1", "write == instead of ="),
        ("attempt == 1 and iteration == 2", "write && instead of and"),
        ("not has(user.email)", "write ! instead of not"),
        ("attempt == 'and", "A quote is opened and not closed"),
        ("attempt ==== 1", "in CEL, as in: tool_call.args.amount > 1000"),
    ],
)
def test_a_syntax_error_is_told_with_its_place(text, told):
    assert told in refused(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tool_cal.args.amount > 1", "uses 'tool_cal' at line 1, column 1"),
        ("tool_cal.args.amount > 1", "(did you mean 'tool_call'?)"),
        ("attempt > 1 &&\n usr.email == 'x'", "uses 'usr' at line 2, column 2"),
        ("attempt == None", "(did you mean 'null'?)"),
        ("True", "(did you mean 'true'?)"),
        ("zzzzzz == 1", "Names are: agent_name, assistant_id, attempt"),
        (".point == 'x'", "a name with a dot in front, '.point'"),
        (
            "user.email.startswith('x')",
            "calls 'startswith', which does not exist (did you mean 'startsWith'?)",
        ),
        ("lower(user.email) == 'x'", "calls 'lower', which does not exist"),
        ("math.nothing(1) == 1", "calls 'nothing'"),
    ],
)
def test_unknown_names_are_refused_when_compiled(text, told):
    assert told in refused(text)


def test_a_name_that_exists_at_none_of_the_points():
    told = refused("tool_call.name == 'x'", ["before_run", "on_run_start"])
    assert "uses 'tool_call' at line 1, column 1, which does not exist at these points" in told
    assert "channel" in refused("channel == 'x'", ["before_run"])
    assert compile_expression("parameters.x == 1", ["before_run", "before_tool_call"])
    assert compile_expression("tool_call.name == 'x'", ["pre_tool_call"])


@pytest.mark.parametrize(
    ("text", "points", "told"),
    [
        (
            "tool_call.arg.amount > 1000",
            [],
            (
                "reads 'arg' of tool_call at line 1, column 1, which has no such field "
                "(did you mean 'args'?). Fields of tool_call are: id, name, args, context"
            ),
        ),
        ('tool_call["arg"].amount > 1', [], "reads 'arg' of tool_call"),
        ("tool_call['arg'].amount > 1", [], "reads 'arg' of tool_call"),
        ("has(tool_call.arg)", [], "reads 'arg' of tool_call"),
        ("tool_call.tool_name == 'x'", [], "(did you mean 'name'?)"),
        ("tool_call.parameters.x == 1", [], "(did you mean 'args'?)"),
        ("user.id == 'x'", ["before_run"], "(did you mean 'identity'?). Fields of user are: iden"),
        ("user.mail == 'x'", [], "(did you mean 'email'?)"),
        ("request.modle == 'x'", ["before_llm_call"], "(did you mean 'model'?)"),
        ("true &&\n message.contents == ''", [], "reads 'contents' of message at line 2, column 2"),
        ("tool_result.output == 'x'", [], "(did you mean 'content'?)"),
        ("session.zzz == 'x'", [], "has no such field. Fields of session are: session_id, "),
        ("value.arg.x == 1", ["before_tool_call"], "reads 'arg' of value"),
        ("original.arg.x == 1", ["pre_tool_call"], "reads 'arg' of original"),
        ("value.outptu == 1", ["on_run_finish"], "(did you mean 'output'?)"),
        ("value.txt == 'x'", ["before_inbound"], "Fields of value are: user_id, channel, content"),
        ("content.text == 'x'", ["before_inbound"], "which is a text and has no fields"),
        ("model.name == 'x'", [], "reads 'name' of model at line 1, column 1, which is a text"),
        ("attempt.n == 1", [], "which is a number and has no fields"),
    ],
)
def test_a_field_that_no_value_has_is_refused_when_compiled(text, points, told):
    assert told in refused(text, points)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("parameters.anything.x == 1", ["before_run"]),
        ("output.anything == 1", []),
        ("metadata.a == config.b", []),
        ("value.anything == 1", ["before_run"]),
        ("value.anything == 1", ["before_run", "before_tool_call"]),
        ("value.anything == 1", []),
        ("value.output == 1", ["on_run_finish"]),
        ("value.error == 'x'", ["on_run_finish"]),
        ("value.thread_id == 't'", ["before_inbound", "before_outbound"]),
        ("tool_call[config.key] == 1", ["before_tool_call"]),
        ("user.extras.team == 'x'", []),
        ("[{'b': 1}].exists(user, user.b == 1)", []),
        ("'args' in tool_call && 'x' in tool_call.args", []),
        ("'x' in user.permissions", []),
        ("[['x']].exists(model, 'x' in model)", []),
    ],
)
def test_what_may_be_there_is_left_to_the_event(text, points):
    assert compile_expression(text, points)


def test_every_field_of_every_value_is_known():
    for point, contract in CONTRACTS.items():
        for name in getattr(contract.value, "__slots__", ()):
            assert compile_expression(f"value.{name} == null", [point])
            if contract.wire != "content":
                assert compile_expression(f"{contract.wire}['{name}'] == null", [point])


async def test_a_field_by_its_key_is_read_like_one_by_its_name(event_at):
    event = await event_at("before_tool_call")
    assert compile_expression("tool_call['name'] == tool_call.name")(event) is True
    assert compile_expression('tool_call["args"]["amount"] == 5')(event) is True


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("'x' in tool_call.name", "tool_call.name.contains('x')"),
        ("config.word in user.email", "user.email.contains(config.word)"),
        ("'x' in content", "content.contains('x')"),
        ("'x' in model", "model.contains('x')"),
    ],
)
def test_in_is_not_for_texts(text, remedy):
    told = refused(text)
    assert f"in {remedy.partition('.contains')[0]}, which is a text" in told
    assert told.endswith(f"`in` is for lists and keys: of a text, write {remedy}")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("'x' in tool_call.args.to", "of a text, write tool_call.args.to.contains('x')"),
        ("'x' in config.nothing || 'o' in tool_call.args.to", "write tool_call.args.to.contains"),
        ("'x' in tool_call.args.amount", "Guard what may be absent"),
        ("'x' in [tool_call.args.to][0]", "Guard what may be absent"),
        ("'to' in tool_call.args && tool_call.args.to > 1", "Guard what may be absent"),
    ],
)
async def test_in_is_not_for_texts_that_show_only_at_a_call(text, remedy, event_at):
    with pytest.raises(ActionError) as caught:
        compile_expression(text)(await event_at("before_tool_call"))
    assert remedy in caught.value.remedy


async def test_a_function_that_does_not_fit_is_told_by_its_name(event_at):
    with pytest.raises(ActionError, match="'startsWith' is not for what it was given"):
        compile_expression("model.startsWith('x')")(await event_at("before_run"))


LISTED = ToolCall(args={"command": ["bash", "-lc", "git push --force"], "map": {"a": 1}, "n": 5})


@pytest.mark.parametrize(
    "text",
    [
        "tool_call.args.command.contains('push --force')",
        "tool_call.args.command.contains('bash')",
        "tool_call.args.map.contains('a')",
        "tool_call.args.n.contains('5')",
        "tool_call.args.command.startsWith('bash')",
        "tool_call.args.command.endsWith('--force')",
        "tool_call.args.command.matches('bash')",
        "tool_call.args.command.lowerAscii() == 'bash'",
        "tool_call.args.command.charAt(0) == 'bash'",
        "tool_call.args.command.substring(0, 1) == 'bash'",
        "tool_call.args.command.indexOf('bash') == 0",
        "tool_call.args.map.replace('a', 'b') == 'x'",
        "'a'.matches(tool_call.args.map)",
    ],
)
async def test_a_text_function_on_what_is_no_text_fails(text, event_at):
    with pytest.raises(ActionError) as caught:
        compile_expression(text)(await event_at("before_tool_call", LISTED))
    assert "could not be evaluated at before_tool_call: " in caught.value.problem
    assert caught.value.remedy.startswith("text(x) is all text in x")
    assert caught.value.public == "its condition does not fit what it was given"


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("before_tool_call", "tool_call.text.contains('git push --force')"),
        ("before_tool_call", "tool_call['text'].matches('push\\\\s+--force')"),
        ("before_tool_call", "value.text == original.text"),
        ("before_tool_call", "text(tool_call.args.command) == 'bash -lc git push --force'"),
        ("before_tool_call", "tool_call.args.command.text().endsWith('--force')"),
        ("before_tool_call", "text(tool_call).contains(tool_call.text)"),
        ("before_tool_call", "[tool_call].exists(c, c.text.contains('push'))"),
        ("after_llm_call", "message.text.startsWith('hello\\nhm\\nbash\\nls -l\\ncommand')"),
        ("after_llm_call", "message.tool_calls.exists(c, c.text.contains('ls -l'))"),
        ("before_llm_call", "request.text.contains('a secret')"),
        ("before_llm_call", "request.messages[-1].text.startsWith('a secret')"),
        ("before_llm_call", "request.messages.exists(m, m.text.contains('secret'))"),
        ("before_llm_call", "!request.messages.all(m, m.text.contains('secret'))"),
        ("before_llm_call", "text(request.messages[-1]).startsWith('a secret')"),
        ("before_llm_call", "has(request.messages[-1].text) && !has(request.messages[-1].name)"),
        ("before_inbound", "value.text.startsWith('hello') && text(content) == content"),
        ("before_run", "text(parameters).contains('why') && text(parameters.depth) == '1\\nn'"),
    ],
)
async def test_all_text_of_a_value_whatever_its_shape(point, text, event_at):
    thought = {"type": "thinking", "thinking": "hm"}
    parts = [thought, {"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    secret = [{"type": "text", "text": "a sec"}, {"type": "text", "text": "ret"}]
    values = {
        "before_tool_call": LISTED,
        "after_llm_call": AssistantMessage(
            parts, [ToolCall("1", "bash", {"command": ["ls", "-l"]})]
        ),
        "before_llm_call": ModelRequest(
            "m",
            messages=[{"role": "user", "content": "hi"}, {"role": "user", "content": secret}],
        ),
    }
    event = await event_at(point, values.get(point, ...))
    condition = compile_expression(text, [point])
    assert condition(event) is True
    assert condition.advice == ()


async def test_half_of_a_surrogate_pair_hides_nothing(event_at):
    event = await event_at(
        "before_tool_call", ToolCall(args={"q": "\ud800 secret", "é": ["\udfff"], "\ud800": 1})
    )
    assert compile_expression("tool_call.text.contains('secret')")(event) is True
    assert compile_expression("tool_call.args.q.contains('secret')")(event) is True
    assert (
        compile_expression("text(tool_call.args).contains('é') && '?' in tool_call.args")(event)
        is True
    )


async def test_a_message_cannot_hide_behind_a_text_of_its_own(event_at):
    message = {"role": "user", "content": "the secret", "text": "hello"}
    event = await event_at("before_llm_call", ModelRequest("m", messages=[message]))
    assert compile_expression("request.messages[0].text.contains('secret')")(event) is True


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("['a', 'b'].contains(tool_call.name)", "for an item or a key, x in ['a', 'b']"),
        ("{'a': 1}.contains(tool_call.name)", "on {'a': 1}, which is never a text"),
        ("tool_call.args.contains('x')", "Write text(tool_call.args).contains(…)"),
        ("tool_call.contains('x')", "calls contains on tool_call, which is never a text"),
        ("message.tool_calls.startsWith('x')", "on message.tool_calls, which is never a text"),
        ("request.messages.matches('x')", "on request.messages, which is never a text"),
        ("user.permissions.contains('pay')", "for an item or a key, x in user.permissions"),
        ("attempt.contains('1')", "on attempt, which is never a text"),
        ("value.args.contains('x')", "on value.args, which is never a text"),
        ("contains(tool_call.name, 'x')", "Write it after the text: x.contains(…)"),
        ("!matches(tool_call.name, 'x')", "calls matches as a function"),
    ],
)
def test_a_text_function_on_what_is_never_a_text_is_refused_when_compiled(text, told):
    assert told in refused(text, ["before_tool_call"] if text.startswith("value") else ())


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("message.content.contains('x')", "write message.text.contains(…)"),
        ("tool_result.content.matches('x')", "write tool_result.text.matches(…)"),
        ("tool_call.args.command.contains('x')", "write text(tool_call.args.command).contains(…)"),
        ("tool_call.args['a b'].trim() == ''", "write text(tool_call.args['a b']).trim(…)"),
        ("request.messages[-1].content.contains('x')", "write request.messages[-1].text.contains("),
        ("request.messages.exists(m, m.content.contains('x'))", "write m.text.contains(…)"),
        ("message.tool_calls.exists(c, c.args.q.contains('x'))", "write text(c.args.q).contains("),
        ("message.content.lowerAscii().contains('x')", "write message.text.lowerAscii(…)"),
        ("parameters.question.contains('x')", "write text(parameters.question).contains(…)"),
        ("output.contains('x')", "write text(output).contains(…)"),
    ],
)
def test_what_may_be_no_text_is_searched_with_a_warning(text, advice):
    [(found, hint)] = compile_expression(text).advice
    assert found.endswith("as a text: where it is none, the hook fails")
    assert hint.startswith(advice)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("'x' in message.content", "write message.text.contains('x')"),
        ('!("x" in value.content)', 'write value.text.contains("x")'),
        ("'x' in tool_result.content", "write tool_result.text.contains('x')"),
        ("type(message.content) == list && 'x' in message.content", None),
        ("'x' in tool_call.args.words", None),
        ("model in config.models", None),
    ],
)
def test_a_text_that_is_looked_for_among_parts_is_warned_of(text, hint):
    told = [hint for _, hint in compile_expression(text).advice]
    assert told == ([] if hint is None else [hint])


@pytest.mark.parametrize(
    "text",
    [
        "content.contains('x') && tool_call.name.startsWith('x') && model.matches('x')",
        "user.email.endsWith('@example.org') && metadata.team.contains('x')",
        "tool_call.args.words.exists(w, w.contains('x'))",
        "text(tool_call.args.command).lowerAscii().contains('x')",
        "type(tool_call.args.q) == string && tool_call.args.q.contains('x')",
        "'abc'.contains(tool_call.args.letter) && (1 > 2 ? 'a' : 'b').contains('b')",
        "error.error.contains('x') && result.status.startsWith('x')",
        "[tool_call.name, model][0].contains('x') && {'a': 'x'}.a.contains('x')",
    ],
)
def test_texts_are_searched_without_a_warning(text):
    assert compile_expression(text).advice == ()


@pytest.mark.parametrize(
    ("text", "value", "answer"),
    [
        ("tool_call.args.l[-1] == 3", {"l": [1, 2, 3]}, True),
        ("tool_call.args.l[-3] == 1 && tool_call.args.l[-1] + 1 == 4", {"l": [1, 2, 3]}, True),
        ("tool_call.args.l[-1][-2] == 'a'", {"l": [[], ["a", "b"]]}, True),
        ("tool_call.args.l.filter(x, x > 1)[-1] == 3", {"l": [1, 3, 0]}, True),
        ("tool_call.args.l[ - 1 ].a == 1", {"l": [{"a": 1}]}, True),
        ("tool_call.args.l.exists(x, x in [-1])", {"l": [-1]}, True),
        ("[[-1][0], 2 -1][-1] == 1", {}, True),
        ("size(tool_call.args.l) > 0 && tool_call.args.l[-1] == 3", {"l": []}, False),
    ],
)
async def test_an_index_from_the_end(text, value, answer, event_at):
    event = await event_at("before_tool_call", ToolCall(args=value))
    assert compile_expression(text)(event) is answer


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "there is no item -1 in a list of 0. Guard it, as in size(x) > 0"),
        ("abc", "there is no item -1 in a text"),
        ({"a": 1}, "there is no item -1 in a mapping"),
        (None, "there is no item -1 in nothing"),
    ],
)
async def test_an_index_from_the_end_of_what_has_none(value, told, event_at):
    event = await event_at("before_tool_call", ToolCall(args={"l": value}))
    with pytest.raises(ActionError) as caught:
        compile_expression("tool_call.args.l[-1] == 1")(event)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("has(user.identity)", False),
        ("has(user.extras.team)", False),
        ("!has(user.email) && has(tool_call.args.to)", True),
        ("has(user.identity) && user.identity == 'ann'", False),
        ("has(tool_call.args.nothing.x)", False),
        ("has(tool_call.args.items[-1].price) && !has(tool_call.args.items[0].cost)", True),
        ("[null, {'a': 1}].exists(x, has(x.a))", True),
    ],
)
async def test_has_of_what_is_null_is_false(text, answer, event_at):
    call = ToolCall(args={"to": "bob", "items": [{"price": 1}], "nothing": None})
    event = await event_at("before_tool_call", call)
    assert compile_expression(text)(event) is answer


async def test_has_of_what_is_no_object_fails(event_at):
    event = await event_at("before_tool_call", LISTED)
    for text in (
        "has(tool_call.args.command.x)",
        "has(tool_call.args.n.x)",
        "has(tool_call.args.z.x)",
    ):
        with pytest.raises(ActionError, match="could not be evaluated"):
            compile_expression(text)(event)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("user == 'ann'", "Compare one of its fields: identity, email"),
        ("attempt == '1'", "compares attempt with '1', which it never is. It is a number"),
        ("tool_result.is_error != 'true'", "It is true or false"),
        ("tool_call.name > 5", "compares tool_call.name with 5, which it never is. It is a text"),
        ("tool_call.args == 'x'", "It is a mapping"),
        ("message.tool_calls == 0", "It is a list"),
        ("timestamp > 5", "It is a time"),
        ("session == 's1'", "It is an object"),
        ("true && (attempt == true)", "compares attempt with true"),
        ("messages[-1].content == 'x'", "(did you mean 'request.messages'?)"),
        ("args.amount > 5", "(did you mean 'tool_call.args'?)"),
        ("attachments == []", "(did you mean 'value.attachments'?)"),
    ],
)
def test_what_can_never_be_is_refused_when_compiled(text, told):
    assert told in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "user == null && attempt == 1.0 && tool_result.duration_ms > 5 && message.content == 'x'",
        "result.output == 5 && parameters == 'x' && metadata == {} && value == 'x'",
        "size(user.permissions) == 0 && attempt + 1 == 2 && tool_call.args.amount == 'x'",
        "'a' + model == 'ab' && tool_call.name == 'x'.trim() && content == 'x'",
    ],
)
def test_what_may_be_is_compared(text):
    assert compile_expression(text)


def test_what_is_no_text_is_refused():
    assert "an expression is a text, not true or false" in refused(True)


def test_every_promised_name_is_known():
    for name in (*EVENT_NAMES, *SENDER_NAMES, *(item.wire for item in CONTRACTS.values())):
        assert compile_expression(f"{name} == null")


def test_it_shows_its_text():
    condition = compile_expression("attempt > 1")
    assert condition.text == "attempt > 1"
    assert repr(condition) == "Expression('attempt > 1')"


async def test_the_engine_asks_it_and_counts_its_failure():
    registry = HookRegistry()
    when = compile_expression("tool_call.args.amount > 1000")
    registry.register(
        lambda _: Block("too much"), "before_tool_call", name="limit", when=when, lane="gate"
    )
    verdict = await registry.fire("before_tool_call", ToolCall(args={"amount": 1}))
    assert (verdict.decision, verdict.records) == (Decision.CONTINUE, ())
    verdict = await registry.fire("before_tool_call", ToolCall(args={"amount": 5000}))
    assert verdict.reason == "too much"
    verdict = await registry.fire("before_tool_call", ToolCall(args={}))
    assert verdict.decision is Decision.BLOCK
    assert verdict.records[-1].failure == "error"
    assert "no key 'amount'" in verdict.records[-1].error


async def test_it_sees_the_config_of_its_hook():
    registry = HookRegistry()
    spec = declare(
        lambda _: Block("too much"),
        ["before_tool_call"],
        "limit",
        when=compile_expression("tool_call.args.amount > config.most"),
        config={"most": 10},
    )
    registry.register(spec)
    assert (
        await registry.fire("before_tool_call", ToolCall(args={"amount": 11}))
    ).reason == "too much"


def test_without_its_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cel", None)
    assert 'pip install "checkrail[config]"' in refused("attempt > 1")


IMPORTED = """
import sys
from checkrail.actions import compile_expression
compile_expression("attempt > 1")
unwanted = {"click", "prompt_toolkit", "pygments", "rich", "typer", "cel.cli"}
print(sorted(unwanted & set(sys.modules)))
import cel.cli
print(bool(cel.cli.__file__), "typer" in sys.modules)
"""


def test_the_shell_of_the_language_is_not_imported_and_still_can_be():
    done = run_python(IMPORTED)
    assert done.stdout.split("\n") == ["[]", "True True", ""]


@pytest.mark.parametrize(
    "first_line",
    [
        "from . import stdlib",
        "from .cli import main; from . import stdlib",
        "from . import cli, stdlib; cli.main",
        "import cel.cli; from . import stdlib",
    ],
)
def test_another_version_of_the_language_may_import_what_it_likes(first_line, tmp_path):
    import cel

    package = tmp_path / "cel"
    shutil.copytree(Path(cel.__file__).parent, package)
    (package / "__init__.py").write_text(f"{first_line}\nfrom .cel import *\n")
    (package / "cli.py").write_text("main = 1\n")
    code = IMPORTED.replace("import sys", f"import sys; sys.path.insert(0, {str(tmp_path)!r})", 1)
    done = run_python(code)
    assert done.stdout.endswith("True False\n")


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_importing_actions_is_light():
    code = (
        "import sys, checkrail.actions, checkrail.actions.wire\n"
        "print(sorted({'cel', 'jsonschema_rs', 'pydantic', 'ruamel'} & set(sys.modules)))"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_every_point_has_a_wire_name_that_no_event_name_hides():
    assert not {CONTRACTS[point].wire for point in HookPoint} & set(EVENT_NAMES)
