"""Copies of other sources' datagrams, kept so that any holder can repair them, until they are stable."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from unisono.wire.messages import Range


class Holding:
    """The datagrams of one source that came here, as they were sent; the oldest go when there is no room.

    That is safe: the source itself keeps what is not stable. `bytes` is at most `limit`, or one datagram.
    """

    __slots__ = ("_datagrams", "_firsts", "bytes", "high_water", "limit")

    def __init__(self, limit: int) -> None:
        self._firsts: list[int] = []
        self._datagrams: list[tuple[int, bytes]] = []
        self.limit = limit
        self.bytes = 0
        self.high_water = 0

    def keep(self, first: int, last: int, datagram: bytes) -> None:
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == first:
            return
        self._firsts.insert(at, first)
        self._datagrams.insert(at, (last, datagram))
        self.bytes += len(datagram)
        drop = 0
        while self.bytes > self.limit and drop < len(self._firsts) - 1:
            self.bytes -= len(self._datagrams[drop][1])
            drop += 1
        if drop:
            self._drop(drop)
        if self.bytes > self.high_water:
            self.high_water = self.bytes

    def release(self, stable: int) -> None:
        """Everybody has what was sent up to here."""
        count = 0
        while count < len(self._firsts) and self._datagrams[count][0] <= stable:
            self.bytes -= len(self._datagrams[count][1])
            count += 1
        if count:
            self._drop(count)

    def find(self, ranges: Sequence[Range]) -> list[tuple[int, int, bytes]]:
        """The datagrams that carry any of these sequences, each once, in order."""
        found: dict[int, tuple[int, int, bytes]] = {}
        for first, last in ranges:
            at = max(bisect_right(self._firsts, first) - 1, 0)
            while at < len(self._firsts) and self._firsts[at] <= last:
                ends, datagram = self._datagrams[at]
                if ends >= first:
                    found[self._firsts[at]] = (self._firsts[at], ends, datagram)
                at += 1
        return [found[first] for first in sorted(found)]

    def _drop(self, count: int) -> None:
        del self._firsts[:count]
        del self._datagrams[:count]
