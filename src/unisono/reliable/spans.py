"""Sets of sequence numbers that are mostly runs: kept as disjoint spans, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from unisono.wire.messages import Range


class Spans:
    """At most `limit` spans; when there would be more, the lowest gap counts as filled."""

    __slots__ = ("_firsts", "_lasts", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __contains__(self, sequence: int) -> bool:
        at = bisect_right(self._firsts, sequence) - 1
        return at >= 0 and self._lasts[at] >= sequence

    def add(self, first: int, last: int) -> None:
        """Put a span in; it merges with those that it touches."""
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]
        if len(self._firsts) > self._limit:
            del self._firsts[1], self._lasts[0]

    def spans(self) -> list[Range]:
        """All of them, lowest first."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def missing(self, first: int, last: int) -> list[Range]:
        """What of a range is not in the set."""
        gaps: list[Range] = []
        at = bisect_left(self._lasts, first)
        while first <= last:
            if at == len(self._firsts) or self._firsts[at] > last:
                gaps.append((first, last))
                break
            if self._firsts[at] > first:
                gaps.append((first, self._firsts[at] - 1))
            first = self._lasts[at] + 1
            at += 1
        return gaps
