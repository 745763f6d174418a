"""When to ask for what is missing and when to repair it, so that few of many do either, and soon.

One rule sets every random timer. Who expects r rivals for the same act, at the distance d, waits

    spread * d * ln(1 + 3 r u)            u drawn from [0, 1)

which is a truncated exponential timer: the chance to fire grows towards its end, so that of r rivals the first fires
after a few distances however many they are, few fire before they have heard it, and nobody waits longer than
`spread * d * ln(1 + 3 r)`, nor than `limit`. It stands for the uniform timers of 000 3.3 and 3.4, whose windows would
have to be as wide as r (E25).

Asking. A receiver expects r = shared * (receivers - 1) rivals, where `shared` is a moving average over what it hears
others ask for: did it miss the same? It is near 1 when all lose together and near the loss rate when each loses alone.
While most losses are shared, whoever asked first for the last one asks for the next at once, and the others give it
time to.

Repairing. The source answers at once. Of the other holders only a few, drawn by lot, stand in for it after the time in
which its repair should have come; each further try of a request makes them four times as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import log1p
from typing import NamedTuple

from unisono.engine import Randomness
from unisono.identity import ProcessId
from unisono.units import MICROSECOND, MILLISECOND, SECOND

Range = tuple[int, int]
"""The first and the last of some sequences."""

RIVAL_WEIGHT = 3
"""Near e: with many rivals the first then fires after about one `spread * d`."""

LEARNING = 1 / 32
"""The weight of the last range asked for in the average of shared losses, once there were as many."""

ROUND_LIMIT = 256
"""How many ranges are remembered that were asked for lately, by their first sequence."""

STAND_INS = 1
"""How many holders, on average, stand in for the source at the first try of a request."""

STAND_IN_GROWTH = 4
"""How many times as many stand in at each further try."""


class Pace(NamedTuple):
    """The parameters of all timers; durations in nanoseconds."""

    spread: float = 6.0
    """Longer waits and fewer duplicates, or the reverse."""
    least: int = 250 * MICROSECOND
    """The smallest distance reckoned with, and what is allowed for a host that is late."""
    unknown: int = 20 * MILLISECOND
    """The distance where none is known."""
    limit: int = SECOND
    """How far the waits between requests for the same thing grow, beyond the time that a repair takes."""

    def known(self, distance: int | None) -> int:
        return self.unknown if distance is None else max(distance, 0)

    def allow(self, duration: int) -> int:
        """A duration with what estimates that are a fifth too small, and a late host, add to it."""
        return duration + duration // 4 + self.least

    def race(self, distance: int, rivals: float, chance: float) -> int:
        """The wait of one among rivals, for a chance drawn from [0, 1).

        Far away the whole race is compressed into `limit`, at the price of more duplicates: of 16 rivals at 150 ms the
        first acts after 0.29 s and not 0.98 s on average, and 2.1 act and not 1.2.
        """
        scale = self.spread * max(distance, self.least)
        longest = scale * log1p(RIVAL_WEIGHT * rivals)
        if longest > self.limit:
            scale *= self.limit / longest
        return int(scale * log1p(RIVAL_WEIGHT * rivals * chance))


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
    """How a ticket goes on once it was asked for: two durations from now."""

    quiet: int
    """Until then its repair may be on its way, and further requests for it are of the same round."""
    due: int
    """When to ask again if nothing came."""


class _Round(Enum):
    """What is known of a range that was asked for lately."""

    HELD = 0
    MISSED = 1
    ASKED_HERE = 2


class RequestTiming:
    """When one receiver asks for what it misses of one source."""

    __slots__ = ("_answer", "_asker", "_evidence", "_itself", "_pace", "_rounds", "shared")

    def __init__(self, itself: ProcessId, pace: Pace = Pace()) -> None:  # noqa: B008 - a tuple, which nobody changes
        self._itself = itself
        self._pace = pace
        self._asker: Asked | None = None
        self._rounds: dict[int, _Round] = {}
        self._answer = 0
        self._evidence = 0
        self.shared = 0.5

    @property
    def asker(self) -> ProcessId | None:
        """Who is expected to ask first; nobody while most losses are not shared."""
        return self._asker.requester if self._asker is not None and self.shared > 0.5 else None

    def delay(self, distance: int | None, receivers: int, randomness: Randomness) -> int:
        """How long a new gap waits for its first request; `receivers` are all of the source's, this one included."""
        if self.asker == self._itself:
            return 0
        near = self._pace.known(distance)
        return self._lead(near) + self._pace.race(near, self._rivals(receivers), randomness.random())

    def longest_delay(self, distance: int | None, receivers: int) -> int:
        """What `delay` never exceeds, whatever was heard."""
        near = self._pace.known(distance)
        return self._pace.allow(2 * near) + self._pace.race(near, max(receivers - 1, 0), 1.0)

    def again(self, distance: int | None, tries: int, receivers: int, randomness: Randomness) -> Wait:
        """How long to wait after an own request, the first with `tries` = 0 (003 5.1, E20)."""
        near = self._pace.known(distance)
        return self._wait(max(2 * near, self._answer), near, tries, receivers, randomness)

    def on_answered(self, elapsed: int) -> None:
        """An own request was answered after this long: queues and slow hosts make that longer than the way."""
        self._answer += (min(elapsed, self._pace.limit) - self._answer) // 4

    def backed_off(
        self, distance: int | None, asked: Asked, tries: int, receivers: int, randomness: Randomness
    ) -> Wait:
        """How long to wait after another's request: until the source's repair should have come here, and a race."""
        near = self._pace.known(distance)
        detour = self._pace.known(asked.to_source) + near - self._pace.known(asked.distance)
        return self._wait(min(max(detour, 0), 4 * near), near, tries, receivers, randomness)

    def on_sent(self, distance: int | None, tries: int, ranges: Sequence[Range]) -> None:
        """An own request left for these ranges; the first for its gap makes this process the asker."""
        if tries == 0:
            self._asker = Asked(self._itself, 0, distance, 0)
            for first, _ in ranges:
                self._remember(first, _Round.ASKED_HERE)

    def on_heard(self, asked: Asked, ranges: Sequence[Range], missing: Sequence[bool]) -> None:
        """Another asked for these ranges; `missing` says of each whether something of it is missing here.

        One request for a range is evidence of what is shared, and no more than one. Of two that asked for the same the
        one nearer to the source is the asker, so that all agree and the nearest gets the part; that the repair may have
        come before the second was heard changes nothing.
        """
        if asked.tries:
            return
        duplicate = False
        for (first, _), missed in zip(ranges, missing, strict=True):
            before = self._rounds.get(first)
            if before is None:
                self._learn(first, missed)
                if missed:
                    self._asker = asked
            elif before is not _Round.HELD:
                duplicate = True
                if before is _Round.ASKED_HERE:
                    self._learn(first, True)
        if duplicate and (self._asker is None or self._rank(asked) < self._rank(self._asker)):
            self._asker = asked

    def _learn(self, first: int, missed: bool) -> None:
        self._evidence += 1
        self.shared += max(LEARNING, 1 / (self._evidence + 2)) * (missed - self.shared)
        self._remember(first, _Round.MISSED if missed else _Round.HELD)

    def _remember(self, first: int, known: _Round) -> None:
        self._rounds[first] = known
        if len(self._rounds) > ROUND_LIMIT:
            del self._rounds[next(iter(self._rounds))]

    def _rivals(self, receivers: int) -> float:
        return self.shared * max(receivers - 1, 0)

    def _rank(self, asked: Asked) -> tuple[int, ProcessId]:
        return self._pace.known(asked.to_source), asked.requester

    def _lead(self, near: int) -> int:
        """The time for the asker's request to come, no longer than a round trip: a nearer receiver takes over."""
        asker = self._asker
        if asker is None or self.shared <= 0.5:
            return 0
        ahead = self._pace.known(asker.to_source) + self._pace.known(asker.distance) - near
        return self._pace.allow(min(max(ahead, 0), 2 * near))

    def _wait(self, answer: int, near: int, tries: int, receivers: int, randomness: Randomness) -> Wait:
        """The time for an answer, then a race that doubles with every try; half as wide, as most have their repair.

        However short the way and the draw, the waits grow with every try: nobody may be there to answer.
        """
        quiet = self._pace.allow(answer)
        race = self._pace.race(near, max(self._rivals(receivers), 1.0), randomness.random())
        due = quiet + min(race << min(tries, 16) >> 1, self._pace.limit)
        return Wait(quiet, max(due, min(quiet << min(tries, 16), self._pace.limit)))


