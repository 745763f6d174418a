"""Messages larger than a datagram: put together again whole, or not at all.

Fragments of a message have consecutive sequence numbers, and the message is named by its last one.
"""

from __future__ import annotations

from msgspec.structs import replace

from unisono.identity import ProcessId
from unisono.wire.messages import DataMessage


class TooLarge(Exception):
    """A message outgrows what this receiver puts together; caught by the engine that feeds the fragments."""


class OrderedAssembly:
    """Puts together the fragments of one source that come in order and without gaps."""

    __slots__ = ("_limit", "_parts", "bytes", "high_water")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.bytes = 0
        self.high_water = 0

    def add(self, fragment: DataMessage) -> bytes | None:
        """The whole payload once the last fragment is in; raises TooLarge."""
        if fragment.index != len(self._parts):
            self._clear()
            return None
        if self.bytes + len(fragment.payload) > self._limit:
            self._clear()
            raise TooLarge
        self._parts.append(fragment.payload)
        self.bytes += len(fragment.payload)
        self.high_water = max(self.high_water, self.bytes)
        if len(self._parts) < fragment.count:
            return None
        whole = b"".join(self._parts)
        self._clear()
        return whole

    def _clear(self) -> None:
        self._parts.clear()
        self.bytes = 0


class ScatteredAssembly:
    """Puts together fragments that come in any order, or never; the oldest unfinished message makes room."""

    __slots__ = ("_limit", "_unfinished", "bytes", "given_up", "high_water")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unfinished: dict[tuple[ProcessId, int], dict[int, DataMessage]] = {}
        self.bytes = 0
        self.high_water = 0
        self.given_up = 0

    def add(self, source: ProcessId, fragment: DataMessage) -> DataMessage | None:
        """The whole message, under its last fragment's sequence and timestamp, once every fragment is in."""
        key = (source, fragment.sequence - fragment.index)
        parts = self._unfinished.setdefault(key, {})
        if fragment.index in parts:
            return None
        parts[fragment.index] = fragment
        self.bytes += len(fragment.payload)
        while self.bytes > self._limit:
            self._give_up(next(iter(self._unfinished)))
        self.high_water = max(self.high_water, self.bytes)
        if key not in self._unfinished or len(parts) < fragment.count:
            return None
        del self._unfinished[key]
        self.bytes -= _size(parts)
        whole = b"".join(parts[index].payload for index in range(fragment.count))
        return replace(parts[fragment.count - 1], payload=whole)

    def forget(self, source: ProcessId) -> None:
        """A source is gone: so are its unfinished messages."""
        for key in [key for key in self._unfinished if key[0] == source]:
            self._give_up(key)

    def _give_up(self, key: tuple[ProcessId, int]) -> None:
        self.bytes -= _size(self._unfinished.pop(key))
        self.given_up += 1


def _size(parts: dict[int, DataMessage]) -> int:
    return sum(len(part.payload) for part in parts.values())
