"""Who reports: how far each life of a process has come, whether it still speaks, and whether rows of it are missing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from unisono.properties.monitors.monitor import Source
from unisono.properties.monitors.settled import Clock, time_of
from unisono.trace.schema import AnyRow
from unisono.units import SECOND

LATENESS_NANOSECONDS = SECOND
"""Who has not reported for so long counts as silent: nobody waits for its rows, and what hangs on them is unknown."""

STEP_NANOSECONDS = LATENESS_NANOSECONDS // 2
"""The clock goes at most so far from one batch to the next: a busy machine makes reports late, too."""

TICKS = 4
"""So many batches follow the last report, for what is decided by time alone; then the stream rests."""

FORGET_NANOSECONDS = 600 * SECOND
"""Who has been silent for so long is forgotten; should it speak again, it counts as one whose rows are missing."""

ENDINGS = ("END", "CRASH")
"""A life writes nothing after one of these."""


class Life(Struct):
    """One life of a process, as far as it was reported.

    `heard` is when its last report came, on the clock of the stream. `lossy` says that rows of it are missing, and
    `sighted` are the groups in which it installed a view since: there, what depends on its view is judged again.
    """

    number: int = 0
    position: int = 0
    moment: int = -1
    clock: Clock = None
    heard: int = 0
    ended: bool = False
    lossy: bool = False
    sighted: list[str] = []

    def take(self, number: int, rows: Sequence[AnyRow], now: int) -> bool:
        """Note a report; whether rows before it, or in it, are missing. The rows are in order, and there is one."""
        missing = number != self.number or rows[0].position != self.position or not is_dense(rows)
        self.number = number + 1
        self.heard = now
        self.position = rows[-1].position + 1
        self.moment, self.clock = time_of(rows[-1])
        if missing:
            self.lossy = True
            self.sighted = []
        return missing

    def is_silent(self, now: int) -> bool:
        return self.ended or now - self.heard >= LATENESS_NANOSECONDS

    def is_forgotten(self, now: int) -> bool:
        return now - self.heard >= FORGET_NANOSECONDS

    def state(self, now: int) -> str:
        """In a word, for a person."""
        return "ended" if self.ended else "silent" if self.is_silent(now) else "reporting"


def is_dense(rows: Sequence[AnyRow]) -> bool:
    """Whether no row is missing between these, which are in order."""
    return rows[-1].position - rows[0].position + 1 == len(rows)


Lives = dict[Source, Life]
"""Every life of a run by name and incarnation."""
