"""PostgreSQL restarts and stays away, processes freeze and wake, while runs of every kind come.

`make soak MODE=outages` runs the slow one, with all kinds of rounds: CHECKRAIL_SOAK_ROUNDS says how
many.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice

import pytest
from tests.postgres import Postgres

from . import fleet_books
from .fleets import Fleet, Traffic, running_fleet
from .site import eventually

MANY = int(os.environ.get("CHECKRAIL_SOAK_ROUNDS", "20"))
LEASE = 4.0  # of the fleet's servers
FROZEN = 2 * LEASE

# The rounds to go through, in an order that puts different ones next to each other.
SHORT = ("immediate", "away 6", "frozen server")
LONG = ("fast", "frozen server", "immediate", "away 12", "frozen runner", "away 40")


@dataclass
class Disturber:
    """Disturbs a fleet, and knows when processes were frozen."""

    fleet: Fleet
    postgres: Postgres
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    frozen: list[tuple[float, float]] = field(default_factory=list)

    def disturb(self, kind: str) -> None:
        what, _, detail = kind.partition(" ")
        if what == "frozen":
            self._freeze(self.fleet.runners if detail == "runner" else self.fleet.site.servers)
            return
        either = what == "away" and self.chance.random() < 0.5
        self.postgres.shut_down(immediate=what == "immediate" or either)
        time.sleep(float(detail or 0))
        self.postgres.start_again()

    def _freeze(self, processes: list) -> None:
        process, began = self.chance.choice(processes), time.time()
        process.freeze()
        time.sleep(FROZEN)
        process.thaw()
        self.frozen.append((began, time.time() + LEASE))

    def was_frozen(self, run: dict) -> bool:
        """Whether a run was under way while some process was frozen."""
        return any(
            run["created_at"] < until and run["ended_at"] > since for since, until in self.frozen
        )


@pytest.fixture
def restartable() -> Iterator[Postgres]:
    cluster = Postgres()
    cluster.keep_commits()
    yield cluster
    cluster.stop()


@pytest.fixture
def fleet(restartable, tmp_path) -> Iterator[Fleet]:
    with running_fleet(restartable.with_tables(), tmp_path) as started:
        started.await_runners()
        yield started


@pytest.mark.parametrize(
    "kinds",
    [SHORT, pytest.param(tuple(islice(cycle(LONG), MANY)), marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_an_outage_ends_no_run_and_a_frozen_process_changes_nothing(fleet, restartable, kinds):
    disturber = Disturber(fleet, restartable)
    rounds = Counter()
    with Traffic(fleet, pause=0.5) as traffic:
        for kind in kinds:
            time.sleep(disturber.chance.uniform(1.0, 3.0))  # the moment is chance's to choose
            disturber.disturb(kind)
            rounds[kind] += 1
            sys.stdout.write(f"{kind}: {len(traffic.admitted)} runs admitted so far\n")
            await_answer(traffic)
        traffic.end()
        fleet_books.settled(fleet.site)
    assert all(each.running for each in (*fleet.site.servers, *fleet.runners))
    assert len(traffic.admitted) + traffic.refused == traffic.requested
    ends = fleet_books.check(fleet.site, traffic.admitted, fleet.receiver.heard)
    fleet_books.check_errors(fleet.site, disturber.was_frozen)
    fleet_books.check_history(fleet.site)
    assert not set(traffic.answers) - {200, 403, 503}, traffic.answers
    sys.stdout.write(f"{rounds.total()} rounds {dict(rounds)}: {dict(ends)}, {traffic.answers}\n")


def await_answer(traffic: Traffic) -> None:
    """Wait until a run is admitted again, so that the next round finds the fleet at work."""
    before = len(traffic.admitted)
    eventually(lambda: len(traffic.admitted) > before, "a run after an outage", 90.0)
