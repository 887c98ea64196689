"""Agents over HTTP: made, changed, switched and removed, and what a request may not bring."""

import asyncio
import dataclasses

import pytest
from langgraph_sdk import Auth

from checkrail.runs.agents.managed_agents import ManagedAgents
from checkrail.server.auth import choose_authenticator
from checkrail.store.keys import Key

from .support import named_users

POET = {
    "name": "poet",
    "model": {"provider": "scripted", "replies": ["Roses are red", "Violets are blue"]},
    "system_prompt": "You write poems.",
    "description": "Writes poems",
}


def scripted(name, *replies, **more):
    model = {"provider": "scripted", "replies": [*(replies or ("done",))]}
    return {"name": name, "model": model, **more}


def hook(agent_name, **more):
    return {"type": "agent", "agent_name": agent_name, "on_error": "block", **more}


async def made(client, blueprint=POET, status=201):
    answer = await client.post("/agents", json=blueprint)
    assert answer.status_code == status, answer.text
    return answer.json()


async def call(client, method, path, body=None, status=200):
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def run(client, agent_name, **body):
    asked = {"agent_name": agent_name, "execution_mode": "sync", **body}
    return await call(client, "POST", "/runs", asked)


async def test_an_agent_that_was_made_is_run_by_both_apis(client):
    agent = await made(client)
    assert (agent["name"], agent["kind"], agent["source"]) == ("poet", "autonomous", "api")
    assert (agent["version"], agent["enabled"], agent["model"]) == (1, True, "scripted")
    assert agent["blueprint"]["system_prompt"] == "You write poems."
    ended = await run(client, "poet", parameters={"prompt": "A poem, please"})
    assert (ended["status"], ended["result_text"]) == ("success", "Roses are red")
    asked = {"assistant_id": "poet", "input": {"prompt": "Another"}}
    answer = await client.post("/runs/wait", json=asked)
    assert answer.status_code == 200, answer.text
    assistant = await call(client, "GET", f"/assistants/{agent['assistant_id']}")
    assert (assistant["graph_id"], assistant["description"]) == ("poet", "Writes poems")


async def test_what_asks_for_an_agent_that_was_removed_is_told_its_name(client):
    agent = await made(client)
    ran = await run(client, "poet", parameters={"prompt": "A poem, please"})
    mine = await call(client, "POST", "/assistants", {"graph_id": "poet"})
    await call(client, "DELETE", "/agents/poet", status=204)
    thread = f"/threads/{ran['thread_id']}"
    resumed = {"id": 1, "method": "input.respond", "params": {"interrupt_id": "x", "response": 1}}
    errors = [
        await call(client, "POST", "/runs", {"agent_name": "poet"}, status=404),
        await call(client, "POST", "/runs", {"assistant_id": "poet"}, status=404),
        await call(client, "POST", "/runs", {"assistant_id": mine["assistant_id"]}, status=409),
        await call(client, "POST", "/runs", {"assistant_id": agent["assistant_id"]}, status=404),
        await call(
            client,
            "POST",
            f"/sessions/{ran['session_id']}/resume",
            {"prompt": "Go on"},
            status=404,
        ),
        await call(client, "POST", f"{thread}/commands", resumed, status=404),
        await call(client, "GET", "/agents/poet", status=404),
    ]
    assert [error["message"] for error in errors if "'poet'" not in error["message"]] == []


