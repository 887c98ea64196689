"""Servers and runners on one database die at random while runs of every kind keep coming.

`make soak` runs the slow one with many more runs: CHECKRAIL_SOAK_RUNS says how many.
"""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

from . import fleet_books
from .fleets import Fleet, Traffic, running_fleet

MANY = int(os.environ.get("CHECKRAIL_SOAK_RUNS", "2000"))


@pytest.fixture
def fleet(postgres, tmp_path) -> Iterator[Fleet]:
    with running_fleet(postgres.with_tables(), tmp_path) as started:
        yield started


@pytest.mark.parametrize("runs", [80, pytest.param(MANY, marks=pytest.mark.slow)])
def test_whoever_dies_nothing_is_lost_and_nothing_happens_twice(fleet, runs):
    chance, kills = random.Random(3), max(5, runs // 100)
    with Traffic(fleet, runs) as traffic:
        for _ in range(kills):
            time.sleep(chance.uniform(0.5, 1.5))  # the moment is what chance decides here
            chance.choice([*fleet.site.servers, *fleet.runners]).kill()
            time.sleep(chance.uniform(0.1, 1.0))
            fleet.up()
        traffic.wait()
        fleet.up()
        fleet_books.settled(fleet.site)
    assert len(traffic.admitted) + traffic.refused == runs
    ends = fleet_books.check(fleet.site, traffic.admitted, fleet.receiver.heard)
    by_agent = {agent for agent, phase in ends if phase == "success"}
    assert by_agent >= {"steps", "talk", "work", "program", "asked", "pays", "check", "follow"}
    sys.stdout.write(f"{runs} runs, {kills} kills: {dict(ends)}\n")
