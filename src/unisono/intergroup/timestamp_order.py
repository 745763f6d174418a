"""Which of many streams delivers next in timestamp order (000 figure 4.4, 003 6.3).

A message is next when no other stream can still bring one with a lower key. A keep-alive only moves the time that its
source has reached, and only where nothing of the source is missing (E3); the key of a message never changes (E4).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from unisono.identity import ProcessId
from unisono.intergroup.stream import Stream

Key = tuple[int, int, ProcessId]
"""Timestamp; 0 for a message and 1 for a stream that only waits; source. The lowest is next."""

STALE_LIMIT = 64
"""So many places that nobody stands at any more are kept beside four for each stream."""


class TimestampOrder:
    """The streams that take part, by how far each has come. Finding the next costs the logarithm of their number.

    Places that streams have left stay in the heap until they come up or are too many.
    """

    __slots__ = ("_heap", "_streams")

    def __init__(self) -> None:
        self._heap: list[Key] = []
        self._streams: dict[ProcessId, Stream] = {}

    def __len__(self) -> int:
        """How many places are kept, with those that streams have left."""
        return len(self._heap)

    def __contains__(self, stream: Stream) -> bool:
        return self._streams.get(stream.source) is stream

    def admit(self, stream: Stream) -> None:
        """Let a stream take part."""
        self._streams[stream.source] = stream
        stream.placed = None
        self.refresh(stream)

    def remove(self, source: ProcessId) -> None:
        self._streams.pop(source, None)

    def refresh(self, stream: Stream) -> None:
        """A stream has news: put it where it belongs now."""
        front = stream.front
        if front != stream.placed and stream in self:
            stream.placed = front
            heappush(self._heap, (*front, stream.source))
            if len(self._heap) > STALE_LIMIT + 4 * len(self._streams):
                self._heap = [(*held.placed, held.source) for held in self._streams.values() if held.placed]
                heapify(self._heap)

    def first(self) -> tuple[Key, Stream] | None:
        """The stream that everything waits for: the one whose message is next, or that may still bring it."""
        while self._heap:
            key = self._heap[0]
            stream = self._streams.get(key[2])
            if stream is not None and stream.placed == key[:2]:
                return key, stream
            heappop(self._heap)
        return None
