"""How much a source may send: a window that opens as receivers keep up, a rate that falls when the line is full.

The window of what is not stable begins small and doubles with every window that became stable, up to its limit
(000 4.5.3). Nothing is held to a rate until a receiver misses three tenths of what is sent: hardly a line loses so
much unless it is full. Then the window halves and the rate shrinks, interval by interval, as long as more is missed;
when half as much is lost, the rate grows by a twentieth at a time. Repairs count like anything else that is sent. A
receiver that slept asks for a whole window at once: that counts once, against the rate at which it was sent.

What one receiver misses is reckoned from what any of them asks for, as if each missed it by itself.
"""

from __future__ import annotations

from unisono.units import KIB, MILLISECOND, SECOND

FIRST_WINDOW = 64 * KIB
LEAST_WINDOW = 16 * KIB

INTERVAL = 200 * MILLISECOND
LEAST_SENT = 20
"""Sequences that must be sent before anything is concluded."""
TOO_MUCH = 0.3
"""What one receiver may miss of what is sent."""
SHRINK, GROWTH = 0.7, 1.05
FLOOR = 32 * KIB
"""Bytes a second that are always allowed."""
BURST = 20 * MILLISECOND
"""What may be sent at once after a rest, as a share of the rate."""


class Pacing:
    """The window and the rate of one source in one group; the rate is None while nothing holds it back."""

    __slots__ = (
        "_bytes",
        "_counted",
        "_credit",
        "_credit_at",
        "_datagram",
        "_ends",
        "_limit",
        "_missed",
        "_sent",
        "_threshold",
        "_used",
        "rate",
        "receivers",
        "window",
    )

    def __init__(self, window_limit: int, datagram_bytes: int) -> None:
        self._limit = self._threshold = window_limit
        self._datagram = datagram_bytes
        self.window = min(window_limit, max(FIRST_WINDOW, 4 * datagram_bytes))
        self.rate: int | None = None
        self.receivers = 1
        self._bytes = 0
        self._used = 0
        """Bytes a second that were sent lately, where most were; half as much counts after each interval."""
        self._sent = 0.0
        self._missed = 0.0
        self._counted = 0
        self._ends = 0
        self._credit = 0
        self._credit_at = 0

    def on_sent(self, now: int, sequences: int, size: int) -> None:
        """A datagram left: new sequences, or none in a repair."""
        self._conclude(now)
        self._sent += sequences
        self._bytes += size
        if self.rate is not None:
            self._credit = self._credit_by(now) - size
            self._credit_at = now

    def on_stable(self, size: int) -> None:
        """So much that was sent is with everybody: the window opens, fast at first and then by a datagram at a time."""
        if self.window < self._threshold:
            self.window = min(self.window + size, self._threshold)
        else:
            self.window = min(self.window + max(1, size * self._datagram // self.window), self._limit)

    def on_missed(self, now: int, first: int, last: int) -> None:
        """Somebody asks for these sequences; what was asked for before is not counted again."""
        first = max(first, self._counted + 1)
        if first <= last:
            self._missed += last - first + 1
            self._counted = last
        self._conclude(now)

    def wait_until(self, now: int) -> int:
        """When the next datagram may leave: now, or later."""
        if self.rate is None:
            return now
        credit = self._credit_by(now)
        return now if credit >= 0 else now - credit * SECOND // self.rate + 1

    def _credit_by(self, now: int) -> int:
        assert self.rate is not None, "credit is for a rate"
        gained = (now - self._credit_at) * self.rate // SECOND
        return min(self._credit + gained, self.rate * BURST // SECOND)

    def _conclude(self, now: int) -> None:
        """At the end of an interval, let the rate follow what was missed; older intervals count half."""
        if now < self._ends:
            return
        used = self._bytes * SECOND // INTERVAL
        self._used = max(used, self._used // 2)
        missed = self._missed_by_one()
        if missed > TOO_MUCH:
            self.rate = max(FLOOR, int(SHRINK * (self._used if self.rate is None else min(self.rate, self._used))))
            self.window = self._threshold = max(LEAST_WINDOW, 2 * self._datagram, self.window // 2)
            self._credit, self._credit_at = 0, now
            self._missed = self._sent = 0.0
        elif self.rate is not None and missed < TOO_MUCH / 2 and used * 2 > self.rate:
            self.rate = int(self.rate * GROWTH)
        self._bytes = 0
        self._missed /= 2
        self._sent /= 2
        self._ends = now + INTERVAL

    def _missed_by_one(self) -> float:
        """The share that a receiver misses, if each misses what it misses by itself."""
        if self._sent < LEAST_SENT:
            return 0.0
        asked: float = min(self._missed / self._sent, 1.0)
        return 1.0 - float((1.0 - asked) ** (1 / max(self.receivers, 1)))
