"""How assistants are searched, sorted, paged and counted."""

import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from .support import tag


@pytest.fixture
async def three(client):
    """Three assistants that nothing else can be mistaken for: their metadata, and they."""
    labels = tag()
    word = labels["tag"]
    made = [
        await client.assistants.create("echo", metadata={**labels, "n": 1}, name=f"beta {word}"),
        await client.assistants.create("chat", metadata={**labels, "n": 2}, name=f"alpha {word}"),
        await client.assistants.create("echo", metadata={**labels, "n": 3}, name=f"gamma {word}"),
    ]
    return labels, made


def ids(assistants):
    return [assistant["assistant_id"] for assistant in assistants]


async def test_metadata_must_match_in_every_pair(client, three):
    labels, made = three
    assert {*ids(await client.assistants.search(metadata=labels))} == {*ids(made)}
    found = await client.assistants.search(metadata={**labels, "n": 2})
    assert found == [made[1]]
    assert await client.assistants.search(metadata={**labels, "n": 9}) == []


async def test_a_value_of_another_type_is_another_value(client, three):
    labels, _ = three
    assert await client.assistants.search(metadata={**labels, "n": "2"}) == []


async def test_a_graph_narrows_the_search(client, three):
    labels, made = three
    found = await client.assistants.search(metadata=labels, graph_id="echo")
    assert {*ids(found)} == {made[0]["assistant_id"], made[2]["assistant_id"]}


async def test_a_name_is_matched_in_part_and_in_any_case(client, three):
    labels, made = three
    assert await client.assistants.search(name=f"ALPHA {labels['tag']}") == [made[1]]
    assert {*ids(await client.assistants.search(name=labels["tag"][3:]))} == {*ids(made)}


async def test_a_name_with_wildcards_is_only_text(client):
    labels = tag()
    made = await client.assistants.create("echo", name=f"100%_{labels['tag']}")
    await client.assistants.create("echo", name=f"100xy{labels['tag']}")
    assert ids(await client.assistants.search(name=f"0%_{labels['tag']}")) == ids([made])


async def test_the_newest_comes_first_unless_said(client, three):
    labels, made = three
    assert ids(await client.assistants.search(metadata=labels)) == ids(reversed(made))


@pytest.mark.parametrize("field", ["assistant_id", "created_at", "graph_id", "name", "updated_at"])
async def test_the_caller_chooses_the_order(client, three, field):
    labels, _ = three
    up = await client.assistants.search(metadata=labels, sort_by=field, sort_order="asc")
    down = await client.assistants.search(metadata=labels, sort_by=field, sort_order="desc")
    assert len(up) == 3
    values = [assistant[field] for assistant in up]
    assert values == sorted(values)
    assert [assistant[field] for assistant in down] == values[::-1]


async def test_only_the_selected_fields_are_given(client, three):
    labels, made = three
    found = await client.assistants.search(metadata=labels, select=["assistant_id", "name"])
    assert {*found[0]} == {"assistant_id", "name"}
    assert {*ids(found)} == {*ids(made)}


async def test_pages_fit_together(client, three):
    labels, made = three
    pages = [
        await client.assistants.search(metadata=labels, limit=2, offset=offset)
        for offset in (0, 2, 4)
    ]
    assert [len(page) for page in pages] == [2, 1, 0]
    assert ids(pages[0] + pages[1]) == ids(reversed(made))


async def test_an_answer_as_object_says_where_the_next_page_begins(client, three):
    labels, made = three
    first = await client.assistants.search(metadata=labels, limit=2, response_format="object")
    assert len(first["assistants"]) == 2
    rest = await client.assistants.search(
        metadata=labels, limit=2, offset=int(first["next"]), response_format="object"
    )
    assert rest["next"] is None
    assert ids(first["assistants"] + rest["assistants"]) == ids(reversed(made))


async def test_counting_finds_what_searching_finds(client, three):
    labels, _ = three
    assert await client.assistants.count(metadata=labels) == 3
    assert await client.assistants.count(metadata=labels, graph_id="chat") == 1
    assert await client.assistants.count(name=labels["tag"].upper()) == 3
    assert await client.assistants.count(metadata={**labels, "n": 9}) == 0


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": 1001}, {"offset": -1}])
async def test_a_page_that_cannot_be_is_refused(client, wrong):
    with pytest.raises(UnprocessableEntityError):
        await client.assistants.search(**wrong)


@pytest.mark.parametrize("wrong", [{"sort_by": "colour"}, {"select": ["colour"]}])
async def test_an_unknown_field_is_refused(client, wrong):
    with pytest.raises(UnprocessableEntityError) as refused:
        await client.assistants.search(**wrong)
    assert "colour" in str(refused.value.body)
