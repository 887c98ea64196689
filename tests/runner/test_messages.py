"""Runs on a runner that bring a message: the hooks on sessions and messages hold on the server."""

from tests.processes import until

FILE = "messages.yaml"


def points(place, run):
    found = place.asking.records(run["run_id"])
    return [each["point"] for each in found if each["event_type"] == "hook_start"]


def talk(place, text, **more):
    """Run the agent that is elsewhere with what somebody says, and return the run's end."""
    body = {"agent_name": "far", "parameters": {"prompt": text}, "execution_mode": "sync"}
    return place.asking.answered(place.asking.client.post("/runs", json=body | more))


def test_a_message_and_its_reply_are_seen_and_changed(place, runner):
    first = talk(place, "Hello")
    assert first["result_text"] == f"Hello, please, you say to {runner.pid}? (checked)"
    assert points(place, first)[:2] == ["on_session_start", "before_inbound"]
    assert points(place, first)[-1] == "before_outbound"
    second = talk(place, "Again", session_id=first["session_id"])
    assert second["result_text"] == f"Again, please, you say to {runner.pid}? (checked)"
    assert "on_session_start" not in points(place, second)


def test_a_message_is_blocked_or_answered_before_a_runner_has_it(place, runner):
    refused = talk(place, "Are you closed?")
    assert (refused["status"], refused["block_reason"]) == ("error", "We are closed")
    answered = talk(place, "Your hours?")
    assert answered["result_text"] == "Nine to five (checked)"


def test_a_reply_that_is_refused_is_neither_returned_nor_streamed(place, runner):
    withheld = talk(place, "My card is 4111")
    assert (withheld["status"], withheld["block_reason"]) == ("error", "A card number")
    body = {"assistant_id": "far", "input": {"prompt": "My card is 4111"}}
    modes = {"stream_mode": ["values", "messages", "updates"]}
    streamed = place.asking.client.post("/runs/stream", json=body | modes).text
    assert "A card number" in streamed
    for told in (str(withheld), streamed):
        assert "you say to" not in told


def test_the_session_ends_and_its_hook_is_called(place, runner):
    session_id = talk(place, "Hello")["session_id"]
    place.asking.answered(place.asking.client.post(f"/sessions/{session_id}/end"))

    note = place.server.config.with_name("ended.txt")
    until(note.exists, "the hook at the end")
    until(lambda: note.read_text() == f"{session_id} {place.server.pid}", "its note")
