"""Crons: runs that come back by the clock."""

import uuid
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

from .support import eventually, tag

FIELDS = {
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "payload",
    "user_id",
    "next_run_date",
    "metadata",
    "enabled",
}
NEVER = "0 0 29 2 *"


def ids(crons):
    return [cron["cron_id"] for cron in crons]


async def found(client, cron):
    (one,) = [
        each for each in await client.crons.search(limit=1000) if each["cron_id"] == cron["cron_id"]
    ]
    return one


async def test_a_cron_knows_when_it_is_next(client):
    cron = await client.crons.create("echo", schedule="30 4 * * *", input={"text": "hi"})
    assert cron.keys() >= FIELDS
    uuid.UUID(cron["cron_id"])
    assert cron["assistant_id"] == (await client.assistants.get("echo"))["assistant_id"]
    assert (cron["schedule"], cron["timezone"], cron["enabled"]) == ("30 4 * * *", None, True)
    assert (cron["thread_id"], cron["end_time"]) == (None, None)
    assert cron["payload"]["input"] == {"text": "hi"}
    following = datetime.fromisoformat(cron["next_run_date"])
    assert following > datetime.now(UTC)
    assert (following.astimezone(UTC).hour, following.astimezone(UTC).minute) == (4, 30)
    assert await found(client, cron) == cron


@pytest.mark.parametrize("zone", ["America/New_York", ZoneInfo("Asia/Tokyo")])
async def test_a_cron_keeps_the_clock_of_its_zone(client, zone):
    cron = await client.crons.create("echo", schedule="30 4 * * *", timezone=zone)
    assert cron["timezone"] == str(zone)
    following = datetime.fromisoformat(cron["next_run_date"]).astimezone(ZoneInfo(str(zone)))
    assert (following.hour, following.minute) == (4, 30)


async def test_what_is_given_is_kept(client):
    labels, end = tag(), datetime.now(UTC) + timedelta(days=9)
    cron = await client.crons.create(
        "configured",
        schedule=NEVER,
        input={"nothing": "x"},
        metadata=labels,
        config={"configurable": {"lang": "fr"}},
        context={"tone": "warm"},
        interrupt_before=["look"],
        interrupt_after="*",
        webhook="http://127.0.0.1:9/done",
        on_run_completed="keep",
        multitask_strategy="enqueue",
        end_time=end,
        enabled=False,
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        stream_resumable=True,
        durability="sync",
    )
    assert cron["metadata"] == labels
    assert cron["enabled"] is False
    assert cron["on_run_completed"] == "keep"
    assert datetime.fromisoformat(cron["end_time"]) == end
    payload = cron["payload"]
    assert payload["config"]["configurable"]["lang"] == "fr"
    assert payload["context"] == {"tone": "warm"}
    assert payload["durability"] == "sync"
    assert payload["interrupt_before"] == ["look"]


@pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")
async def test_the_older_word_for_durability_is_accepted(client, thread):
    for cron in (
        await client.crons.create("echo", schedule=NEVER, checkpoint_during=False),
        await client.crons.create_for_thread(
            thread, "echo", schedule=NEVER, checkpoint_during=True
        ),
    ):
        assert cron["schedule"] == NEVER


async def test_a_cron_can_belong_to_a_thread(client, thread):
    labels = tag()
    cron = await client.crons.create_for_thread(
        thread,
        "echo",
        schedule=NEVER,
        input={"text": "hi"},
        metadata=labels,
        config={"tags": ["a"]},
        context={},
        interrupt_before=["say"],
        interrupt_after=["say"],
        webhook="http://127.0.0.1:9/done",
        multitask_strategy="reject",
        end_time=datetime.now(UTC) + timedelta(days=1),
        enabled=True,
        timezone="Europe/Berlin",
        stream_mode="values",
        stream_subgraphs=False,
        stream_resumable=False,
        durability="async",
    )
    assert cron["thread_id"] == thread
    assert cron["metadata"] == labels
    assert ids(await client.crons.search(thread_id=thread)) == [cron["cron_id"]]


@pytest.mark.parametrize("schedule", ["", "every day", "61 * * * *", "* * * *"])
async def test_a_schedule_that_cannot_be_read_is_refused(client, schedule):
    with pytest.raises(UnprocessableEntityError):
        await client.crons.create("echo", schedule=schedule)


async def test_an_unknown_zone_is_refused(client):
    with pytest.raises(UnprocessableEntityError) as refused:
        await client.crons.create("echo", schedule=NEVER, timezone="Mars/Olympus")
    assert "Mars/Olympus" in refused.value.message


async def test_an_unknown_assistant_or_thread_is_not_found(client, thread):
    with pytest.raises(NotFoundError):
        await client.crons.create("no-such-graph", schedule=NEVER)
    with pytest.raises(NotFoundError):
        await client.crons.create_for_thread(str(uuid.uuid4()), "echo", schedule=NEVER)


