"""When to ask for what is missing and when to repair it, so that few of many do either, and soon.

One rule sets every random timer. Who expects r rivals for the same act, at the distance d, waits

    spread * d * ln(1 + 3 r u)            u drawn from [0, 1)

which is a truncated exponential timer: the chance to fire grows towards its end, so that of r rivals the first fires after
about `spread * d`, about one in `spread` fires before it has heard the first, and nobody waits longer than
`spread * d * ln(1 + 3 r)`. It stands for the uniform timers of 000 3.3 and 3.4, which need windows as wide as r (E25).

Asking. A receiver expects r = shared * (receivers - 1) rivals, where `shared` is a moving average over the requests it hears
of others: did it miss the same? It is near 1 when all lose together and near the loss rate when each loses alone. While most
losses are shared, whoever asked first for the last one asks for the next at once, and the others give it time to.

Repairing. The source answers at once. Of the other holders only a few, drawn by lot, stand in for it after the time in
which its repair should have come; each further try of a request makes them four times as many.
"""

from __future__ import annotations

from math import log1p
from typing import NamedTuple

from unisono.engine import Randomness
from unisono.identity import ProcessId
from unisono.units import MICROSECOND, MILLISECOND, SECOND

RIVAL_WEIGHT = 3
"""Near e: the first of r timers then fires after about one `spread * d`, whatever r is."""

LEARNING = 1 / 32
"""The weight of the last request heard in the average of shared losses."""

STAND_INS = 1
"""How many holders, on average, stand in for the source at the first try of a request."""

STAND_IN_GROWTH = 4
"""How many times as many stand in at each further try."""


class Pace(NamedTuple):
    """The parameters of all timers; durations in nanoseconds."""

    spread: float = 2.5
    """Longer waits and fewer duplicates, or the reverse: the first of many waits about this many one-way distances."""
    least: int = 500 * MICROSECOND
    """The smallest distance reckoned with, and what is allowed for a host that is late."""
    unknown: int = 20 * MILLISECOND
    """The distance where none is known."""
    limit: int = SECOND
    """The longest pause between two requests for the same thing, unless a round trip is longer."""

    def known(self, distance: int | None) -> int:
        return self.unknown if distance is None else max(distance, 0)

    def allow(self, duration: int) -> int:
        """A duration with what estimates that are a sixth too small, and a late host, add to it."""
        return duration + duration // 4 + self.least

    def race(self, distance: int, rivals: float, randomness: Randomness) -> int:
        """The random wait of one among rivals."""
        return int(self.reach(distance) * log1p(RIVAL_WEIGHT * rivals * randomness.random()))

    def longest_race(self, distance: int, rivals: float) -> int:
        return int(self.reach(distance) * log1p(RIVAL_WEIGHT * rivals))

    def reach(self, distance: int) -> float:
        return self.spread * max(distance, self.least)


class Asked(NamedTuple):
    """A request of another receiver, as heard."""

    requester: ProcessId
    distance: int | None
    """From here to the requester."""
    to_source: int | None
    """From the requester to the source, in its own words."""
    tries: int
    """How often it, or another that it heard, had asked before."""


class Wait(NamedTuple):
    """How a ticket goes on once it was asked for."""

    quiet: int
    """Until then a repair may be on its way, and further requests for it are of the same round."""
    due: int
    """When to ask again if nothing came."""


