"""States that were written by hand: numbered by thread, and read again from any place."""

import uuid

import pytest

from checkrail.store import state_updates, threads
from checkrail.store.database import Tx
from checkrail.store.state_updates import StateUpdate

from .test_threads import add


@pytest.fixture
def thread(tx):
    return add(tx)


def write(tx, thread_id, payload, *, last_seq=0, now=1.0):
    threads.update_thread(tx, thread_id, last_seq=last_seq)
    state_updates.add(Tx(tx, lambda: now), threads.get(tx, thread_id), payload)


def test_states_are_read_after_an_event_and_a_state(tx, thread):
    write(tx, thread, b"1")
    write(tx, thread, b"2", last_seq=5)
    write(tx, thread, b"3", last_seq=5)
    one, two, three = StateUpdate(0, 1, b"1"), StateUpdate(5, 2, b"2"), StateUpdate(5, 3, b"3")
    assert state_updates.after(tx, thread, 0, 0) == [one, two, three]
    assert state_updates.after(tx, thread, 0, 0, until=0) == [one]
    assert state_updates.after(tx, thread, 3, 0) == [two, three]
    assert state_updates.after(tx, thread, 5, 2) == [three]
    assert state_updates.after(tx, thread, 6, 0) == []
    assert state_updates.after(tx, str(uuid.uuid4()), 0, 0) == []


def test_large_states_are_read_one_page_after_the_other(tx, thread):
    for _ in range(3):
        write(tx, thread, b"x" * state_updates.PAGE_BYTES)
    assert [each.number for each in state_updates.after(tx, thread, 0, 0)] == [1]
    assert [each.number for each in state_updates.after(tx, thread, 0, 1)] == [2]


def test_no_number_is_given_twice_though_old_states_are_forgotten(tx, thread):
    write(tx, thread, b"1", now=1.0)
    write(tx, thread, b"2", now=2.0)
    assert state_updates.forget_before(tx, 1.5, 10) == 1
    assert state_updates.forget_before(tx, 3.0, 10) == 1
    assert state_updates.forget_before(tx, 3.0, 10) == 0
    write(tx, thread, b"3", now=4.0)
    assert state_updates.after(tx, thread, 0, 0) == [StateUpdate(0, 3, b"3")]


def test_states_go_with_their_thread(tx, thread):
    other = add(tx)
    write(tx, thread, b"1")
    write(tx, other, b"2")
    state_updates.forget(tx, [thread])
    assert state_updates.after(tx, thread, 0, 0) == []
    assert state_updates.after(tx, other, 0, 0) == [StateUpdate(0, 1, b"2")]
