"""Named hooks over HTTP: defined by admins, and referred to by blueprints."""

import pytest

SHUT = {"block": "Closed for today", "status": 403}


def scripted(name, **more):
    return {"name": name, "model": {"provider": "scripted", "replies": ["done"]}, **more}


async def call(client, method, path, body=None, status=200):
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_a_named_hook_holds_in_the_agents_that_refer_to_it(client):
    made = await call(client, "PUT", "/hooks/closed", SHUT)
    assert (made["name"], made["source"], made["definition"]) == ("closed", "api", SHUT)
    await call(
        client, "POST", "/agents", scripted("a", hooks={"on_run_start": {"$ref": "closed"}}), 201
    )
    asked = {"agent_name": "a", "parameters": {"prompt": "x"}, "execution_mode": "sync"}
    run = await call(client, "POST", "/runs", asked)
    assert (run["phase"], run["block_reason"]) == ("blocked", "Closed for today")
    await call(client, "PUT", "/hooks/closed", {"block": "Closed for good"})
    assert (await call(client, "POST", "/runs", asked))["block_reason"] == "Closed for good"


async def test_the_named_hooks_of_the_config_are_listed_too_without_their_secrets(client):
    await call(client, "PUT", "/hooks/closed", SHUT)
    found = {each["name"]: each for each in await call(client, "GET", "/hooks")}
    assert [*found] == ["shut", "told", "closed"]
    assert [each["source"] for each in found.values()] == ["file", "file", "api"]
    assert found["shut"]["definition"] == {"block": "Not today"}
    assert "of-the-file" not in str(found)
    assert await call(client, "GET", "/hooks/told") == found["told"]
    await call(client, "GET", "/hooks/nothing", status=404)


async def test_a_hook_of_the_config_is_changed_there(client):
    await call(client, "PUT", "/hooks/shut", SHUT, 409)
    await call(client, "DELETE", "/hooks/shut", status=409)


async def test_a_hook_that_is_needed_cannot_be_removed(client):
    await call(client, "PUT", "/hooks/closed", SHUT)
    await call(
        client, "POST", "/agents", scripted("a", hooks={"on_run_start": {"$ref": "closed"}}), 201
    )
    refused = await call(client, "DELETE", "/hooks/closed", status=409)
    assert "closed" in refused["message"]
    await call(client, "DELETE", "/agents/a", status=204)
    await call(client, "DELETE", "/hooks/closed", status=204)
    await call(client, "DELETE", "/hooks/closed", status=404)


async def test_a_change_that_an_agent_could_not_bear_is_refused(client):
    await call(client, "PUT", "/hooks/closed", SHUT)
    hooks = {"on_run_start": {"$ref": "closed"}}
    await call(client, "POST", "/agents", scripted("a", hooks=hooks), 201)
    back = {"type": "agent", "agent_name": "a", "on_error": "block"}
    refused = await call(client, "PUT", "/hooks/closed", back, 422)
    assert "circle" in refused["message"]
    assert (await call(client, "GET", "/hooks/closed"))["definition"] == SHUT


WRONG = [
    ({"command": ["id"]}, "command"),
    ({"path": "os:system"}, "path"),
    ({"url": "http://127.0.0.1/"}, "url"),
    ({"url": "https://a.example", "secret": "whsec_x"}, "secret"),
    ({"block": "${HOME}"}, "block"),
    ({"blokc": "x"}, "blokc"),
    ({"name": "x", "block": "y"}, "name"),
    ({"$ref": "nobody"}, "$ref"),
    ([], None),
    ("x", None),
]


@pytest.mark.parametrize(("definition", "key"), WRONG)
async def test_what_is_wrong_with_a_hook_is_told(client, definition, key):
    refused = await call(client, "PUT", "/hooks/new", definition, 422)
    assert key is None or any(key in each["path"] for each in refused["errors"]), refused
    await call(client, "GET", "/hooks/new", status=404)


async def test_named_hooks_are_for_admins(served):
    ann, root = await served.as_user("ann"), await served.as_user("root")
    for method, path, body in (
        ("GET", "/hooks", None),
        ("GET", "/hooks/shut", None),
        ("PUT", "/hooks/mine", SHUT),
        ("DELETE", "/hooks/mine", None),
    ):
        await call(ann, method, path, body, 403)
    await call(root, "PUT", "/hooks/mine", SHUT)
    hooks = {"on_run_start": {"$ref": "mine"}}
    await call(ann, "POST", "/agents", scripted("a", hooks=hooks), 201)
