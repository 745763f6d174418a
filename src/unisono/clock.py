"""The Lamport clock that follows the local clock (000 4.3): one per process, not per group.

A timestamp from a peer is followed only up to a stated distance ahead of the local clock, so that one
clock that jumped cannot drag every other clock with it; the peer's own messages keep their timestamps.
"""

from __future__ import annotations

TIMESTAMP_LIMIT = (1 << 62) - 1
"""No timestamp reaches this: a wall clock beyond it is read as this."""


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
        self._last = max(self._last + 1, min(wall, TIMESTAMP_LIMIT))
        return self._last

    def observe(self, timestamp: int, wall: int) -> bool:
        """Follow a peer's timestamp; False when it was too far ahead to be followed all the way."""
        bound = min(max(wall, 0) + self._drift_limit, TIMESTAMP_LIMIT)
        if timestamp <= bound:
            if timestamp > self._last:
                self._last = timestamp
            return True
        self._last = max(self._last, bound)
        return False
