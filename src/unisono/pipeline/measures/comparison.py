"""Runs held against each other, measure by measure: the mean of each side, their ratio, and how sure it is.

Where a side has several runs, they are drawn again and again with replacement (a bootstrap with a fixed seed), and the
interval is where 95 of 100 of the ratios lie. Nothing here needs Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from msgspec import Struct

from unisono.pipeline.measures.catalogue import MEASURES, Better
from unisono.pipeline.measures.value import Value, place

RESAMPLES = 1000
CONFIDENCE = 0.95


class Side(Struct, frozen=True):
    """What one side has: how many runs have the value, and its mean, lowest and highest over them."""

    runs: int
    mean: float | None
    least: float | None
    most: float | None


class Ratio(Struct, frozen=True):
    """A side by the first one; an interval only where some side has several runs."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def clear(self) -> bool:
        """Whether the interval says that there is a difference."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


class Compared(Struct, frozen=True):
    """One value on all sides; `ratios` has one for each side, null for the first and where there is none."""

    group: str
    measure: str
    key: str
    unit: str
    better: Better
    sides: list[Side]
    ratios: list[Ratio | None]


def compare(sides: Sequence[Iterable[Value]]) -> list[Compared]:
    """Every value that some side has, in the order of the catalogue; the first side is what the others are held to."""
    found: dict[tuple[str, str, str], list[list[float]]] = defaultdict(lambda: [[] for _ in sides])
    for index, values in enumerate(sides):
        for value in values:
            found[value.group, value.measure, value.key][index].append(value.value)
    ordered = sorted(found, key=lambda name: place("", *name))
    return [_compared(*name, found[name]) for name in ordered]


def _compared(group: str, measure: str, key: str, values: list[list[float]]) -> Compared:
    base, *others = values
    described = MEASURES[measure]
    unit = "" if key == "count" else described.unit
    return Compared(
        group,
        measure,
        key,
        unit,
        described.better,
        [_side(one) for one in values],
        [None, *(ratio(base, other) for other in others)],
    )


def _side(values: Sequence[float]) -> Side:
    if not values:
        return Side(0, None, None, None)
    return Side(len(values), _mean(values), min(values), max(values))


def ratio(base: Sequence[float], other: Sequence[float], seed: int = 0) -> Ratio | None:
    """The ratio of the means with its interval; None where one side has no value, or the base is zero."""
    if not base or not other or not _mean(base):
        return None
    value = _mean(other) / _mean(base)
    if len(base) == 1 and len(other) == 1:
        return Ratio(value, None, None)
    random = Random(seed)
    drawn = []
    for _ in range(RESAMPLES):
        below = _mean(random.choices(base, k=len(base)))
        above = _mean(random.choices(other, k=len(other)))
        if below:
            drawn.append(above / below)
    drawn.sort()
    if not drawn:
        return Ratio(value, None, None)
    tail = (1 - CONFIDENCE) / 2
    return Ratio(value, _at(drawn, tail), _at(drawn, 1 - tail))


def by_run(values: Iterable[Value]) -> Mapping[str, list[Value]]:
    """The values of each run."""
    found: dict[str, list[Value]] = defaultdict(list)
    for value in values:
        found[value.run].append(value)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