async def test_an_update_changes_what_it_names(client):
    end = datetime.now(UTC) + timedelta(days=3)
    cron = await client.crons.create(
        "configured", schedule=NEVER, input={"nothing": "a"}, metadata={"kept": 1, "n": 1}
    )
    changed = await client.crons.update(
        cron["cron_id"],
        schedule="0 9 * * *",
        end_time=end,
        input={"nothing": "b"},
        metadata={"n": 2},
        config={"configurable": {"lang": "nl"}},
        context={"tone": "cold"},
        webhook="http://127.0.0.1:9/new",
        interrupt_before=["look"],
        interrupt_after=["look"],
        on_run_completed="keep",
        enabled=False,
        timezone="Asia/Tokyo",
        stream_mode="updates",
        stream_subgraphs=True,
        stream_resumable=True,
        durability="exit",
    )
    assert changed["cron_id"] == cron["cron_id"]
    assert (changed["schedule"], changed["timezone"]) == ("0 9 * * *", "Asia/Tokyo")
    assert changed["enabled"] is False
    assert changed["metadata"] == {"kept": 1, "n": 2}
    assert changed["payload"]["input"] == {"nothing": "b"}
    assert changed["payload"]["context"] == {"tone": "cold"}
    assert changed["on_run_completed"] == "keep"
    assert datetime.fromisoformat(changed["end_time"]) == end
    assert changed["updated_at"] > cron["updated_at"]
    assert await found(client, cron) == changed


async def test_an_update_keeps_what_it_does_not_name_and_can_clear_the_end(client):
    end = datetime.now(UTC) + timedelta(days=3)
    cron = await client.crons.create("echo", schedule=NEVER, input={"text": "a"}, end_time=end)
    kept = await client.crons.update(cron["cron_id"], enabled=False)
    assert datetime.fromisoformat(kept["end_time"]) == end
    assert kept["payload"]["input"] == {"text": "a"}
    cleared = await client.crons.update(cron["cron_id"], end_time=None)
    assert cleared["end_time"] is None


async def test_a_deleted_cron_is_gone(client):
    labels = tag()
    cron = await client.crons.create("echo", schedule=NEVER, metadata=labels)
    await client.crons.delete(cron["cron_id"])
    assert await client.crons.search(metadata=labels) == []
    with pytest.raises(NotFoundError):
        await client.crons.delete(cron["cron_id"])
    with pytest.raises(NotFoundError):
        await client.crons.update(cron["cron_id"], enabled=True)


async def test_crons_are_searched_and_counted(client, thread):
    labels = tag()
    mine = (await client.assistants.create("echo"))["assistant_id"]
    first = await client.crons.create("chat", schedule=NEVER, metadata={**labels, "n": 1})
    second = await client.crons.create(
        mine, schedule=NEVER, metadata={**labels, "n": 2}, enabled=False
    )
    third = await client.crons.create_for_thread(thread, mine, schedule=NEVER, metadata=labels)

    assert ids(await client.crons.search(metadata=labels)) == ids([third, second, first])
    assert ids(await client.crons.search(assistant_id=mine)) == ids([third, second])
    assert ids(await client.crons.search(metadata=labels, assistant_id="chat")) == ids([first])
    assert ids(await client.crons.search(metadata={**labels, "n": 2})) == ids([second])
    assert ids(await client.crons.search(metadata=labels, enabled=False)) == ids([second])
    assert ids(await client.crons.search(metadata=labels, enabled=True)) == ids([third, first])
    assert ids(await client.crons.search(metadata=labels, limit=1, offset=1)) == ids([second])
    assert await client.crons.count(metadata=labels) == 3
    assert await client.crons.count(assistant_id=mine) == 2
    assert await client.crons.count(thread_id=thread) == 1


@pytest.mark.parametrize(
    "field", ["assistant_id", "created_at", "cron_id", "next_run_date", "updated_at"]
)
async def test_the_caller_chooses_the_order(client, field):
    labels = tag()
    for schedule in ("0 5 * * *", "0 3 * * *", "0 4 * * *"):
        await client.crons.create("echo", schedule=schedule, metadata=labels, enabled=True)
    up = await client.crons.search(metadata=labels, sort_by=field, sort_order="asc")
    down = await client.crons.search(metadata=labels, sort_by=field, sort_order="desc")
    values = [cron[field] for cron in up]
    assert len(values) == 3
    assert values == sorted(values)
    assert [cron[field] for cron in down] == values[::-1]


async def test_only_the_selected_fields_are_given(client):
    labels = tag()
    cron = await client.crons.create("echo", schedule=NEVER, metadata=labels)
    answer = await client.crons.search(metadata=labels, select=["cron_id", "schedule"])
    assert answer == [{"cron_id": cron["cron_id"], "schedule": NEVER}]


async def test_a_cron_that_has_ended_is_not_next(client):
    past = datetime.now(UTC) - timedelta(minutes=1)
    cron = await client.crons.create("echo", schedule="* * * * *", end_time=past)
    assert cron["next_run_date"] is None


async def test_a_cron_starts_runs_by_the_clock(client):
    """Six fields are seconds too: nobody wants to wait for a minute."""
    labels = tag()
    cron = await client.crons.create(
        "echo",
        schedule="* * * * * *",
        input={"text": "tick"},
        metadata=labels,
        on_run_completed="keep",
    )

    async def twice():
        return len(await client.threads.search(values={"answer": "tick"})) >= 2

    await eventually(twice, "two runs of a cron")
    await client.crons.delete(cron["cron_id"])


async def test_a_cron_of_a_thread_runs_on_it(client, thread):
    cron = await client.crons.create_for_thread(
        thread, "echo", schedule="* * * * * *", input={"text": "tick"}
    )

    async def twice():
        values = (await client.threads.get(thread))["values"] or {}
        return len(values.get("log", [])) >= 2

    await eventually(twice, "two runs of a cron")
    await client.crons.delete(cron["cron_id"])


async def test_crons_go_with_their_thread(client, thread):
    await client.crons.create_for_thread(thread, "echo", schedule=NEVER)
    await client.threads.delete(thread)
    assert await client.crons.count(thread_id=thread) == 0
