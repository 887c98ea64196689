"""`client.threads.stream()` of the sync client."""

import threading

import pytest

from .support import said


@pytest.fixture(params=["sse", "websocket"])
def sync_opened(server, request):
    """Open a stream of a thread: a new one unless it is named."""
    with server.sync_client(timeout=60) as client:

        def stream(assistant, thread=None):
            return client.threads.stream(thread, assistant_id=assistant, transport=request.param)

        yield stream


@pytest.fixture
def in_time():
    """Run something in a thread that may hang, and once more if it does.

    The client opens its streams in threads of its own, and can wait for one that it has closed.
    """

    def run(story):
        for _ in range(2):
            came = []
            thread = threading.Thread(target=_tell, args=(story, came), daemon=True)
            thread.start()
            thread.join(30)
            if came:
                result, error = came[0]
                if error is not None:
                    raise error
                return result
        raise AssertionError("it hangs, and hangs again")

    return run


def _tell(story, came):
    try:
        came.append((story(), None))
    except BaseException as error:
        came.append((None, error))


def test_a_run_is_started_and_its_output_waited_for(sync_opened, in_time):
    def story():
        with sync_opened("echo") as thread:
            thread.run.start(input={"text": "hi"}, metadata={"n": 1})
            return thread.output

    assert in_time(story)["answer"] == "hi"


def test_values_are_told_as_they_change(sync_opened, in_time):
    def story():
        with sync_opened("steps") as thread:
            thread.run.start(input={})
            return [*thread.values]

    assert in_time(story)[-1]["log"] == ["one", "two", "three"]


def test_messages_are_told_word_by_word(sync_opened, in_time):
    def story():
        with sync_opened("chat") as thread:
            thread.run.start(input=said("hello there"))
            return [[*message.text] for message in thread.messages]

    (words,) = in_time(story)
    assert "".join(words) == "You said: hello there"


def test_tool_calls_are_told_with_what_they_gave(sync_opened, in_time):
    def story():
        with sync_opened("agent") as thread:
            thread.run.start(input=said("add 2 3"))
            return [(call.name, call.input, call.output) for call in thread.tool_calls]

    ((name, given, output),) = in_time(story)
    assert (name, given) == ("add", {"a": 2, "b": 3})
    assert "5" in str(output)


def test_subgraphs_are_told_with_how_they_ended(sync_opened, in_time):
    def story():
        with sync_opened("nested") as thread:
            thread.run.start(input={})
            children = [*thread.subgraphs]
            return [(child.graph_name, child.status) for child in children]

    assert in_time(story) == [("child", "completed")]


def test_what_nodes_write_is_told_by_its_name(sync_opened, in_time):
    def story():
        with sync_opened("flood") as thread:
            thread.run.start(input={"events": 3, "name": "drops"})
            return [drop["payload"]["n"] for drop in thread.extensions["drops"]]

    assert in_time(story) == [0, 1, 2]


def test_channels_can_be_subscribed_to(sync_opened, in_time):
    def story():
        with sync_opened("steps") as thread:
            thread.run.start(input={})
            events = [*thread.subscribe(["updates"])]
            return [e["params"]["data"]["node"] for e in events if e["method"] == "updates"]

    assert in_time(story) == ["one", "two", "three"]


def test_projections_can_be_read_as_one(sync_opened, in_time):
    def story():
        with sync_opened("agent") as thread:
            thread.run.start(input=said("add 2 3"))
            read = thread.interleave_projections(["values", "messages", "tool_calls"])
            return {name for name, _ in read}

    assert in_time(story) == {"values", "messages", "tool_calls"}


def test_a_question_is_told_and_answered(sync_opened, in_time):
    def story():
        with sync_opened("ask") as thread:
            thread.run.start(input={"topic": "tea"})
            for _ in thread.values:
                pass
            (question,) = thread.interrupts
            assert question["value"] == {"question": "first tea?"}
            thread.run.respond("yes", interrupt_id=question["interrupt_id"])
            return thread.output

    assert in_time(story)["answers"] == ["yes"]


def test_a_failed_run_raises_its_error(sync_opened, in_time):
    def story():
        with sync_opened("failing") as thread:
            thread.run.start(input={"message": "no such luck"})
            with pytest.raises(RuntimeError, match="no such luck"):
                _ = thread.output
            return True

    assert in_time(story)


def test_a_thread_that_exists_gives_the_output_of_its_new_run(sync_opened, in_time, server):
    with server.sync_client() as client:
        mine = client.threads.create()["thread_id"]

    def story():
        told = []
        for laps in (1, 2):
            with sync_opened("slow", mine) as thread:
                # Slow, for the client leaves its last stream open until that hears something: a run
                # that is over before the new stream is there was heard of, as far as we can tell.
                thread.run.start(input={"laps": laps, "seconds": 0.5})
                told.append(len(thread.output["done"]))
        return told

    assert in_time(story) == [1, 2]


def test_the_graph_of_the_assistant_can_be_seen(sync_opened, in_time):
    def story():
        with sync_opened("nested") as thread:
            return thread.agent.get_tree(xray=True)

    assert "child:inside" in {node["id"] for node in in_time(story)["nodes"]}
