"""The Lamport clock that follows the local clock (000 4.3): one per process, not per group.

The wall clock is read once, when a life begins; from then on time passes as the monotonic clock says, so that a wall
clock that is set forward or back moves no timestamp. A peer that is ahead is caught up with and kept up with: clocks
of a group stay within one network delay of the fastest. A timestamp too far ahead to be true is not believed at all,
so that one bad clock cannot drag every other clock with it.
"""

from __future__ import annotations

WALL_LIMIT = (1 << 62) - (1 << 56)
"""A wall clock beyond this is read as this, so that there is always room to tick on."""
TIMESTAMP_LIMIT = (1 << 62) - 1
"""No timestamp is above this."""


class LamportClock:
    """Timestamps that grow with every event of this process and stand above every event it heard of."""

    __slots__ = ("_base", "_drift_limit", "_last", "_offset")

    def __init__(self, drift_limit: int) -> None:
        self._drift_limit = drift_limit
        self._last = 0
        self._base: int | None = None
        self._offset = 0

    @property
    def last(self) -> int:
        return self._last

    def tick(self, now: int, wall: int) -> int:
        """A timestamp above every earlier one."""
        if self._base is None:
            self._begin(now, wall)
        self._last = max(self._last + 1, min(now + self._offset, WALL_LIMIT))
        return self._last

    def observe(self, timestamp: int, now: int, wall: int) -> bool:
        """Catch up with a peer's timestamp; False when it is too far ahead to be believed."""
        base = self._begin(now, wall) if self._base is None else self._base
        if timestamp > max(now + base, min(wall, WALL_LIMIT)) + self._drift_limit:
            return False
        if timestamp > self._last:
            self._last = timestamp
            self._offset = max(self._offset, timestamp - now)
        return True

    def _begin(self, now: int, wall: int) -> int:
        self._base = self._offset = min(max(wall, 0), WALL_LIMIT) - now
        return self._base
