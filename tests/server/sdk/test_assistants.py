"""What the assistants client makes, changes and deletes."""

import uuid
from datetime import datetime

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from .support import tag

FIELDS = {
    "assistant_id",
    "config",
    "context",
    "created_at",
    "description",
    "graph_id",
    "metadata",
    "name",
    "updated_at",
    "version",
}


async def test_every_graph_has_one_assistant_of_the_system(client):
    (assistant,) = await client.assistants.search(
        graph_id="echo", metadata={"created_by": "system"}
    )
    assert assistant["name"] == assistant["graph_id"] == "echo"
    assert assistant["version"] == 1


async def test_an_assistant_is_found_by_the_name_of_its_graph(client):
    by_name = await client.assistants.get("echo")
    assert await client.assistants.get(by_name["assistant_id"]) == by_name
    assert by_name["metadata"]["created_by"] == "system"


async def test_an_assistant_has_all_the_fields_that_the_client_knows(client):
    assistant = await client.assistants.create("echo")
    assert assistant.keys() >= FIELDS
    uuid.UUID(assistant["assistant_id"])
    assert datetime.fromisoformat(assistant["created_at"]).tzinfo is not None
    assert assistant["updated_at"] >= assistant["created_at"]


async def test_what_is_not_given_is_empty_or_untitled(client):
    assistant = await client.assistants.create("echo")
    assert assistant["name"] == "Untitled"
    assert assistant["description"] is None
    assert (assistant["config"], assistant["context"], assistant["metadata"]) == ({}, {}, {})
    assert assistant["version"] == 1


async def test_what_is_given_is_kept(client):
    mine, labels = str(uuid.uuid4()), tag()
    made = await client.assistants.create(
        "configured",
        config={"tags": ["a"], "configurable": {"lang": "fr"}},
        context={"tone": "warm"},
        metadata=labels,
        assistant_id=mine,
        name="French",
        description="Speaks French",
    )
    assert made["assistant_id"] == mine
    settings = {"lang": "fr", "tone": "warm"}
    assert made["config"] == {"tags": ["a"], "configurable": settings}
    assert made["context"] == settings
    assert made["metadata"] == labels
    assert (made["name"], made["description"]) == ("French", "Speaks French")
    assert await client.assistants.get(mine) == made


async def test_an_id_that_exists_is_a_conflict(client):
    made = await client.assistants.create("echo")
    with pytest.raises(ConflictError) as refused:
        await client.assistants.create("echo", assistant_id=made["assistant_id"])
    assert made["assistant_id"] in refused.value.message
    with pytest.raises(ConflictError):
        await client.assistants.create("echo", assistant_id=made["assistant_id"], if_exists="raise")


async def test_an_id_that_exists_gives_the_existing_one_if_asked(client):
    made = await client.assistants.create("echo", name="first")
    again = await client.assistants.create(
        "chat", assistant_id=made["assistant_id"], if_exists="do_nothing", name="second"
    )
    assert again == made


async def test_an_unknown_graph_is_refused(client):
    with pytest.raises((NotFoundError, UnprocessableEntityError)) as refused:
        await client.assistants.create("no-such-graph")
    assert "no-such-graph" in refused.value.message


async def test_an_update_keeps_what_it_does_not_name(client):
    made = await client.assistants.create(
        "configured",
        config={"configurable": {"lang": "fr"}},
        context={"tone": "warm"},
        metadata={"kept": 1, "changed": 1},
        name="French",
        description="Speaks French",
    )
    changed = await client.assistants.update(
        made["assistant_id"], metadata={"changed": 2, "new": 3}
    )
    assert changed["metadata"] == {"kept": 1, "changed": 2, "new": 3}
    for name in ("graph_id", "config", "context", "name", "description", "created_at"):
        assert changed[name] == made[name]
    assert changed["version"] == 2
    assert changed["updated_at"] > made["updated_at"]
    assert await client.assistants.get(made["assistant_id"]) == changed


async def test_an_update_changes_what_it_names(client):
    made = await client.assistants.create("echo")
    changed = await client.assistants.update(
        made["assistant_id"],
        graph_id="configured",
        config={"recursion_limit": 7},
        context={"tone": "cold"},
        name="New",
        description="Newer",
    )
    assert changed["graph_id"] == "configured"
    assert changed["config"] == {"recursion_limit": 7, "configurable": {"tone": "cold"}}
    assert changed["context"] == {"tone": "cold"}
    assert (changed["name"], changed["description"]) == ("New", "Newer")


