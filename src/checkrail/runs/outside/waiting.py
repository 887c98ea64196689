"""Polls that wait for work: of those that can do the same, one is woken at a time.

A hundred runners that all looked whenever there is one run would keep each other waiting.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from checkrail.runs.hub import WORK, Hub


class Ticket:
    """The place of one poll in its line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._woken = asyncio.Event()

    @property
    def is_woken(self) -> bool:
        """Whether there may be something to do that it has not looked for yet."""
        return self._woken.is_set()

    def wake(self) -> None:
        """Have it look."""
        self._woken.set()

    def looks(self) -> None:
        """Note that it looks now."""
        self._woken.clear()

    def found(self) -> None:
        """Note that it has found something: there may be more, for the next one."""
        self._line.wake_next(self)

    async def wait(self) -> None:
        """Wait until it is to look."""
        await self._woken.wait()


class Line(OrderedDict[Ticket, None]):
    """Polls that can do the same, the longest waiting first."""

    def wake_next(self, but: Ticket | None = None) -> None:
        """Wake the first of them."""
        for ticket in self:
            if ticket is not but:
                ticket.wake()
                return


class Waiting:
    """All polls that wait in this process."""

    def __init__(self, hub: Hub) -> None:
        self._lines: dict[Hashable, Line] = {}
        self._stop = hub.listen(WORK, self.ring)

    def ring(self) -> None:
        """Tell that there may be work: one of each line looks, and calls others if there is."""
        for line in self._lines.values():
            line.wake_next()

    def wake_all(self) -> None:
        """Have everybody look."""
        for line in self._lines.values():
            for ticket in line:
                ticket.wake()

    @contextmanager
    def entered(self, ability: Hashable) -> Iterator[Ticket]:
        """Stand in the line of those who can do the same."""
        line = self._lines.setdefault(ability, Line())
        ticket = Ticket(line)
        line[ticket] = None
        try:
            yield ticket
        finally:
            del line[ticket]
            if ticket.is_woken:  # it leaves without having looked
                line.wake_next()
            if not line and self._lines.get(ability) is line:
                del self._lines[ability]

    def close(self) -> None:
        """Listen no more."""
        self._stop()
