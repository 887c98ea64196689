"""The rows of messages: who holds one, and what nobody may write over."""

import threading

from sqlalchemy import event

from checkrail.store import messages
from checkrail.store.database import Tx
from checkrail.store.messages import RECEIVED, REPLYING, RUNNING, WAITING, Message
from checkrail.times import uuid7

ENDED = {"status": "success", "phase": "success", "output": "Hello", "interrupts": []}


def new_message(**values):
    same = {"channel": "http", "account": "ada", "external_id": uuid7(), "digest": "0"}
    ids = {name: uuid7() for name in ("message_id", "session_id", "thread_id", "run_id")}
    told = {"content": {}, "status": RECEIVED, "agent_name": "desk"}
    return Message(**{**same, **ids, **told, "created_at": 1.0, "updated_at": 1.0, **values})


def test_a_run_that_ended_at_once_is_not_said_to_be_running(tx):
    tx = Tx(tx)
    messages.add(tx, new_message())
    [message] = messages.claim(tx, "w1", 1)
    messages.end_run(tx, message.message_id, ENDED, 2.0)
    [again] = messages.claim(tx, "w1", 1)
    assert again.status == REPLYING
    assert not messages.update_owned(tx, message, "w1", status=RUNNING, worker_id=None)
    assert messages.get(tx, message.message_id).status == REPLYING
    assert messages.update_owned(tx, again, "w1", status="answered", worker_id=None)


def test_an_answer_wakes_a_message_that_is_being_left_just_now(postgres_engine):
    row = new_message()
    with postgres_engine.begin() as made:
        messages.add(Tx(made), row)

    def wake():
        with postgres_engine.begin() as answering:
            messages.wake(Tx(answering), row.message_id, 3.0)

    with postgres_engine.begin() as leaving:
        stage = {"status": WAITING, "worker_id": None}
        assert messages.update_if(Tx(leaving), row.message_id, RECEIVED, **stage)
        answer = threading.Thread(target=wake)
        answer.start()
        answer.join(0.5)  # long enough to miss what is not committed yet
    answer.join()
    with postgres_engine.begin() as reads:
        assert messages.get(reads, row.message_id).status == RECEIVED
        messages.remove_of_threads(Tx(reads), [row.thread_id])


def test_what_has_ended_in_a_long_thread_is_not_looked_at_again(sqlite_engine):
    asked = []

    def note(_connection, _cursor, statement, parameters, *_):
        asked.append((statement, parameters))

    with sqlite_engine.connect() as reads:
        event.listen(reads, "before_cursor_execute", note)
        messages.claim(Tx(reads), "w1", 1)
        statement, parameters = asked[0]
        plan = reads.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        reads.rollback()
    told = str(plan)
    assert "earlier USING INDEX messages_open" in told
    assert "earlier USING INDEX messages_unfinished" in told
