"""Bodies that nest deeply: every route answers 422, and none fails."""

import json

import pytest
from starlette.responses import Response

from checkrail.server.body_middleware import BodyLimit

THREAD = "00000000-0000-4000-8000-000000000000"
ROUTES = [
    ("POST", "/runs", {"agent_name": "echo", "parameters": "HERE"}),
    ("POST", "/runs", {"assistant_id": "echo", "input": "HERE"}),
    ("POST", "/runs/wait", {"assistant_id": "echo", "input": "HERE"}),
    ("POST", "/runs/stream", {"assistant_id": "echo", "command": {"resume": "HERE"}}),
    ("POST", "/runs/batch", [{"assistant_id": "echo", "context": "HERE"}]),
    ("POST", f"/threads/{THREAD}/runs", {"assistant_id": "echo", "config": {"x": "HERE"}}),
    ("POST", "/threads", {"metadata": {"x": "HERE"}}),
    ("POST", f"/threads/{THREAD}/state", {"values": {"x": "HERE"}}),
    ("POST", "/threads/search", {"values": {"x": "HERE"}}),
    ("POST", "/assistants", {"graph_id": "echo", "config": {"x": "HERE"}}),
    ("POST", "/runs/crons", {"assistant_id": "echo", "schedule": "* * * * *", "input": "HERE"}),
    ("PUT", "/store/items", {"namespace": ["a"], "key": "k", "value": {"x": "HERE"}}),
    ("POST", "/agents", {"name": "a", "model": "openai/x", "parameters_schema": {"x": "HERE"}}),
    ("PUT", "/hooks/a", {"set": {"x": "HERE"}}),
]


def body(shape, depth, opening="[", closing="]"):
    return json.dumps(shape).replace('"HERE"', opening * depth + "1" + closing * depth)


async def test_a_body_that_nests_900_deep_is_refused(client):
    headers = {"content-type": "application/json"}
    for method, path, shape in ROUTES:
        for deep in (body(shape, 900), body(shape, 300, '{"a":', "}"), body(shape, 100_000)):
            answer = await client.request(method, path, content=deep, headers=headers)
            assert answer.status_code == 422, (path, answer.text)
            assert "nested deeper than 100 levels" in answer.json()["message"]
        answer = await client.request(method, path, content=body(shape, 60), headers=headers)
        assert answer.status_code < 500, (path, answer.text)


async def test_what_is_not_nested_may_have_many_brackets(client):
    for value in ("[" * 5000, '\\"[{' * 500, ["a"] * 500, [[1]] * 500):
        answer = await client.post(
            "/runs/wait", json={"assistant_id": "echo", "input": {"x": value}}
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", [b"text/plain", b"application/octet-stream"])
async def test_what_is_no_json_is_not_looked_into(kind):
    """A project may serve an app of its own, which takes what it likes."""
    sent = []

    async def app(scope, receive, send):
        message = await receive()
        await Response(message["body"][:3])(scope, receive, send)

    async def receive():
        return {"type": "http.request", "body": b"[" * 1000}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": "/", "headers": [(b"content-type", kind)]}
    await BodyLimit(app, 10_000)(scope, receive, send)
    assert sent[-1]["body"] == b"[[["
