"""Polls that wait: one of those alike is woken for work, and calls the next if there was some."""

import asyncio

import pytest

from checkrail.runs.events.hub import WORK, Hub
from checkrail.runs.remote.runners import WaitingPolls


@pytest.fixture
async def waiting():
    hub = Hub()
    made = WaitingPolls(hub)
    made.hub = hub
    yield made
    made.close()


def woken(*tickets):
    return [ticket.is_woken for ticket in tickets]


async def test_one_of_those_that_can_do_the_same_is_woken(waiting):
    with waiting.enter_line("a") as first, waiting.enter_line("a") as second:
        waiting.hub.notify([WORK])
        assert woken(first, second) == [True, False]


async def test_of_every_line_one_is_woken(waiting):
    with waiting.enter_line("a") as first, waiting.enter_line("b") as other:
        waiting.hub.notify([WORK])
        assert woken(first, other) == [True, True]


async def test_whoever_found_something_calls_the_next(waiting):
    with waiting.enter_line("a") as first, waiting.enter_line("a") as second:
        waiting.hub.notify([WORK])
        first.mark_looking()
        first.wake_follower()
        assert woken(first, second) == [False, True]


async def test_whoever_leaves_without_a_look_calls_the_next(waiting):
    with waiting.enter_line("a") as second:
        with waiting.enter_line("a") as third:
            waiting.hub.notify([WORK])
            assert woken(second, third) == [True, False]
            second.mark_looking()
            third.wake()
        assert woken(second) == [True]


async def test_whoever_comes_while_others_look_is_not_forgotten(waiting):
    with waiting.enter_line("a") as first:
        waiting.hub.notify([WORK])
        with waiting.enter_line("a") as late:
            first.mark_looking()
            first.wake_follower()
            await asyncio.wait_for(late.wait(), 5)


async def test_everybody_can_be_woken(waiting):
    with waiting.enter_line("a") as first, waiting.enter_line("a") as second:
        waiting.wake_all()
        assert woken(first, second) == [True, True]


async def test_who_is_closed_hears_nothing(waiting):
    with waiting.enter_line("a") as first:
        waiting.close()
        waiting.hub.notify([WORK])
        assert woken(first) == [False]
