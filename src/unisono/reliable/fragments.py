"""Messages larger than a datagram: put together again whole, or not at all.

Fragments of a message have consecutive sequence numbers, and the message is named by its last one.
"""

from __future__ import annotations

from msgspec.structs import replace

from unisono.identity import ProcessId
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.wire.messages import DataMessage

Key = tuple[ProcessId, int, int]
"""A message by its source, its first sequence and how many fragments it says it has."""


class TooLarge(Exception):
    """A message outgrows what this receiver puts together; caught by the engine that feeds the fragments."""


class OrderedAssembly:
    """Puts together the fragments of one source that come in order and without gaps.

    A source may begin a message anew: what came of it before is dropped. However small they are, fragments take no more
    room than the message.
    """

    __slots__ = ("_begun", "_count", "_limit", "bytes", "high_water")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._count = 0
        self.bytes = 0
        self.high_water = 0

    def add(self, fragment: DataMessage) -> bytes | None:
        """The whole payload once the last fragment is in; raises TooLarge."""
        if fragment.index != self._count:
            self.clear()
            if fragment.index:
                return None
        if self.bytes + len(fragment.payload) > self._limit:
            self.clear()
            raise TooLarge
        self._begun += fragment.payload
        self._count += 1
        self.bytes += len(fragment.payload)
        if self.bytes > self.high_water:
            self.high_water = self.bytes
        if self._count < fragment.count:
            return None
        whole = bytes(self._begun)
        self.clear()
        return whole

    def clear(self) -> None:
        """Drop what came of a message that is not whole."""
        if self._count:
            self._begun = bytearray()
            self._count = self.bytes = 0


class Unfinished:
    """The fragments of one message that have come, and since when."""

    __slots__ = ("bytes", "parts", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.parts: dict[int, DataMessage] = {}
        self.bytes = 0


class ScatteredAssembly:
    """Puts together fragments that come in any order, or never; what is oldest makes room for what is new.

    Small fragments count for more than they hold, so that many of them are bounded too.
    """

    __slots__ = ("_limit", "_unfinished", "bytes", "given_up", "high_water")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unfinished: dict[Key, Unfinished] = {}
        self.bytes = 0
        self.high_water = 0
        self.given_up = 0

    def add(self, source: ProcessId, fragment: DataMessage, now: int) -> DataMessage | None:
        """The whole message, under its last fragment's sequence and timestamp, once every fragment is in."""
        key = (source, fragment.sequence - fragment.index, fragment.count)
        size = max(len(fragment.payload), MESSAGE_OVERHEAD_BYTES)
        if size > self._limit:
            self.given_up += 1
            return None
        unfinished = self._unfinished.get(key)
        if unfinished is not None and fragment.index in unfinished.parts:
            return None
        while self._unfinished and self.bytes + size > self._limit:
            self._give_up(next(iter(self._unfinished)))
        unfinished = self._unfinished.setdefault(key, Unfinished(now))
        unfinished.parts[fragment.index] = fragment
        unfinished.bytes += size
        self.bytes += size
        if self.bytes > self.high_water:
            self.high_water = self.bytes
        if len(unfinished.parts) < fragment.count:
            return None
        del self._unfinished[key]
        self.bytes -= unfinished.bytes
        whole = b"".join(unfinished.parts[index].payload for index in range(fragment.count))
        return replace(unfinished.parts[fragment.count - 1], payload=whole)

    def expire(self, before: int) -> None:
        """Give up what was begun before then: its missing fragments will not come."""
        for key in [key for key, unfinished in self._unfinished.items() if unfinished.since < before]:
            self._give_up(key)

    def forget(self, source: ProcessId) -> None:
        """A source is gone: so are its unfinished messages."""
        for key in [key for key in self._unfinished if key[0] == source]:
            self._give_up(key)

    def _give_up(self, key: Key) -> None:
        self.bytes -= self._unfinished.pop(key).bytes
        self.given_up += 1
