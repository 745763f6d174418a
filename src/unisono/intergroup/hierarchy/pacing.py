"""How often a control process speaks: the RTCP rule (000 2.3, figures 2.2 and 2.3)."""

from __future__ import annotations

from unisono.engine import Randomness
from unisono.units import SECOND

SIZE_GAIN = 16
"""The gain is one over this."""
FIRST_SIZE_BYTES = 128


class Pacer:
    """One for local and one for global messages: their sizes and their groups differ."""

    __slots__ = ("_bandwidth", "_least", "average_bytes")

    def __init__(self, bandwidth: int, least: int) -> None:
        self._bandwidth = bandwidth
        self._least = least
        self.average_bytes = float(FIRST_SIZE_BYTES)

    def saw(self, size: int) -> None:
        """A message of this group was sent or received."""
        self.average_bytes += (size - self.average_bytes) / SIZE_GAIN

    def interval(self, members: int) -> int:
        """The time in which every member may speak once within the bandwidth, and never less than the least."""
        return max(self._least, int(self.average_bytes * members * SECOND / self._bandwidth))

    def first(self, randomness: Randomness) -> int:
        """The wait before the first message: half the least, spread."""
        return int(self._least / 2 * (0.5 + randomness.random()))

    def next(self, members: int, randomness: Randomness) -> int:
        """The wait before the next message: half to one and a half times the interval, so that members do not fall
        into step."""
        return int(self.interval(members) * (0.5 + randomness.random()))