class RepairTiming:
    """When a holder repairs what it hears a request for. It keeps nothing: what was repaired when is in `Repairs`."""

    __slots__ = ("_pace",)

    def __init__(self, pace: Pace = Pace()) -> None:  # noqa: B008 - a tuple, which nobody changes
        self._pace = pace

    def delay(
        self, asked: Asked, to_source: int | None, holders: int, randomness: Randomness, source_gone: bool = False
    ) -> int | None:
        """How long a holder that is not the source waits before it repairs; None: it leaves that to others.

        The wait begins when the source's repair should have been heard here, whose way is requester, source, here; at
        once where the source is known to be gone.
        """
        tries = asked.tries + source_gone
        stand_ins = min(STAND_INS * STAND_IN_GROWTH ** min(tries, 16), max(holders, 1))
        if randomness.random() * holders >= stand_ins:
            return None
        back = self._pace.known(asked.distance)
        race = self._pace.race(back, stand_ins, randomness.random())
        if source_gone:
            return race
        turn = self._pace.known(asked.to_source) + self._pace.known(to_source) - back
        return self._pace.allow(min(max(turn, 0), self._pace.limit)) + race

    def hold_down(self, distance: int | None) -> int:
        """How long after a repair a request from that distance may have been sent before the repair was heard there."""
        return self._pace.allow(2 * self._pace.known(distance))
