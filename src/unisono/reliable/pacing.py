"""How much a source may send: a window that opens as receivers keep up, a rate that follows what is lost (000 4.5.3).

The window of what is not stable begins small and doubles with every window that became stable, up to its limit.
Nothing is held to a rate until receivers miss more than a tenth of what is sent. Then the window halves, and the rate
shrinks by half of the share that is lost beyond the usual, rests while little is lost, and grows by a twentieth at a
time while next to nothing is. Repairs count like anything else that is sent. A share that does not fall with the rate
is the network's own and becomes the usual: a line that loses packets at random is not a line that is full.
"""

from __future__ import annotations

from unisono.units import KIB, MILLISECOND, SECOND

FIRST_WINDOW = 64 * KIB
LEAST_WINDOW = 16 * KIB

INTERVAL = 200 * MILLISECOND
LEAST_SENT = 20
"""Sequences in an interval below which nothing is concluded."""
MUCH, LITTLE = 0.10, 0.02
GROWTH = 1.05
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
        "_lost",
        "_sent",
        "_share",
        "_threshold",
        "rate",
        "usual",
        "window",
    )

    def __init__(self, window_limit: int, datagram_bytes: int) -> None:
        self._limit = self._threshold = window_limit
        self._datagram = datagram_bytes
        self.window = min(window_limit, max(FIRST_WINDOW, 4 * datagram_bytes))
        self.rate: int | None = None
        self.usual = 0.0
        self._share = 0.0
        self._sent = 0
        self._bytes = 0
        self._lost = 0
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

    def on_lost(self, now: int, first: int, last: int) -> None:
        """Somebody misses these sequences; what was counted before is not counted again."""
        if first <= last and last > self._counted:
            self._lost += last - max(first, self._counted + 1) + 1
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
        """At the end of an interval, let the rate follow what was lost in it."""
        if now < self._ends:
            return
        if self._sent >= LEAST_SENT:
            share = min(self._lost / self._sent, 1.0)
            self._follow(now, share)
            self._share = share
        self._sent = self._bytes = self._lost = 0
        self._ends = now + INTERVAL

    def _follow(self, now: int, share: float) -> None:
        excess = share - self.usual
        if excess > MUCH:
            if self.rate is not None and share > 0.8 * self._share:
                self.usual += 0.25 * excess
            used = self._bytes * SECOND // INTERVAL
            before = used if self.rate is None else min(self.rate, max(used, FLOOR))
            self.rate = max(FLOOR, int(before * (1 - excess / 2)))
            self._credit, self._credit_at = 0, now
            self.window = self._threshold = max(LEAST_WINDOW, 2 * self._datagram, self.window // 2)
        elif self.rate is not None and excess < LITTLE:
            self.usual = min(self.usual, share + LITTLE)
            if self._bytes * SECOND // INTERVAL * 2 > self.rate:
                self.rate = int(self.rate * GROWTH)
