"""The Lamport clock that follows the local clock (000 4.3): one per process, not per group.

A timestamp from a peer is followed only up to a stated distance ahead of the local clock, so that one
clock that jumped cannot drag every other clock with it; the peer's own messages keep their timestamps.
"""

from __future__ import annotations

WALL_LIMIT = (1 << 62) - (1 << 56)
"""A wall clock beyond this is read as this, so that there is always room to tick on."""
TIMESTAMP_LIMIT = (1 << 62) - 1
"""No timestamp is above this."""


class LamportClock:
    """Timestamps that grow with every event of this process and stand above every event it heard of."""

    __slots__ = ("_drift_limit", "_last")

    def __init__(self, drift_limit: int) -> None:
        self._drift_limit = drift_limit
        self._last = 0

    @property
    def last(self) -> int:
        return self._last

    def tick(self, wall: int) -> int:
        """A timestamp above every earlier one, at the wall clock where that is ahead."""
        self._last = max(self._last + 1, min(wall, WALL_LIMIT))
        return self._last

    def observe(self, timestamp: int, wall: int) -> bool:
        """Follow a peer's timestamp; False when it was too far ahead to be followed all the way."""
        bound = min(max(wall, 0), WALL_LIMIT) + self._drift_limit
        if timestamp <= bound:
            if timestamp > self._last:
                self._last = timestamp
            return True
        self._last = max(self._last, bound)
        return False
