"""A sweep in sum, point by point: how many seeds held, what was violated, and the usual size of what was measured."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb, floor, sqrt
from typing import Any

import msgspec
from msgspec import Struct

from unisono.properties.registry import in_order
from unisono.simulation.campaign import missing_marks
from unisono.simulation.scenario import Scenario
from unisono.sweeps.grid import Point
from unisono.sweeps.result import SeedRow

CONFIDENCE = 0.95
_EXACT_UP_TO = 1000


class Measure(Struct, frozen=True):
    """A measure of each seed: what it is called, its unit, and how a row tells it; None where it does not."""

    name: str
    unit: str
    says: str


MEASURES = (
    Measure("latency_p50_ms", "ms", "from SEND to the last delivery, half of the messages"),
    Measure("latency_p99_ms", "ms", "the same, 99 of 100 messages"),
    Measure("repairs_per_message", "", "repairs for each message that was sent"),
    Measure("datagrams_per_message", "", "datagrams for each message that was sent"),
    Measure("views", "", "views that members installed"),
)
"""What the table and the page show; all counters are in the table of results."""


class Middle(Struct, frozen=True):
    """The median over seeds, and an interval that has the true one in 95 of 100 sweeps; null for few seeds."""

    median: float
    low: float | None
    high: float | None
    seeds: int


class PointSummary(Struct, frozen=True, kw_only=True):
    """One point; `met` says whether it came out as its scenario expects."""

    point: int
    name: str
    changes: tuple[str, ...]
    met: bool
    seeds: int
    held: int
    failing: int
    stopped: int
    violated: dict[str, int]
    missing_marks: tuple[str, ...]
    marks: dict[str, int]
    measures: dict[str, Middle]
    messages: int
    deliveries: int
    simulated_rows: int
    core_seconds: float


class Failure(Struct, frozen=True, kw_only=True):
    """A seed that failed, with the command that replays it."""

    point: int
    seed: int
    verdict: str
    violated: tuple[str, ...]
    stopped: str | None
    trace: str | None
    replay: str


class PointCount:
    """Adds up the seeds of one point."""

    def __init__(self, point: Point) -> None:
        self._point = point
        self._count: Counter[str] = Counter()
        self._violated: Counter[str] = Counter()
        self._marks: Counter[str] = Counter()
        self._measures = {measure.name: array("d") for measure in MEASURES}
        self._seconds = 0.0

    @property
    def seeds(self) -> int:
        return self._count["seeds"]

    def add(self, row: SeedRow) -> None:
        count = self._count
        count["seeds"] += 1
        count["failing"] += row.failed
        count[row.verdict] += 1
        count["messages"] += row.messages
        count["deliveries"] += row.deliveries
        count["rows"] += row.rows
        self._violated.update(row.violated)
        self._marks.update(row.marks)
        self._seconds += row.seconds
        if row.verdict != "stopped":
            for name, values in self._measures.items():
                if (value := measured(row, name)) is not None:
                    values.append(value)

    def summary(self, asked: int) -> PointSummary:
        scenario: Scenario = self._point.scenario
        count = self._count
        missing = missing_marks(scenario, self._marks, self.seeds)
        as_expected = scenario.expect == "held" or self._violated[scenario.expect] > 0
        return PointSummary(
            point=self._point.number,
            name=self._point.name,
            changes=self._point.changes,
            met=not count["failing"] and as_expected and not missing and self.seeds == asked,
            seeds=self.seeds,
            held=count["held"],
            failing=count["failing"],
            stopped=count["stopped"],
            violated={name: self._violated[name] for name in in_order(self._violated)},
            missing_marks=missing,
            marks=dict(sorted(self._marks.items())),
            measures={name: middle(values) for name, values in self._measures.items() if values},
            messages=count["messages"],
            deliveries=count["deliveries"],
            simulated_rows=count["rows"],
            core_seconds=round(self._seconds, 3),
        )


def measured(row: SeedRow, name: str) -> float | None:
    """The value of a measure at one seed."""
    if name.endswith("_per_message"):
        total: int = getattr(row, name.removesuffix("_per_message"))
        return total / row.messages if row.messages else None
    value: float | None = getattr(row, name)
    return value


def middle(values: Sequence[float]) -> Middle:
    """The median, and the two values by order that bound the true one, whatever the distribution."""
    ordered = sorted(values)
    count = len(ordered)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    rank = _rank(count)
    if rank is None:
        return Middle(median, None, None, count)
    return Middle(median, ordered[rank], ordered[count - 1 - rank], count)


def _rank(count: int) -> int | None:
    """How many values lie below the interval, at most; None where even all values are not sure enough."""
    if count > _EXACT_UP_TO:
        return floor(count / 2 - 0.98 * sqrt(count)) - 1
    allowed = (1 - CONFIDENCE) / 2 * 2**count
    below, rank = 0, None
    for number in range(count):
        below += comb(count, number)
        if below > allowed:
            break
        rank = number
    return rank


def sweep_json(
    scenario: Scenario, asked: Mapping[str, Any], points: Sequence[PointSummary], failures: Sequence[Failure]
) -> dict[str, Any]:
    """The object that --json prints, but for the exit code."""
    return {
        "scenario": scenario.name,
        "expect": scenario.expect,
        **asked,
        "met": all(point.met for point in points),
        "seeds": sum(point.seeds for point in points),
        "held": sum(point.held for point in points),
        "failing": sum(point.failing for point in points),
        "points": [msgspec.to_builtins(point, str_keys=True) for point in points],
        "failures": [msgspec.to_builtins(failure) for failure in failures],
    }
