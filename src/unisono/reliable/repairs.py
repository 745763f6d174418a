"""Repairs that a holder has promised itself to send: at most one for a datagram, none twice in quick succession.

Nobody makes it send without bound: what waits is limited in number and bytes, what leaves is limited to a rate, and
what was repaired a moment ago is not repaired again.
"""

from __future__ import annotations

from enum import Enum
from heapq import heapify, heappop, heappush

from unisono.identity import ProcessId
from unisono.units import MIB, SECOND

Key = tuple[ProcessId, int]
"""A source and the first sequence of one of its datagrams."""

REPAIRS_LIMIT = 1024
"""So many datagrams may wait to be repaired."""
REMEMBERED_FOR = 10 * SECOND
"""Nobody is so far away that what was repaired so long ago is still on its way there."""


class Verdict(Enum):
    """What became of a request for a datagram."""

    SCHEDULED = "repair-scheduled"
    PENDING = "repair-pending"
    HELD_DOWN = "repair-held-down"
    TOO_MANY = "repairs-full"


class Repair:
    """One datagram of a source that is to be sent again."""

    __slots__ = ("due", "first", "last", "size", "source")

    def __init__(self, source: ProcessId, first: int, last: int, size: int, due: int) -> None:
        self.source = source
        self.first = first
        self.last = last
        self.size = size
        self.due = due

    @property
    def key(self) -> Key:
        return self.source, self.first


class Repairs:
    """What one process in one group is about to repair, and what was repaired lately, by whomever."""

    __slots__ = (
        "_bytes",
        "_bytes_limit",
        "_credit",
        "_credit_at",
        "_credit_limit",
        "_due",
        "_lately",
        "_memory_limit",
        "_number_limit",
        "_pending",
        "_rate",
        "high_water",
    )

    def __init__(
        self,
        number_limit: int = REPAIRS_LIMIT,
        bytes_limit: int = 4 * MIB,
        memory_limit: int = 4096,
        rate: int = 16 * MIB,
        burst: int = MIB,
    ) -> None:
        """`rate` is in bytes a second; a datagram larger than `burst` is sent when the credit is full."""
        self._number_limit = number_limit
        self._bytes_limit = bytes_limit
        self._memory_limit = memory_limit
        self._rate = rate
        self._pending: dict[Key, Repair] = {}
        self._bytes = 0
        self._due: list[tuple[int, Key]] = []
        self._lately: dict[Key, int] = {}
        self._credit = self._credit_limit = burst
        self._credit_at = 0
        self.high_water = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        return self._bytes

    def held_down(self, source: ProcessId, first: int, now: int, hold_down: int) -> bool:
        """Whether it was repaired so short a time ago that who asks could not know (`RepairTiming.hold_down`)."""
        repaired = self._lately.get((source, first))
        return repaired is not None and now < repaired + hold_down

    def schedule(
        self, source: ProcessId, first: int, last: int, size: int, now: int, delay: int, hold_down: int
    ) -> Verdict:
        """Somebody asked for a datagram that is here. Of two requests the one that is sooner due counts."""
        if self.held_down(source, first, now, hold_down):
            return Verdict.HELD_DOWN
        key = source, first
        pending = self._pending.get(key)
        if pending is not None:
            if now + delay < pending.due:
                pending.due = now + delay
                self._queue(pending)
            return Verdict.PENDING
        if len(self._pending) == self._number_limit or self._bytes + size > self._bytes_limit:
            return Verdict.TOO_MANY
        self._pending[key] = repair = Repair(source, first, last, size, now + delay)
        self._bytes += size
        self.high_water = max(self.high_water, len(self._pending))
        self._queue(repair)
        return Verdict.SCHEDULED

    def heard(self, source: ProcessId, first: int, now: int) -> bool:
        """Another repaired this datagram; True when that spares this process the work."""
        self._remember((source, first), now)
        return self._drop((source, first))

    def forget(self, source: ProcessId, upto: int | None = None) -> None:
        """What is no longer held: all of a source, or its datagrams that begin no later than `upto`."""
        for key in [key for key in self._pending if key[0] == source and (upto is None or key[1] <= upto)]:
            self._drop(key)

    def next_due(self) -> int | None:
        """When `take` next has something to send."""
        soonest = self._soonest()
        return None if soonest is None else max(soonest.due, self._affordable_at(soonest.size))

    def take(self, now: int, most: int = 1 << 32) -> list[Repair]:
        """The repairs to send now, as far as the rate admits; each counts as sent."""
        taken: list[Repair] = []
        while len(taken) < most and (soonest := self._soonest()) is not None and soonest.due <= now:
            if self._affordable_at(soonest.size) > now:
                break
            self._credit = self._credit_by(now) - soonest.size
            self._credit_at = now
            self._drop(soonest.key)
            self._remember(soonest.key, now)
            taken.append(soonest)
        return taken

    def _soonest(self) -> Repair | None:
        while self._due:
            due, key = self._due[0]
            repair = self._pending.get(key)
            if repair is not None and repair.due == due:
                return repair
            heappop(self._due)
        return None

    def _drop(self, key: Key) -> bool:
        repair = self._pending.pop(key, None)
        if repair is None:
            return False
        self._bytes -= repair.size
        return True

    def _queue(self, repair: Repair) -> None:
        """Entries of repairs that were dropped or moved stay in the heap until they come up or are too many."""
        heappush(self._due, (repair.due, repair.key))
        if len(self._due) > 4 * self._number_limit:
            self._due = [(pending.due, pending.key) for pending in self._pending.values()]
            heapify(self._due)

    def _remember(self, key: Key, now: int) -> None:
        self._lately.pop(key, None)
        self._lately[key] = now
        oldest = next(iter(self._lately))
        while len(self._lately) > self._memory_limit or now - self._lately[oldest] > REMEMBERED_FOR:
            del self._lately[oldest]
            oldest = next(iter(self._lately))

    def _credit_by(self, now: int) -> int:
        gained = max(now - self._credit_at, 0) * self._rate // SECOND
        return min(self._credit + gained, self._credit_limit)

    def _affordable_at(self, size: int) -> int:
        """When the credit suffices; what exceeds the burst is paid for afterwards."""
        lacking = min(size, self._credit_limit) - self._credit
        return self._credit_at - (-lacking * SECOND // self._rate) if lacking > 0 else self._credit_at
