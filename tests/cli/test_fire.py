"""`checkrail fire`: every point, every way to give a value, every decision and its exit code."""

import json

import pytest

from checkrail.engine.points import CONTRACTS, FIRED_AS, HookPoint
from checkrail.engine.values import plain
from checkrail.testing import sample

EVERYWHERE = json.dumps(
    {
        "hooks": {
            str(point): {"name": f"seen_{point}", "lane": "observe", "path": "./own.py:seen"}
            for point in HookPoint
        }
    }
)
SEEN = "def seen(event):\n    pass\n"

TOLD = {
    *("point", "decision", "value", "reason", "status", "code", "hook", "inject", "records"),
}

OBJECTS = {
    "on_session_start": {"session_id": "s9", "channel": "mail"},
    "before_inbound": {"user_id": "bob", "channel": "mail", "content": "hello"},
    "before_run": {"question": "why?", "deep": [1, {"two": None}]},
    "on_run_start": {"question": "why?"},
    "before_llm_call": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "after_llm_call": {"content": "hi", "tool_calls": [{"name": "weather", "args": {"city": "X"}}]},
    "before_tool_call": {"id": "c9", "name": "transfer", "args": {"amount": 5}},
    "after_tool_call": {"name": "weather", "content": {"degrees": 21}},
    "on_tool_error": {"name": "weather", "is_error": True, "error": "no network"},
    "before_final_response": {"content": "done", "usage": {"total_tokens": 3}},
    "query_end": {"content": "done", "stop_reason": "end_turn"},
    "on_result": {"answer": 42},
    "before_outbound": {"user_id": "bob", "content": "bye"},
    "after_run": {"output": {"answer": 42}, "status": "interrupted"},
    "on_run_error": {"error": "late", "error_type": "TimeoutError", "status": "timeout"},
    "on_session_end": {"session_id": "s9", "reason": "expired", "thread_ids": ["t1"]},
}

TEXTS = {
    "before_inbound": "content",
    "after_llm_call": "content",
    "after_tool_call": "content",
    "on_tool_error": "content",
    "before_final_response": "content",
    "query_end": "content",
    "before_outbound": "content",
}


@pytest.fixture
def everywhere(write):
    """Write a file with an observer at every point."""
    write("own.py", SEEN)
    write("every.json", EVERYWHERE)
    return "every.json"


@pytest.mark.parametrize("point", HookPoint)
def test_every_point_has_a_sample(point, everywhere, invoke):
    done = invoke("fire", everywhere, point)
    assert (done.code, done.err) == (0, "")
    first, call, last = done.rows
    assert (first, last) == ([point], ["continue"])
    assert call[:3] == ["observe", f"seen_{point}", "passes"]
    told = invoke("fire", everywhere, point, "--json").data
    assert told.keys() >= TOLD
    assert told["value"] == plain(sample(point))
    assert (told["point"], told["decision"], told["inject"]) == (point, "continue", [])
    assert (told["reason"], told["status"], told["code"], told["hook"]) == ("", None, None, None)
    assert [record["kind"] for record in told["records"]] == ["hook_start", "hook_complete"]
    assert {record["hook"] for record in told["records"]} == {f"seen_{point}"}


@pytest.mark.parametrize("point", HookPoint)
def test_every_point_takes_an_object(point, everywhere, invoke):
    given = OBJECTS[point]
    value = invoke("fire", everywhere, point, "--value", json.dumps(given), "--json").data["value"]
    for name, wanted in given.items():
        if name == "tool_calls":
            wanted = [{"id": "", "context": "chat", **call} for call in wanted]  # noqa: PLW2901
        assert value[name] == wanted
    if CONTRACTS[point].value is not object:
        assert value.keys() == set(CONTRACTS[point].value.__slots__)


@pytest.mark.parametrize(("point", "field"), TEXTS.items())
def test_a_text_stands_for_the_primary_text(point, field, everywhere, invoke):
    value = invoke("fire", everywhere, point, "--value", '"Grüße"', "--json").data["value"]
    assert value == {**plain(sample(point)), field: "Grüße"}


def test_a_text_stands_for_the_arguments_of_a_tool(everywhere, invoke):
    text = json.dumps('{"city": "Rome"}')
    done = invoke("fire", everywhere, "before_tool_call", "--value", text, "--json")
    assert done.data["value"]["args"] == {"city": "Rome"}


@pytest.mark.parametrize("given", ["null", "true", "3.5", '"text"', "[1, [2]]", '{"a": {}}'])
def test_a_run_takes_any_json(given, everywhere, invoke):
    done = invoke("fire", everywhere, "before_run", "--value", given, "--json")
    assert done.data["value"] == json.loads(given)


def test_the_names_of_the_wire_are_taken_for_a_tool_call(everywhere, invoke):
    given = '{"tool_name": "transfer", "parameters": {"amount": 1}}'
    value = invoke("fire", everywhere, "before_tool_call", "--value", given, "--json").data["value"]
    assert (value["name"], value["args"]) == ("transfer", {"amount": 1})


def test_a_query_can_end_without_a_response(everywhere, invoke):
    done = invoke("fire", everywhere, "query_end", "--value", "null", "--json")
    assert done.code == 0, done.err
    assert done.data["value"] is None


@pytest.mark.parametrize(
    ("alias", "point"), [(name, at) for name, at in FIRED_AS.items() if name != at]
)
def test_other_names_of_points_are_known(alias, point, everywhere, invoke):
    assert invoke("fire", everywhere, alias, "--json").data["point"] == point


