"""What of Slack's events comes in, and as what."""

import pytest
from tests.channels.servers.slack import BOT, BOT_ID, event, event_request

from checkrail.channels.protocol import Address

TS = "1700000000.000100"


@pytest.fixture
async def read(make_channel):
    """Reads events by a channel."""

    async def read(*payloads, **options):
        channel, taken = await make_channel(**options)
        for payload in payloads:
            assert (await channel.answer(event_request(payload))).status == 200
        return taken

    return read


async def test_a_message_in_a_channel_begins_a_thread(read):
    (found,) = await read(event(text="<@UBOT>, is it &lt;open&gt;?", ts=TS, client_msg_id="x"))
    assert found.kind == "message"
    assert found.external_id == f"C1:{TS}"
    assert found.address == Address("slack", "T1", "C1", TS)
    assert found.sender == "slack:T1:U1"
    assert found.text == "is it <open>?"
    assert found.order == TS
    assert found.sent_at == pytest.approx(1700000000.0001)
    assert found.metadata == {"mentioned": True, "channel_type": "channel"}


async def test_a_reply_belongs_to_its_thread(read):
    reply = event(text="<@UBOT> and now?", ts="1700000005.000100", thread_ts=TS)
    broadcast = event(**{**reply["event"], "subtype": "thread_broadcast", "ts": "1700000006.0001"})
    for found in await read(reply, broadcast):
        assert found.address.thread == TS


async def test_a_direct_message_has_a_thread_only_if_it_is_in_one(read):
    here = {"channel": "D1", "channel_type": "im"}
    plain, threaded = await read(
        event(text="hi", ts=TS, **here),
        event(text="hi", ts="1700000001.000100", thread_ts=TS, **here),
    )
    assert plain.address == Address("slack", "T1", "D1")
    assert threaded.address.thread == TS
    assert plain.metadata == {"mentioned": False, "channel_type": "im"}


async def test_a_mention_comes_twice_with_one_id(read):
    text = "<@UBOT> hello"
    mention = event(type="app_mention", text=text, ts=TS, channel_type=None)
    first, second = await read(event(text=text, ts=TS), mention)
    assert first.external_id == second.external_id
    assert (first.text, first.address, first.sender) == (second.text, second.address, second.sender)


async def test_in_channels_only_mentions_are_taken_unless_all_are(read):
    said = event(text="what UBOT said", ts=TS)
    assert await read(said) == []
    (found,) = await read(said, listen="all")
    assert found.metadata["mentioned"] is False


async def test_a_mention_is_known_without_authorizations(read):
    said = event(text="<@UBOT> hello", ts=TS)
    del said["authorizations"]
    (found,) = await read(said)
    assert found.text == "hello"


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B2"},
        {"bot_id": BOT_ID, "user": BOT},
        {"user": BOT},
        {"user": "USLACKBOT"},
        {"user": None},
        {"subtype": "bot_message", "bot_id": "B2", "user": None},
        {"subtype": "channel_join"},
        {"subtype": "channel_topic"},
        {"subtype": "message_replied"},
    ],
)
async def test_bots_and_notices_are_left_out(read, fields):
    base = {"text": "<@UBOT> hello", "ts": TS}
    assert await read(event(**base, **fields), listen="all") == []


async def test_an_edit_names_the_message_that_it_changed(read):
    message = {"type": "message", "user": "U1", "text": "<@UBOT> goodbye", "ts": TS}
    edited = {"edited": {"user": "U1", "ts": "1700000009.000000"}}
    changed = event(
        subtype="message_changed",
        hidden=True,
        ts="1700000009.000200",
        message=message | edited,
        previous_message=message | {"text": "<@UBOT> hello"},
    )
    mentioned = event(**message | edited | {"type": "app_mention"})
    first, again = await read(changed, mentioned)
    assert (first.kind, first.text, first.target) == ("edit", "goodbye", f"C1:{TS}")
    assert first.external_id == again.external_id == f"C1:{TS}:1700000009.000000"
    assert first.address == again.address == Address("slack", "T1", "C1", TS)
    assert again.kind == "edit"


async def test_previews_and_counted_replies_are_no_edits(read):
    message = {"type": "message", "user": "U1", "text": "<@UBOT> http://a.example", "ts": TS}
    unfurled = event(
        subtype="message_changed",
        hidden=True,
        ts="1700000009.000200",
        message=message | {"attachments": [{"title": "A"}], "reply_count": 1},
        previous_message=message,
    )
    of_a_bot = message | {"bot_id": BOT_ID, "user": BOT, "edited": {"user": BOT, "ts": TS}}
    by_us = event(subtype="message_changed", ts="1700000009.000300", message=of_a_bot)
    assert await read(unfurled, by_us, listen="all") == []


async def test_a_deletion_names_the_message_that_is_gone(read):
    before = {"type": "message", "user": "U1", "text": "<@UBOT> hello", "ts": TS}
    gone = event(
        subtype="message_deleted",
        hidden=True,
        deleted_ts=TS,
        ts="1700000009.000100",
        user=None,
        previous_message=before,
    )
    tombstone = event(
        subtype="message_changed",
        ts="1700000009.000100",
        message={"subtype": "tombstone", "user": "USLACKBOT", "text": "deleted", "ts": TS},
        previous_message=before,
    )
    for found in await read(gone, tombstone):
        assert (found.kind, found.target) == ("delete", f"C1:{TS}")
        assert found.external_id == f"C1:{TS}:deleted"
        assert (found.sender, found.text) == ("slack:T1:U1", "")
        assert found.order == "1700000009.000100"


async def test_who_deleted_a_message_that_slack_does_not_show_is_not_known(read):
    gone = event(subtype="message_deleted", deleted_ts=TS, ts="1700000009.000100")
    assert await read(gone, listen="all") == []


async def test_files_come_as_references(read):
    files = [
        {
            "id": "F1",
            "name": "plan.pdf",
            "mimetype": "application/pdf",
            "size": 42,
            "url_private": "https://files.slack.com/files-pri/T1-F1/plan.pdf",
        },
        {"id": "F2", "name": None, "file_access": "check_file_info"},
        {"id": "F3", "mode": "tombstone"},
    ]
    here = {"channel": "D1", "channel_type": "im"}
    (found,) = await read(event(subtype="file_share", text="", ts=TS, files=files, **here))
    whole, bare = found.attachments
    assert (whole.name, whole.content_type, whole.size) == ("plan.pdf", "application/pdf", 42)
    assert whole.reference["url"].endswith("plan.pdf")
    assert (bare.name, bare.size, bare.reference) == ("F2", None, {"id": "F2", "url": None})


async def test_who_comes_from_another_organization_can_be_told(read):
    (found,) = await read(event(text="<@UBOT> hi", ts=TS, user="U9", user_team="T9"))
    assert found.sender == "slack:T1:U9"
    assert found.metadata["user_team"] == "T9"


async def test_the_account_is_the_one_that_the_bot_is_installed_in(read):
    said = event(text="<@UBOT> hi", ts=TS)
    said["team_id"] = "T9"
    (found,) = await read(said)
    assert found.address.account == "T1"