async def test_whose_agent_was_removed_is_for_who_ran_it(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    agent = await made(ann)
    await run(ann, "poet", parameters={"prompt": "A poem, please"})
    await call(ann, "DELETE", "/agents/poet", status=204)
    asked = {"assistant_id": agent["assistant_id"]}
    assert "'poet' was removed" in (await call(ann, "POST", "/runs", asked, 404))["message"]
    assert "poet" not in (await call(bob, "POST", "/runs", asked, 404))["message"]


async def test_all_agents_are_listed_with_where_they_come_from(client):
    await made(client)
    found = {each["name"]: each for each in await call(client, "GET", "/agents")}
    assert [*found] == ["echo", "loud", "nested", "poet"]
    assert {each["source"] for each in found.values()} == {"file", "api"}
    assert (found["echo"]["kind"], found["echo"]["blueprint"]) == ("graph", None)
    assert found["echo"]["declared_in"]
    assert (await call(client, "GET", "/info"))["agents"] == [*found]


async def test_a_change_is_the_next_version_and_null_takes_a_key_out(client):
    await made(client, POET | {"hooks": {"on_run_start": {"$ref": "shut"}}})
    blocked = await run(client, "poet", parameters={"prompt": "x"})
    assert (blocked["status"], blocked["blocked_by"]) == ("error", "poet.on_run_start")
    changed = await call(client, "PATCH", "/agents/poet", {"hooks": None, "tags": ["art"]})
    assert (changed["version"], changed["hooks"], changed["tags"]) == (2, [], ["art"])
    assert changed["blueprint"]["system_prompt"] == "You write poems."
    assert (await run(client, "poet", parameters={"prompt": "x"}))["status"] == "success"
    replaced = await call(client, "PUT", "/agents/poet", scripted("poet", "short"))
    assert (replaced["version"], replaced["tags"], replaced["description"]) == (3, [], None)
    versions = await call(client, "GET", "/agents/poet/versions")
    assert [each["version"] for each in versions] == [3, 2, 1]
    assert versions[2]["blueprint"]["hooks"] == {"on_run_start": {"$ref": "shut"}}


async def test_a_name_is_taken_once_and_stays(client):
    await made(client)
    assert "poet" in (await made(client, status=409))["message"]
    assert "echo" in (await made(client, scripted("echo"), 409))["message"]
    await call(client, "PATCH", "/agents/poet", {"name": "bard"}, 422)
    for name in ("../poet", "a/b", "", "a b", "x" * 300, "a\0b"):
        await made(client, scripted(name), 422)


async def test_an_agent_that_is_off_is_not_run_and_one_of_a_file_can_be_switched_too(client):
    await made(client)
    for name, parameters in (("poet", {"prompt": "x"}), ("echo", {"text": "x"})):
        assert (await call(client, "POST", f"/agents/{name}/disable"))["enabled"] is False
        asked = {"agent_name": name, "parameters": parameters}
        refused = await call(client, "POST", "/runs", asked, 409)
        assert "switched off" in refused["message"]
        await call(client, "POST", "/runs", {"assistant_id": name, "input": parameters}, 409)
        assert (await call(client, "POST", f"/agents/{name}/enable"))["enabled"] is True
        assert (await run(client, name, parameters=parameters))["status"] == "success"
    made_off = await made(client, scripted("quiet", enabled=False))
    assert made_off["enabled"] is False
    assert "enabled" not in made_off["blueprint"]


async def test_an_agent_of_a_file_is_changed_in_its_file(client):
    for method, body in (
        ("PATCH", {"description": "x"}),
        ("PUT", scripted("echo")),
        ("DELETE", None),
    ):
        refused = await call(client, method, "/agents/echo", body, 409)
        assert "tests" in refused["message"]
    assert await call(client, "GET", "/agents/echo/versions") == []


async def test_an_agent_that_was_removed_is_gone_with_its_assistant(client):
    agent = await made(client)
    await call(client, "DELETE", "/agents/poet", status=204)
    for path in ("/agents/poet", "/agents/poet/versions", f"/assistants/{agent['assistant_id']}"):
        await call(client, "GET", path, status=404)
    asked = {"agent_name": "poet", "parameters": {"prompt": "x"}}
    missing = await call(client, "POST", "/runs", asked, 404)
    assert "GET /agents lists those that you may see" in missing["message"]
    await call(client, "DELETE", "/agents/poet", status=404)
    assert (await made(client))["version"] == 1


CODE = [
    ({"type": "procedural", "command": ["ls"]}, "command"),
    ({"type": "graph", "path": "./graphs.py:echo"}, "path"),
    ({"model": "./models.py:model"}, "model"),
    ({"model": {"provider": "openai", "model": "m", "base_url": "https://evil.example"}}, "model"),
    ({"model": {"provider": "openai", "model": "m", "api_key": "sk-abcdefgh"}}, "model"),
    ({"model": {"model": "litellm/m", "params": {"api_base": "https://evil.example"}}}, "api_base"),
    ({"tools": ["./tools.py:delete_all"]}, "tools"),
    ({"tools": ["os:system"]}, "tools"),
    ({"mcp": {"shell": {"command": ["sh"]}}}, "mcp.shell"),
    ({"mcp": {"away": {"url": "https://unlisted.example"}}}, "mcp.away"),
    ({"mcp": {"inner": {"url": "http://169.254.169.254/"}}}, "mcp.inner"),
    ({"system_prompt": "Say ${HOME}"}, "system_prompt"),
    ({"hooks": {"path": "./hooks.py:hooks"}}, "hooks.path"),
    ({"hooks": {"on_run_start": {"path": "os:system"}}}, "on_run_start.path"),
    ({"hooks": {"on_run_start": {"module": "os", "function": "system"}}}, "on_run_start"),
    ({"hooks": {"on_run_start": [{"command": ["sh", "-c", "id"]}]}}, "on_run_start[0].command"),
    ({"hooks": {"on_run_start": {"type": "command", "command": ["id"]}}}, "on_run_start"),
    ({"hooks": {"on_run_start": {"url": "http://127.0.0.1:1/"}}}, "on_run_start.url"),
    ({"hooks": {"on_run_start": {"url": "https://a.example", "secret": "whsec_x"}}}, "secret"),
    (
        {"hooks": {"after_run": {"url": "https://a.example", "headers": {"Authorization": "x"}}}},
        "headers",
    ),
    ({"hooks": {"after_run": {"$ref": "told", "url": "https://evil.example"}}}, "after_run.url"),
    ({"definitions": {"mine": {"command": ["id"]}}}, "definitions.mine.command"),
]


@pytest.mark.parametrize(("said", "path"), CODE)
async def test_a_request_brings_no_code_no_secrets_and_no_places_that_are_not_open(
    client, said, path
):
    refused = await made(client, scripted("mean") | said, 422)
    assert refused["error"] == "invalid"
    assert any(path in each["path"] for each in refused["errors"]), refused
    assert all(each["message"] for each in refused["errors"])
    await call(client, "GET", "/agents/mean", status=404)


async def test_what_a_request_may_bring(client):
    hooks = {
        "before_run": {"$ref": "shut", "mode": "shadow"},
        "on_run_start": [{"block": "no", "when": "parameters.prompt == 'no'"}, hook("loud")],
        "on_result": {"type": "approval", "question": "Fine?", "mode": "off"},
        "before_llm_call": {"builtin": "redact", "config": {"patterns": {"a": "a+"}}},
        "on_run_finish": {"url": "https://hooks.example/done", "headers": {"x-team": "red"}},
    }
    mcp = {"search": {"url": "https://mcp.example/mcp", "include": ["find_*"]}}
    model = {"provider": "openai", "model": "gpt-x", "params": {"temperature": 0}}
    said = {"model": model, "hooks": hooks, "mcp": mcp, "tools": ["agent:poet"]}
    await made(client)
    agent = await made(client, scripted("rich") | said | {"system_prompt": "A price is $${X}"})
    assert {each["type"] for each in agent["hooks"]} >= {"rule", "agent", "http", "approval"}
    assert "https://hooks.example" in {each["target"] for each in agent["hooks"]}
    assert agent["tools"] == ["agent:poet"]


EXPONENTIAL = {
    "$ref": "#/$defs/0",
    "$defs": {
        str(number): {"anyOf": [{"$ref": f"#/$defs/{number + 1}"}] * 2} for number in range(40)
    }
    | {"40": {"type": "null"}},
}
COSTLY = [
    ({"parameters_schema": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "parameters_schema"),
    ({"parameters_schema": {"$dynamicRef": "#x"}}, "parameters_schema"),
    ({"output_schema": {"$ref": "https://evil.example/schema"}}, "output_schema"),
    ({"output_schema": EXPONENTIAL}, "output_schema"),
    (
        {"hooks": {"before_run": {"builtin": "schema_check", "config": {"schema": EXPONENTIAL}}}},
        "hooks.before_run.config.schema",
    ),
    ({"hooks": {"before_run": [{"block": "no"}] * 41}}, ""),
    ({"system_prompt": "x" * 500_001}, ""),
    ({"tags": ["x"] * 20_001}, ""),
]
ELSEWHERE = [
    ({"model": "litellm/oobabooga/http://127.0.0.1:1"}, "model"),
    ({"model": "litellm/ollama/llama3:8b"}, "model"),
    ({"model": {"provider": "litellm", "model": "langgraph/agent"}}, "model.model"),
    ({"model": "litellm/vllm/of-anybody"}, "model"),
    ({"model": "litellm/OobaBooga/evil.example"}, "model"),
    ({"model": "litellm/huggingface/HTTPS://evil.example/v1"}, "model"),
    ({"model": {"provider": "litellm", "model": "custom/evil.example"}}, "model.model"),
    ({"model": {"model": "litellm/x//evil.example"}}, "model.model"),
    ({"model": {"model": " litellm/x%2f%2fevil.example"}}, "model.model"),
]


async def test_a_request_brings_nothing_that_takes_for_ever_or_leads_elsewhere(client):
    for said, path in (*COSTLY, *ELSEWHERE):
        refused = await made(client, scripted("mean") | said, 422)
        assert path in {each["path"] for each in refused["errors"]}, refused


async def test_schemas_that_a_request_may_bring(client):
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "id": {"const": "x"}}}
    shared = {
        "properties": {name: {"$ref": "#/$defs/name"} for name in ("a", "b", "c")},
        "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}},
    }
    await made(client, scripted("tree", parameters_schema=tree, output_schema=shared))


