"""What is missing of one source, and tickets for as much of it as may be asked for now.

Beyond a horizon nothing is asked for, since it would find no room, and no ticket is kept: what is missing there follows
from the window. So there are never more tickets than the horizon is away from what is in order, however much is sent
to a receiver that takes nothing.
"""

from __future__ import annotations

from unisono.reliable.tickets import Tickets
from unisono.reliable.windows import ReceiveWindow

HORIZON_LIMIT = 512
"""How far beyond what is in order repairs are asked for, and how many tickets of one source there may be."""


class Gaps:
    """The tickets of one window, up to the furthest horizon that it had."""

    __slots__ = ("_frontier", "_high_water", "_window", "tickets")

    def __init__(self, window: ReceiveWindow) -> None:
        self._window = window
        self.tickets = Tickets()
        self._frontier = 0
        """What is missing up to here has a ticket."""
        self._high_water = 0

    def __bool__(self) -> bool:
        """Whether anything is missing, with a ticket or without."""
        return self._window.contiguous < self._window.highest

    def announce(self, sequence: int, due: int, horizon: int) -> bool:
        """The source has sent up to `sequence`; True when that reveals something missing, to be asked for when due."""
        unknown = self._window.announce(sequence)
        if unknown is None:
            return False
        first, last = unknown[0], min(unknown[1], self._frontier)
        if first <= last:
            self.tickets.open(first, last, due)
            self._count()
        self.look_further(due, horizon)
        return True

    def miss(self, sequence: int, due: int, horizon: int) -> None:
        """What had come found no room, or made room for something else."""
        if sequence <= self._frontier and sequence not in self.tickets:
            self.tickets.open(sequence, sequence, due)
            self._count()
        self.look_further(due, horizon)

    def look_further(self, due: int, horizon: int) -> None:
        """There may be room for more than before: what is missing of that is asked for when due."""
        if not self.may_look_further(horizon):
            return
        for first, last in self._window.missing(self._frontier, horizon):
            self.tickets.open(first, last, due)
        self._frontier = horizon
        self._count()

    def lacks_further(self, first: int, last: int) -> bool:
        """Whether anything of a range is missing that has no ticket."""
        return any(True for _ in self._window.missing(max(first - 1, self._frontier), last))

    def renew(self, due: int, horizon: int) -> None:
        """Ask for everything anew that is missing and may be asked for."""
        self.tickets.drop_below(self._window.highest + 1)
        self._frontier = 0
        self.look_further(due, horizon)

    def may_look_further(self, horizon: int) -> bool:
        return horizon > self._frontier

    def take_high_water(self) -> int:
        """The most tickets there were since this was last asked."""
        self._count()
        highest, self._high_water = self._high_water, len(self.tickets)
        return highest

    def _count(self) -> None:
        self._high_water = max(self._high_water, len(self.tickets))
