"""Statements over a connection to PostgreSQL without a cursor."""

import psycopg
import pytest

from checkrail.store.engines import open_engine
from checkrail.store.wire import Wire, number_parameters, wire_of


@pytest.fixture
def connection(postgres):
    url = postgres.fresh()
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened
    postgres.drop(url)


@pytest.fixture
def wire(connection):
    return Wire(connection)


@pytest.mark.parametrize(
    ("sql", "numbered", "names"),
    [
        ("SELECT 1", b"SELECT 1", ()),
        ("SELECT %s, %s", b"SELECT $1, $2", ("0", "1")),
        ("SELECT %(a)s, %(b)s, %(a)s", b"SELECT $1, $2, $1", ("a", "b")),
        ("SELECT 5 %% 3", b"SELECT 5 % 3", ()),
    ],
)
def test_parameters_get_numbers(sql, numbered, names):
    assert number_parameters(sql) == (numbered, names)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", "ü 'x' \\ %s"),
        ("text", ""),
        ("text", None),
        ("bigint", -(2**62)),
        ("float8", 0.1),
        ("float8", 1e300),
        ("bool", True),
        ("bool", False),
        ("bytea", b"\x00\xff'"),
        ("text[]", ["a", 'b"', None]),
        ("int[]", [1, 2]),
    ],
)
def test_a_value_comes_back_as_it_was(wire, kind, value):
    found = wire.execute_named(f"SELECT %s::{kind}, 7", [value])
    assert found.fetchall() == [(value, 7)]
    assert found.fetchone() == (value, 7)


def test_text_and_bytes_may_be_mixed(wire):
    sql = "SELECT %(a)s::text, %(b)s::bytea, %(c)s::text, %(b)s::bytea"
    given = {"c": "z", "a": "x", "b": b"\x00y"}
    assert wire.execute_named(sql, given).fetchone() == ("x", b"\x00y", "z", b"\x00y")


def test_rows_are_counted(wire):
    wire.execute_named("CREATE TABLE t (n int)", ())
    assert wire.execute_named("INSERT INTO t VALUES (%s), (%s)", (1, 2)).rowcount == 2
    assert wire.execute_named("UPDATE t SET n = 5 WHERE n = %s", (9,)).rowcount == 0
    assert wire.execute_named("SELECT n FROM t", ()).rowcount == 2
    assert wire.execute_named("SELECT n FROM t WHERE n = %s", (9,)).fetchone() is None


def test_text_with_a_nul_is_not_cut_short_but_refused(wire):
    with pytest.raises(psycopg.DataError, match="NUL"):
        wire.execute_named("SELECT %s::text", ("a\0b",))


def test_errors_are_the_drivers_own(wire):
    with pytest.raises(psycopg.errors.UndefinedTable):
        wire.execute_named("SELECT * FROM nothing", ())
    with pytest.raises(psycopg.errors.DivisionByZero):
        wire.execute_named("SELECT 1 / %s::int", (0,))
    assert wire.execute_named("SELECT 1 / %s::int", (1,)).fetchone() == (1,)


def test_a_connection_that_is_lost_is_known_to_be(wire, connection, postgres):
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        wire.execute_named("SELECT 1", ())
    with pytest.raises(psycopg.OperationalError):  # nor is there another one
        wire.execute_named("SELECT 1", ())
    assert connection.closed


def test_what_is_prepared_outlives_a_rollback(connection):
    def use_cursor():
        with connection.transaction(force_rollback=True):
            for _ in range(10):
                connection.execute("SELECT 1")

    use_cursor()  # psycopg has prepared something of its own
    wire = Wire(connection)
    for _ in range(3):
        assert wire.execute_named("SELECT 5", ()).fetchone() == (5,)
        use_cursor()


def test_a_connection_that_comes_from_the_pool_again_has_the_same_wire(postgres):
    url = postgres.fresh()
    engine = open_engine(url)
    for _ in range(2):
        with engine.connect() as pooled:
            assert wire_of(pooled).execute_named("SELECT 1", ()).fetchone() == (1,)
    engine.dispose()
    postgres.drop(url)
