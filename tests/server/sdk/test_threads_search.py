"""How threads are searched, sorted, paged and counted."""

import uuid

import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from .support import over, tag


@pytest.fixture
async def three(client):
    """Three threads that nothing else can be mistaken for: their metadata, and they."""
    labels = tag()
    made = [await client.threads.create(metadata={**labels, "n": n}) for n in (1, 2, 3)]
    return labels, ids(made)


@pytest.fixture
async def ended(client, three):
    """Three threads: one finished, one failed, one waiting for a person."""
    labels, (idle, failed, asked) = three
    await client.runs.wait(idle, "echo", input={"text": labels["tag"]})
    await over(client, await client.runs.create(failed, "failing", input={"message": "no"}))
    await client.runs.wait(asked, "ask", input={"topic": "tea"})
    return labels, (idle, failed, asked)


def ids(threads):
    return [thread["thread_id"] for thread in threads]


async def test_metadata_must_match_in_every_pair(client, three):
    labels, made = three
    assert {*ids(await client.threads.search(metadata=labels))} == {*made}
    assert ids(await client.threads.search(metadata={**labels, "n": 2})) == [made[1]]
    assert await client.threads.search(metadata={**labels, "n": 9}) == []


async def test_metadata_is_matched_in_depth(client):
    labels = tag()
    made = await client.threads.create(metadata={"deep": {**labels, "n": 1}})
    assert ids(await client.threads.search(metadata={"deep": labels})) == ids([made])


async def test_ids_leave_all_others_out(client, three):
    _, made = three
    found = await client.threads.search(ids=[made[0], made[2], str(uuid.uuid4())])
    assert {*ids(found)} == {made[0], made[2]}


async def test_values_must_match(client, ended):
    labels, (idle, _, _) = ended
    assert ids(await client.threads.search(values={"answer": labels["tag"]})) == [idle]
    assert await client.threads.search(values={"answer": "never said " + labels["tag"]}) == []


@pytest.mark.parametrize(("status", "place"), [("idle", 0), ("error", 1), ("interrupted", 2)])
async def test_a_status_narrows_the_search(client, ended, status, place):
    labels, made = ended
    assert ids(await client.threads.search(metadata=labels, status=status)) == [made[place]]
    assert await client.threads.count(metadata=labels, status=status) == 1


async def test_a_busy_thread_is_found_as_busy(client, three):
    labels, made = three
    run = await client.runs.create(made[0], "slow", input={"seconds": 60})
    assert ids(await client.threads.search(metadata=labels, status="busy")) == [made[0]]
    await client.runs.cancel(made[0], run["run_id"], wait=True)
    assert await client.threads.search(metadata=labels, status="busy") == []


async def test_the_newest_comes_first_unless_said(client, three):
    labels, made = three
    assert ids(await client.threads.search(metadata=labels)) == made[::-1]


@pytest.mark.parametrize("field", ["thread_id", "status", "created_at", "updated_at"])
async def test_the_caller_chooses_the_order(client, ended, field):
    labels, _ = ended
    up = await client.threads.search(metadata=labels, sort_by=field, sort_order="asc")
    down = await client.threads.search(metadata=labels, sort_by=field, sort_order="desc")
    values = [thread[field] for thread in up]
    assert len(values) == 3
    assert values == sorted(values)
    assert [thread[field] for thread in down] == values[::-1]


async def test_threads_are_sorted_by_when_their_state_changed(client, three):
    labels, made = three
    for place in (1, 0, 2):
        await client.runs.wait(made[place], "echo", input={"text": "hi"})
    await client.threads.update(made[1], metadata={"touched": True})
    found = await client.threads.search(
        metadata=labels, sort_by="state_updated_at", sort_order="asc"
    )
    assert ids(found) == [made[1], made[0], made[2]]


async def test_only_the_selected_fields_are_given(client, three):
    labels, made = three
    found = await client.threads.search(metadata=labels, select=["thread_id", "status"])
    assert all({*thread} == {"thread_id", "status"} for thread in found)
    assert {*ids(found)} == {*made}


async def test_values_can_be_extracted_by_their_paths(client, thread):
    await client.runs.wait(thread, "echo", input={"text": "one"})
    await client.runs.wait(thread, "echo", input={"text": "two"})
    await client.threads.update(thread, metadata={"who": {"name": "ada"}})
    (found,) = await client.threads.search(
        ids=[thread],
        extract={
            "last": "values.log[-1]",
            "first": "values.log[0]",
            "answer": "values.answer",
            "who": "metadata.who.name",
            "none": "values.nothing.here",
        },
    )
    assert found["extracted"] == {
        "last": "two",
        "first": "one",
        "answer": "two",
        "who": "ada",
        "none": None,
    }


async def test_extraction_goes_with_selection(client, thread):
    await client.runs.wait(thread, "echo", input={"text": "one"})
    (found,) = await client.threads.search(
        ids=[thread], select=["thread_id"], extract={"last": "values.log[-1]"}
    )
    assert found == {"thread_id": thread, "extracted": {"last": "one"}}


@pytest.mark.parametrize(
    "extract", [{str(n): "values.log[0]" for n in range(11)}, {"wrong": "user_id.name"}]
)
async def test_too_many_paths_or_wrong_ones_are_refused(client, extract):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.search(extract=extract)


async def test_pages_fit_together(client, three):
    labels, made = three
    pages = [
        await client.threads.search(metadata=labels, limit=2, offset=offset) for offset in (0, 2, 4)
    ]
    assert [len(page) for page in pages] == [2, 1, 0]
    assert ids(pages[0] + pages[1]) == made[::-1]


async def test_ten_are_given_unless_said(client):
    labels = tag()
    for _ in range(12):
        await client.threads.create(metadata=labels)
    assert len(await client.threads.search(metadata=labels)) == 10
    assert len(await client.threads.search(metadata=labels, limit=100)) == 12


async def test_counting_finds_what_searching_finds(client, ended):
    labels, _ = ended
    assert await client.threads.count(metadata=labels) == 3
    assert await client.threads.count(values={"answer": labels["tag"]}) == 1
    assert await client.threads.count(metadata={**labels, "n": 9}) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"offset": -1},
        {"status": "asleep"},
        {"sort_by": "colour"},
        {"select": ["colour"]},
        {"ids": ["not-a-uuid"]},
    ],
)
async def test_what_cannot_be_searched_for_is_refused(client, wrong):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.search(**wrong)
