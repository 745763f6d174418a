"""Sets of whole numbers that are mostly dense: kept as intervals, so that a million of them take one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Numbers:
    """Whole numbers, each once."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in intervals:
            self.add_all(first, last)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The intervals, in order: first and last."""
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def pieces(self) -> int:
        """Of how many intervals this is made."""
        return len(self._firsts)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """What is missing from 0 to the last: first and last of each gap."""
        edges = [-1, *self._lasts]
        return [
            (before + 1, first - 1)
            for before, first in zip(edges, self._firsts, strict=False)
            if before + 1 <= first - 1
        ]

    def add(self, number: int) -> bool:
        """Whether it is new."""
        if number in self:
            return False
        self.add_all(number, number)
        return True

    def add_all(self, first: int, last: int) -> None:
        """Everything from first to last; intervals that touch become one."""
        low = bisect_right(self._lasts, first - 2)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]