async def test_models_of_litellm_by_their_usual_names(client):
    for number, name in enumerate(
        ("openai/gpt-5", "groq/llama3:8b", "vertex_ai/claude@20260101", "bedrock/arn:aws:x:1:y/z")
    ):
        await made(client, scripted(f"m{number}") | {"model": f"litellm/{name}"})


async def test_what_is_wrong_with_a_blueprint_is_told_by_place(client):
    refused = await made(client, POET | {"modle": "x", "hooks": {"on_start": {"block": "x"}}}, 422)
    assert {each["path"] for each in refused["errors"]} == {"modle", "hooks.on_start"}
    refused = await made(client, POET | {"parameters_schema": {"type": "nothing"}}, 422)
    assert refused["errors"][0]["path"] == "parameters_schema"
    await made(client, {"name": "empty"}, 422)
    await made(client, {"model": "openai/x"}, 422)


async def test_hooks_that_lead_back_are_refused_with_the_circle(client):
    refused = await made(client, scripted("me", hooks={"on_run_start": hook("me")}), 422)
    assert "me → me" in refused["message"]
    await made(client, scripted("c"))
    await made(client, scripted("b", hooks={"on_run_finish": hook("c")}))
    await made(client, scripted("a", hooks={"on_run_finish": hook("b")}))
    change = {"hooks": {"on_run_finish": hook("a")}}
    refused = await call(client, "PATCH", "/agents/c", change, 422)
    assert "circle" in refused["message"]
    for name in "abc":
        assert f"{name} →" in refused["message"] or f"→ {name}" in refused["message"]
    assert (await call(client, "GET", "/agents/c"))["version"] == 1


