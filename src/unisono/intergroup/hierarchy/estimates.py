"""One-way distances from timestamp pairs, smoothed. All in microseconds.

Delay in queues only ever adds: a lower sample is believed sooner than a higher one, and a much higher one not at all
until several in a row say the same, since then the path itself has changed.
"""

from __future__ import annotations

_OUTLIERS_LIMIT = 4
"""So many outliers in a row are a new path."""
_OUTLIER_FLOOR = 3_000
"""What a sample may always exceed the estimate by."""


def one_way(sent: int, held: int, received: int) -> int | None:
    """(t4 - t3 + t2 - t1) / 2 with held = t3 - t2; None where the pair cannot be true.

    Neither clock need agree with the other: t1 and t4 are of one, t2 and t3 of the other.
    """
    there_and_back = received - sent - held
    return None if there_and_back < 0 else there_and_back // 2


class Estimate:
    """The distance to one peer; None until it was measured."""

    __slots__ = ("_lowest_outlier", "_outliers", "value")

    def __init__(self, value: int | None = None) -> None:
        self.value = value
        self._outliers = 0
        self._lowest_outlier = 0

    def add(self, sample: int) -> None:
        value = self.value
        if value is None:
            self.value = sample
        elif sample <= value:
            self.value = value - (value - sample) // 2
            self._outliers = 0
        elif sample > 2 * value + _OUTLIER_FLOOR:
            self._lowest_outlier = min(sample, self._lowest_outlier) if self._outliers else sample
            self._outliers += 1
            if self._outliers >= _OUTLIERS_LIMIT:
                self.value = self._lowest_outlier
                self._outliers = 0
        else:
            self.value = value + (sample - value) // 8
            self._outliers = 0