class RequestTiming:
    """When one receiver asks for what it misses of one source. Its whole memory is an average and one asker."""

    __slots__ = ("_asker", "_itself", "_pace", "_round", "shared")

    def __init__(self, itself: ProcessId, pace: Pace = Pace()) -> None:  # noqa: B008 - a tuple, which nobody changes
        self._itself = itself
        self._pace = pace
        self._asker: Asked | None = None
        self._round = (0, -1)
        self.shared = 0.5

    @property
    def asker(self) -> ProcessId | None:
        """Who is expected to ask first, while most losses are shared."""
        return self._asker.requester if self._asker is not None and self.shared > 0.5 else None

    def delay(self, distance: int | None, receivers: int, randomness: Randomness) -> int:
        """How long a new gap waits for its first request; `receivers` are all of the source's, this one included."""
        if self.asker == self._itself:
            return 0
        near = self._pace.known(distance)
        return self._lead(near) + self._pace.race(near, self._rivals(receivers), randomness)

    def longest_delay(self, distance: int | None, receivers: int) -> int:
        """What `delay` never exceeds."""
        near = self._pace.known(distance)
        return self._pace.allow(2 * near) + self._pace.longest_race(near, max(receivers - 1, 0))

    def again(self, distance: int | None, tries: int, receivers: int, randomness: Randomness) -> Wait:
        """How long to wait after an own request, the first with `tries` = 0 (003 5.1, E20)."""
        near = self._pace.known(distance)
        return self._wait(self._pace.allow(2 * near), near, tries, receivers, randomness)

    def backed_off(
        self, distance: int | None, asked: Asked, tries: int, receivers: int, randomness: Randomness
    ) -> Wait:
        """How long to wait after another's request: until the source's repair should have come here, and a race."""
        near = self._pace.known(distance)
        return self._wait(self._pace.allow(self._detour(near, asked)), near, tries, receivers, randomness)

    def on_sent(self, distance: int | None, tries: int, first: int, last: int) -> None:
        """An own request left, for something between two sequences; the first for its gap makes this process the asker."""
        if tries == 0:
            self._asker = Asked(self._itself, 0, distance, 0)
            self._round = first, last

    def on_heard(self, asked: Asked, first: int, last: int, missing: bool) -> None:
        """Another asked for something between two sequences, of which this process misses some, or has all.

        Of two that asked in the same round the one nearer to the source is the asker, so that all agree on one and the
        nearest gets the part. That the repair may have come before the second was heard changes nothing.
        """
        if asked.tries:
            return
        same_round = first <= self._round[1] and last >= self._round[0]
        missing = missing or same_round
        self.shared += LEARNING * (missing - self.shared)
        if missing and not (same_round and self._asker is not None and self._rank(self._asker) < self._rank(asked)):
            self._asker = asked
            self._round = first, last

    def _rivals(self, receivers: int) -> float:
        return self.shared * max(receivers - 1, 0)

    def _rank(self, asked: Asked) -> tuple[int, ProcessId]:
        return self._pace.known(asked.to_source), asked.requester

    def _detour(self, near: int, asked: Asked) -> int:
        """How long after its request a requester's repair comes here, from the source."""
        return max(self._pace.known(asked.to_source) + near - self._pace.known(asked.distance), 0)

    def _lead(self, near: int) -> int:
        """The time for the asker's request to come, no longer than a round trip: a nearer receiver takes over."""
        asker = self._asker
        if asker is None or self.shared <= 0.5:
            return 0
        ahead = self._pace.known(asker.to_source) + self._pace.known(asker.distance) - near
        return self._pace.allow(min(max(ahead, 0), 2 * near))

    def _wait(self, quiet: int, near: int, tries: int, receivers: int, randomness: Randomness) -> Wait:
        """Ever more slowly, however short the way and the draw: nobody may be there to answer."""
        race = self._pace.race(near, max(self._rivals(receivers), 1.0), randomness)
        return Wait(quiet, max(quiet, min((quiet + race) << min(tries, 16), self._pace.limit)))


class RepairTiming:
    """When a holder repairs what it hears a request for. It keeps nothing: what was repaired when is in `Repairs`."""

    __slots__ = ("_pace",)

    def __init__(self, pace: Pace = Pace()) -> None:  # noqa: B008 - a tuple, which nobody changes
        self._pace = pace

    def delay(self, asked: Asked, to_source: int | None, holders: int, randomness: Randomness) -> int | None:
        """How long a holder that is not the source waits before it repairs; None: it leaves that to others.

        The wait begins when the source's repair should have been heard here, whose way is requester, source, here.
        """
        stand_ins = min(STAND_INS * STAND_IN_GROWTH ** min(asked.tries, 16), max(holders, 1))
        if randomness.random() * holders >= stand_ins:
            return None
        back = self._pace.known(asked.distance)
        turn = max(self._pace.known(asked.to_source) + self._pace.known(to_source) - back, 0)
        return self._pace.allow(turn) + self._pace.race(back, stand_ins, randomness)

    def hold_down(self, distance: int | None) -> int:
        """How long after a repair a request from that distance was sent before the repair could be heard there."""
        return self._pace.allow(2 * self._pace.known(distance))