RULES = """
    hooks:
      before_tool_call:
        - name: limit
          tools: [transfer]
          when: tool_call.args.amount > 1000
          block: Transfers over 1000 need the finance desk
          status: 402
          code: too_much
        - name: mail_first
          tools: [mail]
          ask: May it send mail?
        - name: city
          tools: [weather]
          set: { args.city: Rome }
        - name: canned
          tools: [forecast]
          replace: Always sunny
      before_llm_call:
        - name: house_rules
          inject: Answer in one sentence.
        - name: enough
          models: [expensive]
          stop: That is all.
      after_llm_call:
        - name: plan
          retry: Say what you plan first.
      before_run:
        - name: broken
          users: [mallory]
          fail: The desk is closed
"""

VALUE = '{"name": "transfer", "args": {"amount": 5000}}'


@pytest.fixture
def rules(write):
    """Write a file with a rule for every decision."""
    write("checkrail.yaml", RULES)
    return "checkrail.yaml"


def test_a_block_leaves_with_3(rules, checkrail, write):
    write("call.json", VALUE)
    done = checkrail("fire", rules, "before_tool_call", "--value", "@call.json")
    assert (done.code, done.err) == (3, "")
    assert done.rows[0] == ["before_tool_call"]
    assert done.rows[1][1:3] == ["limit", "blocks"]
    assert done.rows[1][4] == "Transfers over 1000 need the finance desk"
    says = "block by limit (402): Transfers over 1000 need the finance desk"
    assert done.rows[2:] == [[says]]


def test_a_block_for_machines(rules, checkrail):
    done = checkrail("fire", rules, "before_tool_call", "--value", "-", "--json", stdin=VALUE)
    assert (done.code, done.err) == (3, "")
    told = done.data
    assert told.keys() >= TOLD
    assert told["decision"] == "block"
    assert (told["hook"], told["status"], told["code"]) == ("limit", 402, "too_much")
    assert told["reason"] == "Transfers over 1000 need the finance desk"
    assert told["value"]["args"] == {"amount": 5000}
    start, end = told["records"]
    assert (start["event_type"], end["event_type"]) == ("hook_start", "hook_blocked")
    assert end["block_reason"] == told["reason"]
    assert end["source"] == "checkrail.yaml:3"
    assert end["duration_ms"] >= 0


def test_a_failure_leaves_with_4(rules, checkrail):
    context = '{"user": {"identity": "mallory", "org_id": "o1"}, "run_id": "r1"}'
    done = checkrail("fire", rules, "before_run", "--context", context)
    assert (done.code, done.err) == (4, "")
    assert done.rows[1][1:3] == ["broken", "fails"]
    assert done.rows[-1] == ["fail by broken (500): The desk is closed"]


def test_the_context_is_in_the_records(rules, invoke):
    context = '{"user": "mallory", "run_id": "r1", "agent_name": "desk", "attempt": 2}'
    told = invoke("fire", rules, "before_run", "--context", context, "--json")
    assert told.code == 4
    for record in told.data["records"]:
        assert (record["run_id"], record["agent_name"], record["attempt"]) == ("r1", "desk", 2)


def test_the_context_can_be_a_file(rules, invoke, write):
    write("context.json", '{"user": "mallory"}')
    assert invoke("fire", rules, "before_run", "--context", "@context.json").code == 4


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        ((), 3, "block by mail_first (403): May it send mail?, but there is nobody to ask"),
        (("--approve",), 0, "continue"),
        (("--deny",), 3, "block by mail_first (403): May it send mail?: denied"),
    ],
)
def test_what_is_asked_can_be_answered(answer, code, says, rules, invoke):
    done = invoke("fire", rules, "before_tool_call", "--value", '{"name": "mail"}', *answer)
    assert (done.code, done.err) == (code, "")
    assert done.rows[1][1:3] == ["mail_first", "asks"]
    assert done.rows[-1] == [says]


def test_a_change_is_shown_before_and_after(rules, invoke):
    done = invoke("fire", rules, "before_tool_call")
    assert done.code == 0
    assert done.rows[1][:3] == ["transform", "city", "changes"]
    assert done.rows[1][4] == 'args.city: "Paris" → "Rome"'
    assert done.rows[2:] == [["continue"], ['value: args.city: "Paris" → "Rome"']]


def test_a_retry_goes_on(rules, invoke):
    done = invoke("fire", rules, "after_llm_call")
    assert (done.code, done.rows[-1]) == (0, ["retry by plan: Say what you plan first."])


def test_an_injected_message_is_shown(rules, invoke):
    done = invoke("fire", rules, "before_llm_call")
    message = {"role": "system", "content": "Answer in one sentence."}
    assert (done.code, done.rows[1][:3]) == (0, ["transform", "house_rules", "injects"])
    assert done.rows[-1] == [f"injected: {json.dumps(message)}"]
    assert invoke("fire", rules, "before_llm_call", "--json").data["inject"] == [message]


@pytest.mark.parametrize(
    ("point", "value", "says"),
    [
        ("before_tool_call", '{"name": "forecast"}', ["replace by canned", "Always sunny"]),
        ("before_llm_call", '{"model": "expensive"}', ["stop by enough", "That is all."]),
    ],
)
def test_what_stands_for_a_result_is_shown_as_it_is(point, value, says, rules, invoke):
    done = invoke("fire", rules, point, "--value", value)
    (decided,), (brought,) = done.rows[-2:]
    assert (done.code, decided) == (0, says[0])
    assert says[1] in brought
    assert "null → " not in brought, "the call and its result are two things, no change of one"


def test_a_point_without_hooks_goes_on(rules, invoke):
    done = invoke("fire", rules, "on_session_end")
    first, (middle,), last = done.rows
    assert (done.code, first, last) == (0, ["on_session_end"], ["continue"])
    assert middle.startswith("no hook")
    assert invoke("fire", rules, "on_session_end", "--json").data["records"] == []
