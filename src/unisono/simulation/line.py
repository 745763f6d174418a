"""A line of limited bandwidth: carries one datagram after another, and lets so many wait."""

from __future__ import annotations

from unisono.units import SECOND

UDP_HEAD_BYTES = 42
"""What the headers below a datagram take on the line."""


class Line:
    """Busy until it has carried what it took so far."""

    __slots__ = ("_busy_until",)

    def __init__(self) -> None:
        self._busy_until = 0

    def carry(self, now: int, bandwidth: int, size: int, queue: int) -> int | None:
        """When the datagram has passed; None when too many wait already."""
        took = (size + UDP_HEAD_BYTES) * 8 * SECOND // bandwidth
        begins = max(now, self._busy_until)
        if begins - now > took * queue:
            return None
        self._busy_until = begins + took
        return self._busy_until
