import subprocess
import sys

import pytest

from checkrail.actions import ActionError, compile_expression
from checkrail.actions.expression import EVENT_NAMES, SENDER_NAMES
from checkrail.engine.hook import declare
from checkrail.engine.outcomes import Block
from checkrail.engine.points import CONTRACTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ModelRequest, ToolCall, User


def refused(text, points=()) -> str:
    with pytest.raises(ActionError) as caught:
        compile_expression(text, points)
    return str(caught.value)


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
        ("tool_call.name", "a text"),
        ("tool_call.args", "a mapping"),
        ("tool_call.args.items", "a list"),
        ("timestamp", "a time"),
        ("user", "nothing"),
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
        "[1, 2].contains(2)",
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
        ("['x'].exists(model, 'x' in model)", []),
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


def test_importing_actions_is_light():
    code = (
        "import sys, checkrail.actions, checkrail.actions.wire\n"
        "print(sorted({'cel', 'jsonschema_rs', 'pydantic', 'ruamel'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_point_has_a_wire_name_that_no_event_name_hides():
    assert not {CONTRACTS[point].wire for point in HookPoint} & set(EVENT_NAMES)
