"""What drawing a fault needs, whatever its kind: when it begins, how long it lasts, whom it hits, who is free for it.

Every drawn fault begins in the first 70 % of the safety phase and ends within it. Members that crash for
good are always a minority, and one server and one controller stay; what is drawn for one's life does not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random

from unisono.simulation.cast import Cast, cast_of, kind_of
from unisono.simulation.scenario import Scenario
from unisono.units import MILLISECOND, SECOND

_LAST_BEGIN = 0.7
"""The part of the safety phase in which drawn faults begin."""


def readable(amount: float) -> int:
    """The amount with its first three digits, never above it."""
    whole = int(amount)
    unit: int = 10 ** max(0, len(str(whole)) - 3)
    return whole // unit * unit


def spread(random: Random, low: float, high: float) -> float:
    """A number between, each order of magnitude as likely as another."""
    return exp(random.uniform(log(low), log(high)))


class Lives:
    """When each is already taken away by a fault of its life, and how many of each kind may still go for good."""

    def __init__(self, scenario: Scenario) -> None:
        cast = cast_of(scenario)
        self._taken: dict[int, list[tuple[int, int]]] = {who: [] for who in cast.everybody()}
        gone: set[int] = set()
        for fault in scenario.faults:
            if fault.kind == "crash":
                begin = fault.at or 0
                gone.update(fault.members if fault.restart is None else ())
                end = scenario.duration if fault.restart is None else begin + fault.restart
                self.take(fault.members, begin, end)
        most = {"member": (cast.members - 1) // 2, "server": cast.servers - 1, "controller": cast.controllers - 1}
        for who in gone:
            most[kind_of(who)] -= 1
        self._spare = most

    def let_go(self, who: int) -> bool:
        """Whether one may go for good; counts it."""
        kind = kind_of(who)
        if self._spare[kind] < 1:
            return False
        self._spare[kind] -= 1
        return True

    def free(self, begin: int, end: int) -> list[int]:
        return [who for who, spans in self._taken.items() if all(end < first or last < begin for first, last in spans)]

    def take(self, members: Sequence[int], begin: int, end: int) -> None:
        for member in members:
            self._taken[member].append((begin, end))


class Drawer:
    """One fault, or a few that belong together: when, how long, at whom."""

    def __init__(self, random: Random, cast: Cast, duration: int, lives: Lives) -> None:
        self._random = random
        self._cast = cast
        self._members = cast.members
        self._everybody = cast.everybody()
        self._duration = duration
        self._lives = lives
        self._at = readable(random.uniform(0.01, _LAST_BEGIN) * duration)
        self._rest = duration - self._at

    def _lasts(self, low: int = 100 * MILLISECOND, high: int = 12 * SECOND) -> int:
        """A readable span that ends with the safety phase at the latest."""
        longest = max(1, min(high, self._rest))
        return max(1, readable(spread(self._random, min(low, longest), longest)))

    def _later(self, wait: int, since: int | None = None) -> int:
        """The moment that long after the begin or another, in whole milliseconds where that is still later."""
        since = self._at if since is None else since
        moment = (since + wait) // MILLISECOND * MILLISECOND
        return moment if moment > since else since + wait

    def _within(self, wait: int, since: int) -> int:
        """As `_later`, and the end of the safety phase at the latest."""
        return min(self._later(wait, since), self._duration)

    def _span(self, low: int, high: int) -> int:
        return readable(spread(self._random, low, high))

    def _rate(self, most: float) -> float:
        return float(f"{self._random.uniform(most / 100, most):.2g}")

    def _some(self, most: int, members: bool = False) -> tuple[int, ...]:
        """So many at the most, of everybody or of the members alone."""
        chosen = self._everybody[: self._members] if members else self._everybody
        count = self._random.randint(1, min(most, len(chosen)))
        return tuple(sorted(self._random.sample(chosen, count)))
