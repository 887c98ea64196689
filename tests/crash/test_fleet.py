"""Servers and runners on one database die at random while runs of every kind keep coming.

`make soak` runs the same with many more runs: CHECKRAIL_SOAK_RUNS says how many.
"""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

from . import fleet_books
from .fleets import Fleet, Traffic, running_fleet

RUNS = int(os.environ.get("CHECKRAIL_SOAK_RUNS", "80"))
KILLS = max(5, RUNS // 100)


@pytest.fixture
def fleet(postgres, tmp_path) -> Iterator[Fleet]:
    with running_fleet(postgres.with_tables(), tmp_path) as started:
        yield started


def test_whoever_dies_nothing_is_lost_and_nothing_happens_twice(fleet):
    chance = random.Random(3)
    with Traffic(fleet, RUNS) as traffic:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.5, 1.5))  # the moment is what chance decides here
            chance.choice([*fleet.site.servers, *fleet.runners]).kill()
            time.sleep(chance.uniform(0.1, 1.0))
            fleet.up()
        traffic.wait()
        fleet.up()
        fleet_books.settled(fleet.site)
    assert len(traffic.admitted) + traffic.refused == RUNS
    ends = fleet_books.check(fleet.site, traffic.admitted, fleet.receiver.heard)
    by_agent = {agent for agent, phase in ends if phase == "success"}
    assert by_agent >= {"steps", "talk", "work", "program", "asked", "pays", "check", "follow"}
    sys.stdout.write(f"{RUNS} runs, {KILLS} kills: {dict(ends)}\n")
