"""Commands of the event protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_protocol import protocol

from checkrail.runs.graphs.requests import build_command
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.commands import METHODS, error_reply, parse_command, success_reply
from checkrail.server.streams.errors import STATUSES, ProtocolError


def parsed(method, params=None, id=7):
    return parse_command({"id": id, "method": method, "params": params})


def refused(body):
    with pytest.raises(ProtocolError) as caught:
        parse_command(body)
    return caught.value


def test_every_command_of_the_protocol_is_known():
    kinds = [
        getattr(protocol, name)
        for name in dir(protocol)
        if name.startswith(("Run", "Subscription", "Agent", "Input", "State"))
    ]
    known = {
        kind.__annotations__["method"].__forward_arg__.removeprefix("Literal[").strip("]\"'")
        for kind in kinds
        if "method" in getattr(kind, "__annotations__", {})
    }
    assert known - {"input.requested"} == set(METHODS)


def test_every_error_code_of_the_protocol_has_a_status():
    assert {kind.__args__[0] for kind in protocol.ErrorCode.__args__} == set(STATUSES)


def test_a_run_is_started_with_what_the_client_sends_and_more():
    command = parsed(
        "run.start",
        {"assistant_id": "a", "input": {"x": 1}, "config": {}, "multitask_strategy": "enqueue"},
    )
    assert (command.id, command.method) == (7, "run.start")
    assert (command.params.assistant_id, command.params.input) == ("a", {"x": 1})
    assert command.params.extra_options == {"multitask_strategy": "enqueue"}


def test_one_answer_becomes_the_command_of_a_run():
    params = parsed(
        "input.respond", {"interrupt_id": "i", "namespace": ["a:1"], "response": {"ok": True}}
    ).params
    assert params.all_answers[0].namespace == ("a:1",)
    assert params.to_command == {"resume": {"i": {"ok": True}}}


def test_several_answers_with_an_update_and_a_jump_become_one_command():
    responses = [{"namespace": [], "interrupt_id": name, "response": name.upper()} for name in "ab"]
    goto = ["first", {"node": "second", "input": {"n": 1}}]
    params = parsed(
        "input.respond", {"responses": responses, "update": {"n": 2}, "goto": goto}
    ).params
    assert params.to_command == {"resume": {"a": "A", "b": "B"}, "update": {"n": 2}, "goto": goto}
    command = build_command(params.to_command)
    assert command.resume == {"a": "A", "b": "B"}
    assert command.goto[1].node == "second"


def test_a_jump_may_be_the_name_of_one_node():
    params = parsed("input.respond", {"interrupt_id": "i", "response": 1, "goto": "n"}).params
    assert params.to_command == {"resume": {"i": 1}, "goto": ["n"]}


@pytest.mark.parametrize(
    "params", [{}, {"interrupt_id": "i", "responses": [{"interrupt_id": "j"}]}]
)
def test_an_answer_is_given_in_one_of_two_ways(params):
    error = refused({"id": 1, "method": "input.respond", "params": params})
    assert (error.code, error.id) == ("invalid_argument", 1)
    assert "give `interrupt_id` with `response`, or `responses`" in error.message


def test_a_subscription_is_read_as_one():
    command = parsed("subscription.subscribe", {"channels": ["values"], "since": 3})
    assert command.params == Subscription(frozenset({"values"}), since=3)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("subscription.unsubscribe", {"subscription_id": "s"}),
        ("subscription.reconnect", {"run_id": "r", "last_event_id": "e"}),
        ("agent.getTree", None),
        ("agent.getTree", {"run_id": "r"}),
        ("input.inject", {"namespace": [], "message": {"role": "user", "content": "hi"}}),
        ("state.get", {"namespace": ["a"], "keys": ["messages"]}),
        ("state.listCheckpoints", {"limit": 3, "before": "c"}),
        ("state.fork", {"checkpoint_id": "c", "input": None}),
    ],
)
def test_the_other_commands_are_read(method, params):
    known = parsed(method, params).params.model_dump(mode="json")
    assert known.items() >= (params or {}).items() or "message" in (params or {})


THIRD = {"id": 3, "method": "run.start"}
LISTS = {"id": 3, "method": "state.listCheckpoints", "params": {"limit": 0}}


@pytest.mark.parametrize(
    ("body", "code", "id", "said"),
    [
        ("x", "invalid_argument", None, "a command is an object"),
        ({"method": "run.start"}, "invalid_argument", None, "`id` is a whole number"),
        ({"id": True, "method": "run.start"}, "invalid_argument", None, "not True"),
        ({**THIRD, "method": "run.stop"}, "unknown_command", 3, "no command 'run.stop'; there are"),
        ({**THIRD, "method": []}, "invalid_argument", 3, "`method` is a text"),
        (THIRD, "invalid_argument", 3, "assistant_id: Field required"),
        ({**THIRD, "params": 5}, "invalid_argument", 3, "run.start: params: "),
        ({**THIRD, "method": "subscription.subscribe"}, "invalid_argument", 3, "a subscription is"),
        (LISTS, "invalid_argument", 3, "limit: "),
    ],
)
def test_what_does_not_fit_is_refused_under_the_commands_id(body, code, id, said):
    error = refused(body)
    assert (error.code, error.id) == (code, id)
    assert said in error.message
    assert error.unreadable == (id is None or "`method`" in said)


def test_a_refusal_does_not_repeat_what_was_sent():
    secret = {"assistant_id": "a", "config": "s3cret"}
    assert "s3cret" not in str(refused({"id": 1, "method": "run.start", "params": secret}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(method=st.sampled_from(METHODS), params=JSON)
def test_whatever_is_sent_is_read_or_refused(method, params):
    code = None
    try:
        assert parsed(method, params).method == method
    except ProtocolError as error:
        code = error.code
    assert code in (None, "invalid_argument")


def test_answers_have_the_shape_that_clients_know():
    assert success_reply(4, {"run_id": "r"}, applied_through=9) == {
        "type": "success", "id": 4, "result": {"run_id": "r"}, "meta": {"applied_through_seq": 9}
    }  # fmt: skip
    assert success_reply(4, {}) == {"type": "success", "id": 4, "result": {}}
    assert error_reply(None, "unknown_error", "gone") == {
        "type": "error", "id": None, "error": "unknown_error", "message": "gone"
    }  # fmt: skip


def test_an_error_says_its_code_and_what_to_do():
    error = ProtocolError("no_such_interrupt", "interrupt 'i' is not open; see GET state", id=2)
    assert str(error) == "no_such_interrupt: interrupt 'i' is not open; see GET state"
    assert error.status == 404