async def test_settings_are_the_same_in_config_and_context(client):
    made = await client.assistants.create("configured", context={"tone": "warm"})
    assert made["config"] == {"configurable": {"tone": "warm"}}
    mine = made["assistant_id"]
    changed = await client.assistants.update(mine, config={"configurable": {"volume": 2}})
    assert (changed["config"]["configurable"], changed["context"]) == ({"volume": 2},) * 2
    changed = await client.assistants.update(mine, context={"tone": "cold"})
    assert (changed["config"]["configurable"], changed["context"]) == ({"tone": "cold"},) * 2
    changed = await client.assistants.update(mine, config={"tags": ["x"]})
    assert (changed["config"], changed["context"]) == ({"tags": ["x"]}, {"tone": "cold"})


async def test_every_update_is_a_version_and_the_newest_comes_first(client):
    made = await client.assistants.create("echo", metadata={"n": 1})
    mine = made["assistant_id"]
    await client.assistants.update(mine, config={"configurable": {"a": 1}})
    await client.assistants.update(mine, metadata={"n": 3})
    await client.assistants.update(mine)

    versions = await client.assistants.get_versions(mine)
    assert [version["version"] for version in versions] == [4, 3, 2, 1]
    assert versions[0]["config"] == versions[2]["config"] == {"configurable": {"a": 1}}
    assert versions[3]["config"] == {}
    assert versions[3].keys() >= FIELDS - {"updated_at"}


async def test_versions_are_paged_and_filtered(client):
    mine = (await client.assistants.create("echo", metadata={"n": 1}))["assistant_id"]
    await client.assistants.update(mine, metadata={"n": 2})
    await client.assistants.update(mine, metadata={"n": 3})

    def numbers(versions):
        return [version["version"] for version in versions]

    assert numbers(await client.assistants.get_versions(mine, limit=1)) == [3]
    assert numbers(await client.assistants.get_versions(mine, limit=1, offset=1)) == [2]
    assert numbers(await client.assistants.get_versions(mine, metadata={"n": 1})) == [1]


async def test_an_earlier_version_can_be_the_latest_again(client):
    made = await client.assistants.create("echo", config={"recursion_limit": 5}, name="old")
    mine = made["assistant_id"]
    await client.assistants.update(mine, config={"recursion_limit": 6}, name="new")

    back = await client.assistants.set_latest(mine, 1)
    assert (back["version"], back["config"], back["name"]) == (1, {"recursion_limit": 5}, "old")
    assert await client.assistants.get(mine) == back
    assert (await client.assistants.update(mine, name="newer"))["version"] == 3


async def test_an_unknown_version_cannot_be_the_latest(client):
    mine = (await client.assistants.create("echo"))["assistant_id"]
    with pytest.raises(NotFoundError):
        await client.assistants.set_latest(mine, 9)


async def test_a_deleted_assistant_is_gone_with_its_versions(client):
    mine = (await client.assistants.create("echo"))["assistant_id"]
    await client.assistants.delete(mine)
    with pytest.raises(NotFoundError):
        await client.assistants.get(mine)
    with pytest.raises(NotFoundError):
        await client.assistants.get_versions(mine)
    with pytest.raises(NotFoundError):
        await client.assistants.delete(mine)


async def test_threads_stay_when_their_assistant_is_deleted(client, thread):
    mine = (await client.assistants.create("echo"))["assistant_id"]
    await client.runs.wait(thread, mine, input={"text": "hi"})
    await client.assistants.delete(mine)
    assert (await client.threads.get(thread))["values"]["answer"] == "hi"


async def test_threads_go_with_their_assistant_if_asked(client, thread):
    mine = (await client.assistants.create("echo"))["assistant_id"]
    other = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, mine, input={"text": "hi"})
    await client.runs.wait(other, "echo", input={"text": "hi"})

    await client.assistants.delete(mine, delete_threads=True)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread)
    assert (await client.threads.get(other))["status"] == "idle"


@pytest.mark.parametrize("method", ["get", "get_graph", "get_schemas", "get_subgraphs", "update"])
async def test_an_unknown_assistant_is_not_found(client, method):
    for unknown in (str(uuid.uuid4()), "no-such-graph"):
        with pytest.raises(NotFoundError) as refused:
            await getattr(client.assistants, method)(unknown)
        assert unknown in refused.value.message
