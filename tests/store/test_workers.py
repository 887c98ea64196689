"""Workers and their leases."""

import threading
import time
import uuid

from sqlalchemy import literal, select

from checkrail.store import workers
from checkrail.store.database import Database
from checkrail.store.tables import workers as table


def enter(tx, now, lease=30.0):
    name = str(uuid.uuid4())
    workers.add(tx, name, ("host", 7), literal(now), lease)
    return name


def lease_of(tx, name):
    return tx.execute(select(table.c.expires_at).where(table.c.worker_id == name)).scalar()


def test_a_worker_enters_with_a_lease_and_renews_it(tx):
    now = time.time()
    name = enter(tx, now)
    assert lease_of(tx, name) == now + 30
    assert workers.renew_lease(tx, name, literal(now + 5), 30)
    assert lease_of(tx, name) == now + 35


def test_a_lease_that_ran_out_is_not_renewed_by_a_beat(tx):
    now = time.time()
    name = enter(tx, now)
    assert not workers.renew_lease(tx, name, literal(now + 31), 30)
    assert lease_of(tx, name) == now + 30


def test_a_worker_that_is_still_listed_takes_up_its_lease_again(tx):
    now = time.time()
    name = enter(tx, now)
    assert workers.revive_lease(tx, name, literal(now + 60), 30)
    assert lease_of(tx, name) == now + 90
    assert not workers.revive_lease(tx, "nobody", literal(now), 30)


def test_the_others_are_those_that_are_alive(tx):
    now = time.time()
    workers.end_server_leases(tx)
    mine, other, dead = enter(tx, now), enter(tx, now), enter(tx, now - 60)
    assert workers.count_others(tx, mine, literal(now)) == 1
    workers.remove(tx, other)
    assert workers.count_others(tx, mine, literal(now)) == 0
    assert lease_of(tx, dead) is not None


def test_the_dead_are_those_whose_lease_ran_out(tx):
    now = time.time()
    workers.end_server_leases(tx)
    mine, gone = enter(tx, now - 60), enter(tx, now - 60)
    alive = enter(tx, now)
    found = {row.worker_id for row in workers.find_dead(tx, mine, literal(now))}
    assert gone in found
    assert not {mine, alive} & found


def test_where_one_process_is_alone_all_others_are_dead(tx):
    now = time.time()
    mine, other = enter(tx, now), enter(tx, now)
    workers.end_server_leases(tx)
    assert other in {row.worker_id for row in workers.find_dead(tx, mine, literal(now))}


def test_a_runner_is_found_as_long_as_it_has_its_lease(tx):
    now = time.time()
    name = str(uuid.uuid4())
    told = {"name": "box", "tags": ["gpu"]}
    workers.add(tx, name, ("h", 1), literal(now), 30, kind="runner", owner="ada", registration=told)
    found = workers.find_runner(tx, name)
    assert (found.owner, found.registration) == ("ada", told)
    assert workers.has_lease(tx, name, literal(now))
    assert not workers.has_lease(tx, name, literal(now + 31))
    assert workers.find_runner(tx, name) == found, "it is for others to judge"
    assert workers.find_runner(tx, enter(tx, now)) is None


def test_runners_outlive_the_servers_that_they_could_not_reach(tx):
    now = time.time()
    runner, server = str(uuid.uuid4()), enter(tx, now)
    workers.add(tx, runner, ("h", 1), literal(now - 60), 30, kind="runner")
    workers.renew_stranded(tx, literal(now), 30)
    assert lease_of(tx, runner) == now - 30, "there was a server"
    workers.end_server_leases(tx)
    assert lease_of(tx, server) == 0
    workers.renew_stranded(tx, literal(now), 30)
    assert lease_of(tx, runner) == now + 60


def test_runners_outlive_a_server_that_was_just_killed(tx):
    now = time.time()
    runner = str(uuid.uuid4())
    enter(tx, now - 20)  # its lease has ten seconds left, and it beats no more
    workers.add(tx, runner, ("h", 1), literal(now - 29), 30, kind="runner")
    workers.renew_stranded(tx, literal(now), 30)
    assert lease_of(tx, runner) == now + 60


def test_leases_stand_still_while_no_server_renews_one(tx):
    now = time.time()
    tx.execute(table.delete())
    runner = str(uuid.uuid4())
    dead, alive = enter(tx, now - 25), enter(tx, now)
    workers.add(tx, runner, ("h", 1), literal(now - 10), 30, kind="runner")
    assert workers.extend_leases(tx, literal(now + 9), 10) == 0, "somebody has renewed just now"
    assert workers.extend_leases(tx, literal(now + 60), 10) == 60
    assert [lease_of(tx, name) for name in (dead, alive, runner)] == [now + 65, now + 90, now + 80]
    assert workers.extend_leases(tx, literal(now + 60), 10) == 0, "it is done"
    assert workers.renew_lease(tx, alive, literal(now + 61), 30)
    found = {row.worker_id for row in workers.find_dead(tx, alive, literal(now + 66))}
    assert found == {dead}, "who is dead is found when the rest of its lease is over"


def test_where_there_is_no_worker_no_lease_is_moved(tx):
    tx.execute(table.delete())
    assert workers.extend_leases(tx, literal(time.time()), 10) == 0


def test_a_worker_that_froze_in_a_transaction_is_judged_after_that_has_ended(postgres_engine):
    name, long_ago = str(uuid.uuid4()), time.time() - 60
    url = postgres_engine.url.render_as_string(hide_password=False)
    frozen, other = Database(url, writer_id=name), Database(url)
    begun, thawed = threading.Event(), threading.Event()

    def freeze(tx):
        begun.set()
        thawed.wait(30)

    def find_dead():
        found = other.write_soon(lambda tx: workers.find_dead(tx, "mine", other.now())).result(30)
        return name in {row.worker_id for row in found}

    try:
        frozen.write_soon(lambda tx: workers.add(tx, name, ("h", 1), long_ago, 30)).result(30)
        assert find_dead()
        freezing = frozen.write_soon(freeze)
        assert begun.wait(30)
        assert not find_dead(), "it may wake, and commit what it has written"
        thawed.set()
        freezing.result(30)
        assert find_dead()
    finally:
        thawed.set()
        other.write_soon(lambda tx: workers.remove(tx, name)).result(30)
        frozen.close()
        other.close()
