"""Statements that go to the driver by a short way: the same is kept, read and raised."""

import uuid

import pytest
from sqlalchemy import bindparam, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from checkrail.store.database import Tx
from checkrail.store.rows import fetch_row, select_rows
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import runs, threads
from checkrail.store.threads import Thread
from checkrail.store.wire import wire_of

ADD = PreparedStatement(insert(threads))
FIND = select_rows(Thread, threads).where(threads.c.thread_id == bindparam("id"))
GET = PreparedStatement(FIND)
CHANGE = PreparedStatement(update(threads).where(threads.c.thread_id == bindparam("changed")))


@pytest.fixture(params=["sqlite", "postgres", "wire"])
def tx(request):
    """A transaction in each database, and one as the writer has it on PostgreSQL."""
    kind = "sqlite" if request.param == "sqlite" else "postgres"
    engine = request.getfixturevalue(f"{kind}_engine")
    with engine.connect() as connection, connection.begin() as begun:
        if request.param == "wire":
            made = Tx(connection, wire=wire_of(connection))
            made.run("BEGIN", ())
            yield made
        else:
            yield connection
        begun.rollback()


def kept(tx, **more):
    row = {
        "thread_id": str(uuid.uuid4()),
        "status": "idle",
        "metadata": {"a": [1, "ü"]},
        "values": {"n": None},
        "last_seq": 0,
        "temporary": False,
        "created_at": 1.5,
        "updated_at": 2.0,
        **more,
    }
    ADD.run(tx, row)
    return row


def test_a_row_is_read_as_sqlalchemy_reads_it(tx):
    row = kept(tx, interrupts=b'{"t": []}', expires_at=7.25)
    asked = {"id": row["thread_id"]}
    read = GET.find(tx, Thread, asked)
    assert read == fetch_row(tx, Thread, FIND, asked)
    assert read.metadata == {"a": [1, "ü"]}
    assert read.interrupts == {"t": []}
    assert read.temporary is False
    assert read.expires_at == 7.25
    assert read.error is None


def test_what_is_not_there_is_none(tx):
    assert GET.find(tx, Thread, {"id": "nobody"}) is None


def test_only_the_columns_that_are_given_are_set(tx):
    row = kept(tx)
    asked = {"id": row["thread_id"]}
    assert CHANGE.run(tx, {"status": "busy", "changed": row["thread_id"]}).rowcount == 1
    assert CHANGE.run(tx, {"metadata": {}, "changed": row["thread_id"]}).rowcount == 1
    assert CHANGE.run(tx, {"status": "busy", "changed": "nobody"}).rowcount == 0
    read = GET.find(tx, Thread, asked)
    assert (read.status, read.metadata, read.values) == ("busy", {}, {"n": None})


def test_columns_that_are_given_in_another_order_are_not_mixed_up(tx):
    row = kept(tx)
    for values in ({"status": "a", "owner": "b"}, {"owner": "c", "status": "d"}):
        CHANGE.run(tx, {**values, "changed": row["thread_id"]})
        read = GET.find(tx, Thread, {"id": row["thread_id"]})
        assert {"status": read.status, "owner": read.owner} == values


def test_values_that_a_statement_brings_itself_are_used(tx):
    rows = [kept(tx, owner="ann") for _ in range(3)]
    query = select(threads.c.thread_id).where(threads.c.owner == "ann")
    found = PreparedStatement(query.order_by(threads.c.thread_id).limit(2)).run(tx, {}).fetchall()
    assert [row[0] for row in found] == sorted(row["thread_id"] for row in rows)[:2]


def test_an_error_is_one_of_sqlalchemy_and_does_not_tell_what_was_given(tx):
    row = kept(tx, values={"secret": "s3cret"})
    tx.execute(text("SAVEPOINT before"))
    with pytest.raises(IntegrityError) as raised:
        ADD.run(tx, row)
    tx.execute(text("ROLLBACK TO SAVEPOINT before"))
    assert not raised.value.connection_invalidated
    assert "s3cret" not in str(raised.value)
    assert GET.find(tx, Thread, {"id": row["thread_id"]}) is not None


def test_a_value_that_no_driver_sees_raises_as_it_is(tx):
    with pytest.raises(TypeError):
        kept(tx, metadata=object())


def test_a_connection_that_is_lost_is_said_to_be(engines):
    for engine in engines:
        with engine.connect() as connection, connection.begin() as begun:
            connection.connection.driver_connection.close()
            with pytest.raises(DBAPIError) as raised:
                GET.find(connection, Thread, {"id": "x"})
            assert raised.value.connection_invalidated
            begun.rollback()
        with engine.connect() as connection:
            assert GET.find(connection, Thread, {"id": "x"}) is None


def test_what_a_database_has_words_of_its_own_for_is_said_in_each(tx):
    both = {
        "sqlite": select(runs.c.run_id).where(runs.c.phase == "here"),
        "postgresql": select(runs.c.run_id).where(runs.c.phase == "there"),
    }
    assert PreparedStatement(both).run(tx, {}).fetchall() == []
