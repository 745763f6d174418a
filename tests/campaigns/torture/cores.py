"""How much of this machine's cores others use, so that what depends on time is judged on free cores only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""Of the numbers in the line of all cores: idle, and waiting for a disk."""
_GUESTS = 8
"""From there on they are counted among others already."""


class Mark(NamedTuple):
    """Seconds: of the clock, of all cores, and of the processes of this run."""

    at: float
    busy: float
    own: float

    def others_since(self, earlier: Mark) -> float:
        """How many cores others kept busy on average since an earlier mark."""
        busy, own = self.busy - earlier.busy, self.own - earlier.own
        return max(0.0, busy - own) / max(self.at - earlier.at, 1 / _TICKS)


def mark(children: Iterable[int]) -> Mark:
    """Of now; `children` are those that were started and not waited for yet."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]
    busy = sum(number for place, number in enumerate(numbers[:_GUESTS]) if place not in _IDLE) / _TICKS
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return Mark(monotonic(), busy, own + sum(map(_used_by, children)))


def _used_by(process: int) -> float:
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended, and will be counted once it is waited for
    return (int(words[11]) + int(words[12])) / _TICKS
