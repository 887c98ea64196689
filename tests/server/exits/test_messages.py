"""Whatever code around a conversation raises: an error of that code, and the server lives on."""

import json
from pathlib import Path

import httpx
import pytest
import yaml
from tests.processes import PATIENCE, until

from ..conftest import _watched  # noqa: TID252 - tests are no package
from ..harness import Served  # noqa: TID252

PROJECT = Path(__file__).parent / "project"
WAYS = ("SystemExit", "KeyboardInterrupt", "Own", "CancelledError", "GeneratorExit")
PLACES = ("open", "answer", "send", "close")


def channel_name(place, way):
    return f"{place}_{way}".lower()


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return tmp_path_factory.mktemp("journal") / "journal"


@pytest.fixture(scope="module")
def server(new_database, tmp_path_factory, journal):
    """A server with a channel for each place and way, and a last one that raises nothing."""
    kind = {"type": f"{PROJECT}/intercom.py:Intercom", "agent": "porter", "journal": str(journal)}
    told = {
        channel_name(place, way): {**kind, "place": place, "way": way}
        for place in PLACES
        for way in WAYS
    }
    file = tmp_path_factory.mktemp("talking") / "checkrail.yaml"
    said = {
        "python_path": [str(PROJECT)],
        "agents": {"porter": {"model": {"provider": "scripted", "replies": ["Come up."] * 100}}},
        "hooks": {"path": f"{PROJECT}/talk_hooks.py:hooks"},
        "channels": {**told, "well": kind},
    }
    file.write_text(yaml.safe_dump(said, sort_keys=False))
    log = tmp_path_factory.mktemp("exits") / "server.log"
    log.touch()
    with _watched() as watch:
        yield watch(Served(new_database("sqlite"), log, config=file)).start()


def post(server, channel, text="Hello"):
    body = {"id": f"{channel} {text}", "text": text}
    return httpx.post(f"{server.url}/channels/{channel}", json=body, timeout=PATIENCE)


def entries(journal):
    return [json.loads(line) for line in journal.read_text().splitlines()]


def find_message(server, channel):
    [row] = httpx.get(f"{server.url}/messages", params={"channel": channel}).json()
    return httpx.get(f"{server.url}/messages/{row['message_id']}").json()


@pytest.mark.parametrize("way", WAYS)
def test_a_channel_that_cannot_be_opened_is_tried_again_and_others_are_open(server, way):
    closed = post(server, channel_name("open", way))
    assert (closed.status_code, closed.json()["error"]) == (503, "channel_closed")
    assert post(server, "well").status_code == 202


@pytest.mark.parametrize("way", WAYS)
def test_a_channel_that_cannot_answer_is_500(server, way):
    assert post(server, channel_name("answer", way)).status_code == 500
    assert httpx.get(f"{server.url}/ok", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("way", WAYS)
def test_what_a_channel_cannot_send_is_tried_again(server, journal, way):
    channel = channel_name("send", way)
    assert post(server, channel).status_code == 202

    def sends():
        return [entry for entry in entries(journal) if entry == [channel, "send", "Come up."]]

    until(lambda: journal.exists() and len(sends()) >= 2, what="the second attempt")
    [delivery] = find_message(server, channel)["deliveries"]
    assert delivery["last_error"] == f"the channel failed with {way}"


POINTS = ("before_inbound", "before_outbound", "on_session_start", "on_session_end")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("way", WAYS)
def test_hooks_around_a_conversation(server, point, way):
    body = {"content": "Hello", "user_id": f"{point}-{way}"}
    told = httpx.post(f"{server.url}/messages", json=body, timeout=PATIENCE).json()
    passes = way == "GeneratorExit" and point != "on_session_end"
    assert told["status"] == ("failed" if passes else "answered")
    ended = httpx.post(f"{server.url}/sessions/{told['session_id']}/end", timeout=PATIENCE)
    assert ended.status_code == 200


def test_a_channel_that_cannot_be_closed_holds_up_no_other_and_no_stop(server, journal):
    server.stop()
    closed = [name for name, what, *_ in entries(journal) if what == "close"]
    wanted = {channel_name("close", way) for way in WAYS}
    assert {*closed} >= {*wanted, "well"}
