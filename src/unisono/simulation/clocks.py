"""The clocks of a simulated machine: they run at their own rate, and the wall clock can be stepped."""

from __future__ import annotations

from unisono.units import SECOND

EPOCH = 1_750_000_000 * SECOND
"""What the wall clocks show when a simulation begins."""

_MILLION = 1_000_000


class LocalClock:
    """A clock that shows `shown` at the true time `truth` and gains `gain` parts per million from there on."""

    __slots__ = ("_gain", "_shown", "_truth")

    def __init__(self, shown: int) -> None:
        self._truth = 0
        self._shown = shown
        self._gain = 0

    def read(self, truth: int) -> int:
        return self._shown + (truth - self._truth) * (_MILLION + self._gain) // _MILLION

    def when(self, shown: int) -> int:
        """The true time at which the clock first shows this."""
        ahead = shown - self._shown
        return self._truth + -(-ahead * _MILLION // (_MILLION + self._gain))

    def step(self, by: int) -> None:
        self._shown += by

    def run_at(self, gain: int, truth: int) -> None:
        """From now on gain this many parts per million."""
        self._shown = self.read(truth)
        self._truth = truth
        self._gain = gain
