"""Windows over sequence numbers: what was sent and may be asked for, what came and waits for its turn."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto

from unisono.wire.layout import DATAGRAM_LIMIT_BYTES
from unisono.wire.messages import DataMessage, Range

MESSAGE_OVERHEAD_BYTES = 64
"""What a kept message counts for beside its payload, so that empty messages are bounded too."""


class SendWindow:
    """The datagrams that were sent and are not stable yet, at most `limit` bytes of them.

    Some may be kept although they are stable; of these only the limit counts.
    """

    __slots__ = ("_datagrams", "_spare", "bytes", "high_water", "limit", "outstanding")

    def __init__(self, limit: int) -> None:
        self._datagrams: deque[tuple[int, int, bytes]] = deque()
        self._spare = 0
        """So many of the oldest are stable."""
        self.limit = limit
        self.bytes = 0
        self.outstanding = 0
        """Of the bytes, those that are not stable."""
        self.high_water = 0

    def has_room(self, size: int, allowed: int) -> bool:
        """Whether another datagram may be sent, with no more than `allowed` bytes outstanding."""
        if not self._datagrams:
            return True
        return self.outstanding + size <= allowed and self.bytes + size <= self.limit

    def retain(self, first: int, last: int, datagram: bytes) -> None:
        """Keep a datagram that carries these sequences for repair, as it was sent."""
        self._datagrams.append((first, last, datagram))
        self.bytes += len(datagram)
        self.outstanding += len(datagram)
        if self.bytes > self.high_water:
            self.high_water = self.bytes

    def release(self, stable: int) -> int | None:
        """Drop what is stable as a whole; the last sequence dropped, if any."""
        released = None
        while self._datagrams and self._datagrams[0][1] <= stable:
            _, released, datagram = self._datagrams.popleft()
            self.bytes -= len(datagram)
            if self._spare:
                self._spare -= 1
            else:
                self.outstanding -= len(datagram)
        return released

    def spare(self, stable: int) -> None:
        """Keep what is stable, for who may yet come."""
        while self._spare < len(self._datagrams) and self._datagrams[self._spare][1] <= stable:
            self.outstanding -= len(self._datagrams[self._spare][2])
            self._spare += 1

    @property
    def first(self) -> int | None:
        """The lowest sequence still held."""
        return self._datagrams[0][0] if self._datagrams else None

    def find(self, ranges: list[Range] | tuple[Range, ...], most_bytes: int) -> list[tuple[int, int, bytes]]:
        """The datagrams that carry any of these sequences, each once, in order, until `most_bytes` are found."""
        found: list[tuple[int, int, bytes]] = []
        size = 0
        last_sent = 0
        for first, last in sorted(ranges):
            at = max(bisect_right(self._datagrams, first, key=lambda held: held[0]) - 1, 0)
            while at < len(self._datagrams) and self._datagrams[at][0] <= last:
                held = self._datagrams[at]
                at += 1
                if held[1] < first or held[1] <= last_sent:
                    continue
                if size and size + len(held[2]) > most_bytes:
                    return found
                found.append(held)
                last_sent = held[1]
                size += len(held[2])
        return found


class Offer(Enum):
    """What became of a message offered to a receive window."""

    TAKEN = auto()
    DUPLICATE = auto()
    FULL = auto()


class ReceiveWindow:
    """Messages of one source that came and are not delivered yet, at most `limit` bytes of them.

    `next` is delivered next; everything up to `contiguous` has come; `highest` is known to exist. What is in order
    waits to be taken; what came early waits for what is missing. A reserve lets the next message in when early ones
    fill the rest, and the latest of them make room for what is needed sooner, so that a full window always drains.
    """

    __slots__ = (
        "_early",
        "_early_order",
        "_ready",
        "bytes",
        "contiguous",
        "given_up",
        "high_water",
        "highest",
        "limit",
        "next",
        "ready_bytes",
    )

    def __init__(self, start: int, limit: int) -> None:
        self._ready: deque[DataMessage] = deque()
        self._early: dict[int, DataMessage] = {}
        self._early_order: list[int] = []
        self.limit = limit
        self.bytes = 0
        self.ready_bytes = 0
        self.high_water = 0
        self.given_up: list[int] = []
        self.next = start
        self.contiguous = start - 1
        self.highest = start - 1

    @property
    def ready(self) -> Iterable[DataMessage]:
        """What is in order and waits to be taken."""
        return self._ready

    def announce(self, sequence: int) -> Range | None:
        """The source has sent up to `sequence`: the part of it that was not known to exist."""
        if sequence <= self.highest:
            return None
        unknown = (self.highest + 1, sequence)
        self.highest = sequence
        return unknown

    def pass_through(self, first: int, last: int) -> bool:
        """Let a run through that is next while nothing waits and nothing is missing; False if it is not so."""
        if first != self.next or self._ready or self.highest != first - 1:
            return False
        self.next = last + 1
        self.contiguous = self.highest = last
        return True

    def append(self, run: Sequence[DataMessage]) -> bool:
        """Keep a run that is next while nothing is missing and there is room for all; False if it is not so."""
        first, last = run[0].sequence, run[-1].sequence
        if first != self.contiguous + 1 or self.highest != self.contiguous:
            return False
        size = 0
        for message in run:
            size += len(message.payload) + MESSAGE_OVERHEAD_BYTES
        if self.bytes + size > self.limit - DATAGRAM_LIMIT_BYTES:
            return False
        self._ready.extend(run)
        self.contiguous = self.highest = last
        self.ready_bytes += size
        self.bytes += size
        if self.bytes > self.high_water:
            self.high_water = self.bytes
        return True

    def offer(self, message: DataMessage) -> Offer:
        """Keep a message for its turn."""
        sequence = message.sequence
        if sequence <= self.contiguous or sequence in self._early:
            return Offer.DUPLICATE
        size = _weight(message)
        room = self.limit - size - (0 if sequence == self.next else DATAGRAM_LIMIT_BYTES)
        if self.bytes > room and not self._make_room(room, sequence):
            return Offer.FULL
        self.bytes += size
        if self.bytes > self.high_water:
            self.high_water = self.bytes
        if sequence == self.contiguous + 1:
            self._append(message)
            self._move_up()
        else:
            self._early[sequence] = message
            insort(self._early_order, sequence)
        return Offer.TAKEN

    def missing(self, after: int = 0, upto: int = 1 << 63) -> Iterable[Range]:
        """What is known to exist and has not come, in order: of all of it, or after one sequence and up to another."""
        first, last, order = max(self.contiguous, after) + 1, min(self.highest, upto), self._early_order
        for at in range(bisect_left(order, first), bisect_right(order, last)):
            if first < order[at]:
                yield first, order[at] - 1
            first = order[at] + 1
        if first <= last:
            yield first, last

    @property
    def room(self) -> int:
        """What may come before its turn: whatever came even earlier makes room for it."""
        return max(0, self.limit - DATAGRAM_LIMIT_BYTES - self.ready_bytes)

    @property
    def waiting(self) -> bool:
        """The next message has come and is not taken."""
        return bool(self._ready)

    @property
    def head(self) -> DataMessage | None:
        """The next message in order, if it has come; it stays."""
        return self._ready[0] if self._ready else None

    def take(self) -> DataMessage | None:
        """The next message in order, if it has come."""
        if not self._ready:
            return None
        message = self._ready.popleft()
        size = _weight(message)
        self.next += 1
        self.bytes -= size
        self.ready_bytes -= size
        return message

    def skip_to(self, sequence: int) -> None:
        """Nothing below `sequence` is wanted any more: drop what waits of it."""
        while self._ready and self.next < sequence:
            self.take()
        if self.next >= sequence:
            return
        for early in self._early_order[: bisect_left(self._early_order, sequence)]:
            self.bytes -= _weight(self._early.pop(early))
        del self._early_order[: bisect_left(self._early_order, sequence)]
        self.next = sequence
        self.contiguous = sequence - 1
        self.highest = max(self.highest, self.contiguous)
        self._move_up()

    def _append(self, message: DataMessage) -> None:
        self._ready.append(message)
        self.ready_bytes += _weight(message)
        self.contiguous += 1

    def _move_up(self) -> None:
        """What came early and is no longer early."""
        order, count = self._early_order, 0
        while count < len(order) and order[count] == self.contiguous + 1:
            self._append(self._early.pop(order[count]))
            count += 1
        del order[:count]

    def _make_room(self, room: int, sequence: int) -> bool:
        """Give up what comes later than `sequence`, the latest first, down to `room`; or nothing at all."""
        order, left = self._early_order, self.bytes
        keep = len(order)
        while left > room and keep and order[keep - 1] > sequence:
            keep -= 1
            left -= _weight(self._early[order[keep]])
        if left > room:
            return False
        self.given_up += reversed(order[keep:])
        for latest in order[keep:]:
            del self._early[latest]
        del order[keep:]
        self.bytes = left
        return True


def _weight(message: DataMessage) -> int:
    """What a kept message counts for."""
    return len(message.payload) + MESSAGE_OVERHEAD_BYTES
