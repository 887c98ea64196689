"""Subscriptions, and from where on they are served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk.stream.subscription import matches_subscription

from checkrail.server.streams.channels import CHANNELS, MAX_NAMESPACES, Subscription
from checkrail.server.streams.errors import ProtocolError
from checkrail.server.streams.protocol import ProtocolView, cursor_of
from checkrail.server.thread_streams import ThreadFacts, marks_watched, replay_from

from .support import parent, read, stored


def envelope(method="values", namespace=(), data=None, seq=1):
    params = {"namespace": [*namespace], "timestamp": 0, "data": {} if data is None else data}
    return {"type": "event", "event_id": "e", "seq": seq, "method": method, "params": params}


def wants(body, *envelopes):
    subscription = Subscription.parse(body)
    return [subscription.wants(one) for one in envelopes]


def test_a_subscription_takes_its_channels_only():
    asked = {"channels": ["values", "input"]}
    given = [envelope("values"), envelope("updates"), envelope("input.requested")]
    assert wants(asked, *given) == [True, False, True]


def test_custom_takes_every_name_and_a_name_takes_its_own():
    given = [
        envelope("custom", data={"payload": 1}),
        envelope("custom", data={"name": "a", "payload": 1}),
        envelope("custom", data={"name": "b", "payload": 1}),
    ]
    assert wants({"channels": ["custom"]}, *given) == [True, True, True]
    assert wants({"channels": ["custom:a"]}, *given) == [False, True, False]


def test_what_a_client_has_is_not_sent_again():
    given = [envelope(seq=4), envelope(seq=5), envelope(seq=6)]
    assert wants({"channels": ["values"], "since": 5}, *given) == [False, False, True]


@pytest.mark.parametrize(
    ("namespaces", "depth", "namespace", "wanted"),
    [
        ([[]], None, ["a:1", "b:2"], True),
        ([[]], 0, [], True),
        ([[]], 0, ["a:1"], False),
        ([["a"]], None, ["a:1", "b:2"], True),
        ([["a"]], 0, ["a:1"], True),
        ([["a"]], 0, ["a:1", "b:2"], False),
        ([["a:1"]], None, ["a:2"], False),
        ([["a"]], None, ["ab:1"], False),
        ([["a"], ["b"]], 1, ["b:2", "c:3"], True),
        ([["a", "b"]], None, ["a:1"], False),
        ([], 0, ["a:1"], True),
    ],
)
def test_namespaces_are_prefixes_by_segment(namespaces, depth, namespace, wanted):
    asked = {"channels": ["values"], "namespaces": namespaces, "depth": depth}
    assert wants(asked, envelope(namespace=namespace)) == [wanted]


SEGMENTS = st.lists(st.sampled_from(["a", "b", "a:1", "a:2", "b:1"]), max_size=3)


@given(
    channels=st.lists(st.sampled_from([*CHANNELS, "custom:x"]), min_size=1, max_size=3),
    namespaces=st.none() | st.lists(SEGMENTS, max_size=3),
    depth=st.none() | st.integers(0, 3),
    namespace=SEGMENTS,
    method=st.sampled_from([*(name for name in CHANNELS if name != "input"), "input.requested"]),
    name=st.sampled_from([None, "x", "y"]),
)
def test_the_filter_agrees_with_the_client(*, channels, namespaces, depth, namespace, method, name):
    body = {"channels": channels}
    body |= {} if namespaces is None else {"namespaces": namespaces}
    body |= {} if depth is None else {"depth": depth}
    one = envelope(method, namespace, {} if name is None else {"name": name})
    assert Subscription.parse(body).wants(one) == matches_subscription(one, body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "a subscription is an object"),
        ({}, "`channels` is a list"),
        ({"channels": []}, "`channels` is a list"),
        ({"channels": ["value"]}, "no channel 'value'; choose from values, updates"),
        ({"channels": ["custom:"]}, "no channel 'custom:'"),
        ({"channels": [1]}, "no channel 1"),
        ({"channels": ["values"], "namespaces": ["a"]}, "`namespaces` is a list of lists"),
        ({"channels": ["values"], "namespaces": [[1]]}, "`namespaces` is a list of lists"),
        ({"channels": ["values"], "namespaces": [[]] * (MAX_NAMESPACES + 1)}, "at most 1000"),
        ({"channels": ["values"], "depth": -1}, "`depth` is a whole number from 0 on, not -1"),
        ({"channels": ["values"], "since": True}, "`since` is a whole number from 0 on, not True"),
        ({"channels": ["values"], "since": "5"}, "`since` is a whole number"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(body, said):
    with pytest.raises(ProtocolError) as refused:
        Subscription.parse(body)
    assert refused.value.code == "invalid_argument"
    assert refused.value.status == 422
    assert said in refused.value.message


WATCHER = Subscription.parse({"channels": ["lifecycle", "input"]})
SHARED = Subscription.parse({"channels": ["values", "lifecycle"], "since": 12})


@pytest.mark.parametrize(
    ("thread", "cursor"),
    [
        (ThreadFacts(), cursor_of(0)),
        (ThreadFacts(last_seq=9, newest_base=4, live=True), cursor_of(4)),
        (ThreadFacts(last_seq=9, newest_base=4, live=True, watched=True), cursor_of(4)),
        (ThreadFacts(last_seq=9, newest_base=4), cursor_of(4)),
        (ThreadFacts(last_seq=9, newest_base=4, watched=True), cursor_of(9)),
    ],
    ids=["no run", "live", "live and watched", "over and unheard", "over and heard"],
)
def test_without_since_a_run_is_told_again_only_if_its_end_was_not_heard(thread, cursor):
    assert replay_from(WATCHER, thread) == cursor


@pytest.mark.parametrize("watched", [False, True])
def test_a_page_is_told_the_newest_run_though_its_watcher_has_heard_the_end(watched):
    page = Subscription.parse({"channels": ["values", "messages", "lifecycle", "input"]})
    thread = ThreadFacts(last_seq=9, newest_base=4, watched=watched)
    assert replay_from(page, thread) == cursor_of(4)
    assert replay_from(page, ThreadFacts(last_seq=9)) == cursor_of(9)
    assert not marks_watched(page, thread)


def test_with_since_nothing_else_matters():
    assert replay_from(SHARED, ThreadFacts(last_seq=99, newest_base=50, live=True)) == 12


def test_only_a_watcher_marks_the_end_of_a_run_as_heard():
    over = ThreadFacts(last_seq=9, newest_base=4)
    assert marks_watched(WATCHER, over)
    assert not marks_watched(SHARED, over)
    assert not marks_watched(WATCHER, ThreadFacts(last_seq=9, newest_base=4, live=True))
    assert not marks_watched(WATCHER, ThreadFacts())


async def test_a_client_that_was_cut_off_anywhere_gets_exactly_the_rest():
    events = await stored(parent())
    whole = read(ProtocolView("r1"), events)
    for cut, last in enumerate(whole):
        body = {"channels": [*CHANNELS], "since": last["seq"]}
        subscription = Subscription.parse(body)
        rest = [one for one in read(ProtocolView("r1"), events) if subscription.wants(one)]
        assert rest == whole[cut + 1 :]
