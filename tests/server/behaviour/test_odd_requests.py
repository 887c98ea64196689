"""Requests that no database can keep as they are, or that make no sense: refused, never a 500."""

import json

import pytest

ODD = {
    "nul": '"a\\u0000b"',
    "half a pair": '"\\ud800"',
    "huge": "1" + "0" * 400,
    "not finite": "1e999",
    "deep": "[" * 5000 + "]" * 5000,
    "deep object": '{"a":' * 5000 + "1" + "}" * 5000,
    "nul key": '{"a\\u0000b": 1}',
    "half a key": '{"\\udfff": 1}',
    "long": json.dumps("x" * 100_000),
    "negative": "-1",
    "true": "true",
    "null": "null",
    "list": '[1, "a", null]',
    "object": '{"$or": [{"a": 1}], "a.b": {"$in": [1]}}',
}
FIELDS = (
    "assistant_id",
    "input",
    "config",
    "context",
    "metadata",
    "command",
    "checkpoint",
    "checkpoint_id",
    "stream_mode",
    "interrupt_before",
    "webhook",
    "multitask_strategy",
    "after_seconds",
    "feedback_keys",
    "durability",
    "on_disconnect",
    "if_not_exists",
)
NESTED = ("config.configurable", "config.metadata", "config.tags", "command.resume", "command.goto")
JSON = {"content-type": "application/json"}


def body(field, value):
    fields = {"assistant_id": '"echo"', "input": '{"text": "x"}'}
    outer, _, inner = field.partition(".")
    if outer == "command":
        fields.pop("input")
    fields[outer] = f'{{"{inner}": {value}}}' if inner else value
    return "{" + ", ".join(f'"{name}": {given}' for name, given in fields.items()) + "}"


@pytest.mark.parametrize("field", [*FIELDS, *NESTED])
async def test_an_odd_value_in_any_field_of_a_run_is_no_failure_of_the_server(http, thread, field):
    answers = {}
    for name, value in ODD.items():
        content = body(field, value).encode()
        for path in (f"/threads/{thread}/runs/wait", "/runs"):
            answer = await http.post(path, content=content, headers=JSON)
            answers[name, path] = answer.status_code
            if answer.status_code >= 400:
                assert {"error", "message", "detail"} <= answer.json().keys()
    assert {key: status for key, status in answers.items() if status >= 500} == {}
    await http.post("/runs/cancel", json={"status": "all"})


@pytest.mark.parametrize("field", ["params", "method", "id", "assistant_id", "input", "run_id"])
async def test_an_odd_value_in_a_command_is_none_either(http, thread, field):
    for value in ODD.values():
        params = {"assistant_id": '"echo"', "input": '{"text": "x"}'}
        if field in ("assistant_id", "input", "run_id"):
            params[field] = value
        whole = "{" + ", ".join(f'"{key}": {given}' for key, given in params.items()) + "}"
        method = '"agent.getTree"' if field == "run_id" else '"run.start"'
        told = {"id": "1", "method": method, "params": whole}
        if field in told:
            told[field] = value
        content = "{" + ", ".join(f'"{key}": {given}' for key, given in told.items()) + "}"
        answer = await http.post(
            f"/threads/{thread}/commands", content=content.encode(), headers=JSON
        )
        assert answer.status_code < 500, (field, value[:60], answer.text)
        if field == "run_id":
            assert answer.json().get("type", "error") == "error"


@pytest.mark.parametrize(
    "query",
    [
        "status=%00",
        "status=%ED%A0%80",
        "limit=0",
        "limit=-1",
        "limit=99999999999999999999",
        "offset=-1",
        "offset=99999999999999999999",
        "select=%00",
        "select=a&select=values.%00",
    ],
)
async def test_an_odd_query_is_none_either(http, thread, query):
    answer = await http.get(f"/threads/{thread}/runs?{query}")
    assert answer.status_code < 500, answer.text
    assert (await http.get(f"/runs?{query}")).status_code < 500


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"7", b"[[[[", b'{"a":1}{"a":2}']
)
async def test_a_body_that_is_none_is_refused(http, thread, content):
    for path in (f"/threads/{thread}/runs", "/runs/wait", "/runs/batch", "/runs/cancel"):
        answer = await http.post(path, content=content, headers=JSON)
        assert answer.status_code in (400, 422), (path, answer.text)
        assert answer.json()["message"]
    answer = await http.post(f"/threads/{thread}/commands", content=content, headers=JSON)
    assert answer.status_code in (200, 400, 422)


@pytest.mark.parametrize("name", ["%00", "a%00b", "n" * 256, "%ff", "%0a", "%2e%2e%2fagents"])
async def test_an_odd_name_in_a_path_is_refused(http, name):
    for method, path in (
        ("GET", "/agents/{}"),
        ("DELETE", "/agents/{}"),
        ("POST", "/agents/{}/enable"),
        ("POST", "/agents/{}/disable"),
        ("GET", "/hooks/{}"),
        ("DELETE", "/hooks/{}"),
        ("GET", "/assistants/{}"),
        ("GET", "/assistants/{}/schemas"),
    ):
        answer = await http.request(method, path.format(name))
        assert 400 <= answer.status_code < 500, (method, path, answer.text)
        assert answer.json()["message"]