async def test_tools_that_lead_back_are_refused_too(client):
    await made(client, scripted("one"))
    await made(client, scripted("two", tools=["agent:one"]))
    refused = await call(client, "PATCH", "/agents/one", {"tools": ["agent:two"]}, 422)
    assert "circle" in refused["message"]
    refused = await made(client, scripted("three", tools=["agent:nobody"]), 422)
    assert "nobody" in refused["message"]


async def test_a_hook_names_an_agent_that_is_there(client):
    refused = await made(client, scripted("lost", hooks={"on_run_start": hook("nobody")}), 422)
    assert "nobody" in refused["message"]
    await made(client, scripted("starts", hooks={"on_run_start": {"$ref": "shut"}}))
    refused = await made(client, scripted("late", hooks={"on_run_start": hook("starts")}), 422)
    assert "start hooks of its own" in refused["message"]


async def test_an_agent_that_others_need_cannot_be_removed(client):
    await made(client)
    await made(client, scripted("fan", hooks={"on_run_finish": hook("poet")}))
    refused = await call(client, "DELETE", "/agents/poet", status=409)
    assert "fan" in refused["message"]
    await call(client, "DELETE", "/agents/fan", status=204)
    await call(client, "DELETE", "/agents/poet", status=204)


async def test_members_make_and_change_their_own_and_admins_all(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    root = await served.as_user("root")
    await made(ann)
    assert (await call(bob, "GET", "/agents/poet"))["owner"] == "ann"
    assert (await run(bob, "poet", parameters={"prompt": "x"}))["status"] == "success"
    await call(bob, "PATCH", "/agents/poet", {"tags": ["x"]}, 403)
    await call(bob, "POST", "/agents/poet/disable", status=403)
    await call(bob, "DELETE", "/agents/poet", status=403)
    await call(ann, "POST", "/agents/echo/disable", status=403)
    assert (await call(ann, "PATCH", "/agents/poet", {"tags": ["x"]}))["version"] == 2
    changed = await call(root, "PATCH", "/agents/poet", {"tags": ["y"]})
    assert (changed["version"], changed["owner"]) == (3, "ann")
    await call(root, "POST", "/agents/echo/disable")


@pytest.mark.parametrize("allows", [lambda auth: auth.on.assistants, lambda auth: auth.on])
async def test_a_handler_that_allows_everything_lets_no_member_change_what_is_everybodys(
    served, allows
):
    auth = named_users()
    asked = []

    @allows(auth)
    async def allow(ctx, value):
        asked.append((ctx.resource, ctx.action))
        return True

    ann, bob = await served.as_user("ann", auth), await served.as_user("bob", auth)
    root = await served.as_user("root", auth)
    for switch in ("disable", "enable"):
        refused = await call(ann, "POST", f"/agents/echo/{switch}", status=403)
        assert refused["message"] == "The agent 'echo' is a file's, and for admins to change"
    refused = await call(ann, "PATCH", "/assistants/echo", {"config": {"tags": ["x"]}}, 403)
    assert "for admins to change" in refused["message"]
    await call(ann, "POST", "/assistants/echo/latest", {"version": 1}, 403)
    assert ("assistants", "update") in asked
    assert (await call(ann, "GET", "/agents/echo"))["enabled"] is True
    await call(ann, "GET", "/assistants/echo")
    await made(ann)
    await call(bob, "POST", "/agents/poet/disable")  # made by somebody: the handler's to decide
    assert (await call(root, "POST", "/agents/echo/disable"))["enabled"] is False


async def test_a_handler_can_keep_admins_from_an_agent_of_a_file_too(served):
    auth = named_users()

    @auth.on.assistants.update
    async def nobody(ctx, value):
        return False

    root = await served.as_user("root", auth)
    await call(root, "POST", "/agents/echo/disable", status=403)


async def test_the_secret_that_signs_an_agents_hooks_is_its_owners_to_read(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    root = await served.as_user("root")
    assert (await made(ann))["signing_secret"] is None  # the server has none to derive it from
    served.services.made._outside.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    own = (await call(ann, "GET", "/agents/poet"))["signing_secret"]
    assert own.startswith("whsec_")
    assert own != served.services.made._outside.secret
    for path in ("/agents/poet", "/agents/echo"):
        assert (await call(bob, "GET", path))["signing_secret"] is None
    assert (await call(root, "PATCH", "/agents/poet", {"tags": ["x"]}))["signing_secret"] == own
    assert {each["signing_secret"] for each in await call(ann, "GET", "/agents")} == {None}
    assert (await made(bob, scripted("mine")))["signing_secret"] not in (None, own)


async def test_an_agent_that_is_refused_now_ends_no_server_and_is_not_run(client, services):
    agent = await made(client)
    loops = "parameters.a.all(b, " * 4 + "true" + ")" * 4
    for hooks in (
        {"before_run": {"block": "no", "when": "parameters.prompt.matches('(?=x)y')"}},
        {"before_run": {"block": "no", "when": loops}},
        {"before_tool_call": {"block": "no", "tools": "/(a)\\1/"}},
        {"before_run": {"redact": "/(?<=a)b/"}},
        {"before_run": [[[]]]},
    ):
        row = services.made.kept.rows["poet"]
        changed = {"poet": dataclasses.replace(row, blueprint={**row.blueprint, "hooks": hooks})}
        found = dataclasses.replace(services.made.kept, rows=changed)
        await services.made._apply_stored(found, services.made.kept)
        told = await call(client, "GET", "/agents/poet")
        assert told["problem"]
        assert told["enabled"] is False
        asked = {"agent_name": "poet", "parameters": {"prompt": "x"}}
        await call(client, "POST", "/runs", asked, 409)
        await call(client, "POST", "/runs", {"assistant_id": agent["assistant_id"]}, 409)


async def test_a_viewer_reads_agents_and_makes_none(served):
    class Keys:
        async def find(self, digest):
            return Key("k", digest, "eyes", "viewer", "eyes", created_at=0.0)

    viewer = await served.enter(choose_authenticator(keys=Keys()), **{"x-api-key": "crk_eyes"})
    assert len(await call(viewer, "GET", "/agents")) == 3
    await made(viewer, status=403)


async def test_auth_handlers_rule_over_agents_as_over_assistants(served):
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        name, team = headers["x-user"].split("@")
        return {"identity": name, "team": team}

    @auth.on.assistants
    async def within(ctx, value):
        if ctx.action == "create":
            value.setdefault("metadata", {})["team"] = ctx.user["team"]
        return {"team": ctx.user["team"]}

    ann = await served.as_user("ann@red", auth)
    eve = await served.as_user("eve@blue", auth)
    await made(ann)
    assert [each["name"] for each in await call(ann, "GET", "/agents")] == ["poet"]
    assert await call(eve, "GET", "/agents") == []
    await call(eve, "GET", "/agents/poet", status=404)
    await call(eve, "DELETE", "/agents/poet", status=404)


async def test_code_is_for_admins_of_a_server_that_allows_it(served, tmp_path):
    served.services.made.allow_code = True
    command = {"name": "lister", "type": "procedural", "command": ["echo", "hello"]}
    command["parameters_schema"] = {"type": "object"}
    ann, root = await served.as_user("ann"), await served.as_user("root")
    await made(ann, command, 422)
    agent = await made(root, command)
    assert agent["kind"] == "procedural"
    assert (await run(root, "lister"))["status"] == "success"
    served.services.made.allow_code = False
    await served.services.made.refresh(anew=True)
    broken = await call(root, "GET", "/agents/lister")
    assert "may not bring" in broken["problem"]
    assert broken["enabled"] is False


async def test_two_who_change_agents_at_once_make_no_circle_between_them(client):
    await made(client, scripted("left"))
    await made(client, scripted("right"))
    changes = [
        client.patch(f"/agents/{one}", json={"hooks": {"on_run_finish": hook(other)}})
        for one, other in (("left", "right"), ("right", "left"))
    ]
    codes = [answer.status_code for answer in await asyncio.gather(*changes)]
    assert sorted(codes) == [200, 422]


async def test_another_process_learns_of_a_change_as_soon_as_it_is_told(client, services):
    """A second reader of the same database stands for another process."""
    first, parts = services.made, services.runs.parts
    from checkrail.runs.agents.catalogue import Catalogue

    other = ManagedAgents(
        services.database,
        Catalogue(),
        first._workshop,
        outbound=first._outbound,
        outside=first._outside,
    )
    following = asyncio.create_task(other.serve(parts.hub))
    try:
        await made(client, scripted("news"))
        async with asyncio.timeout(30):
            while "news" not in other.catalogue:  # noqa: ASYNC110 - far sooner than it looks itself
                await asyncio.sleep(0.01)
    finally:
        following.cancel()


async def test_an_agent_that_is_no_graph_has_schemas_and_a_drawing(client):
    takes = {"type": "object", "properties": {"topic": {"type": "string"}}}
    agent = await made(client, POET | {"parameters_schema": takes})
    path = f"/assistants/{agent['assistant_id']}"
    schemas = await call(client, "GET", f"{path}/schemas")
    assert (schemas["graph_id"], schemas["input_schema"]) == ("poet", takes)
    drawn = await call(client, "GET", f"{path}/graph")
    assert [each["id"] for each in drawn["nodes"]] == ["__start__", "poet", "__end__"]
    assert await call(client, "GET", f"{path}/subgraphs") == {}


async def test_a_thread_of_an_agent_that_is_no_graph_has_its_conversation_as_its_state(client):
    await made(client)
    thread = (await call(client, "POST", "/threads", {}))["thread_id"]
    asked = {"assistant_id": "poet", "input": {"prompt": "A poem"}}
    await call(client, "POST", f"/threads/{thread}/runs/wait", asked)
    state = await call(client, "GET", f"/threads/{thread}/state")
    assert state["values"]["messages"][-1]["content"] == "Roses are red"
    assert (state["next"], state["tasks"]) == ([], [])
    assert [
        each["values"]
        for each in await call(client, "POST", f"/threads/{thread}/history", {"limit": 10})
    ] == [state["values"]]
    await call(client, "POST", f"/threads/{thread}/state", {"values": {}}, 409)
