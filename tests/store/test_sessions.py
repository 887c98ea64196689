"""The rows of sessions: nobody ends one in which somebody says something right now."""

import threading

import pytest

from checkrail.store import messages, sessions
from checkrail.store.database import Tx
from checkrail.store.messages import RECEIVED, Message
from checkrail.store.sessions import Session
from checkrail.times import uuid7


def new_session(key):
    times = {"created_at": 1.0, "updated_at": 1.0, "active_at": 1.0}
    return Session(uuid7(), "http", {}, key=key, **times)


def say_something(tx, session):
    ids = {name: uuid7() for name in ("message_id", "external_id", "thread_id", "run_id")}
    told = {"content": {}, "status": RECEIVED, "agent_name": "desk", "channel": "http"}
    times = {"created_at": 1.0, "updated_at": 1.0}
    messages.add(
        tx, Message(account="", digest="", session_id=session.session_id, **ids, **told, **times)
    )


def beside(work):
    """Return a thread that does something in a while."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.5)  # long enough to miss what is not committed yet
    return thread


@pytest.fixture
def session(postgres_engine):
    """A session that is kept, and has been idle since 1.0."""
    made = new_session(uuid7())
    with postgres_engine.begin() as tx:
        assert sessions.open_for_key(Tx(tx), made) is made
    return made


def test_a_session_does_not_end_while_a_message_is_stored_in_it(postgres_engine, session):
    found = []

    def end():
        with postgres_engine.begin() as tx:
            found.append(sessions.end(Tx(tx), session.session_id, 9.0, "pruned", idle_since=9.0))

    with postgres_engine.begin() as tx:
        # The clock of who says something is behind that of who ends sessions.
        anew = new_session(session.key)
        assert sessions.open_for_key(Tx(tx), anew).session_id == session.session_id
        ending = beside(end)
        say_something(Tx(tx), session)
    ending.join()
    assert found == [None]


def test_who_says_something_in_a_session_that_is_being_ended_has_a_new_one(
    postgres_engine, session
):
    anew, found = new_session(session.key), []

    def say():
        with postgres_engine.begin() as tx:
            found.append(sessions.open_for_key(Tx(tx), anew))

    with postgres_engine.begin() as tx:
        assert sessions.end(Tx(tx), session.session_id, 9.0, "idle", idle_since=9.0)
        saying = beside(say)
    saying.join()
    assert found == [anew]
