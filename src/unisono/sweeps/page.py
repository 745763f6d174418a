"""The page of a sweep: verdicts by point, the measures with their intervals side by side, and every failing seed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from unisono.pipeline.pages.templating import render
from unisono.properties.registry import PROPERTIES
from unisono.simulation.scenario import Scenario
from unisono.sweeps.summary import MEASURES, Failure, Measure, Middle, PointSummary

SHOWN_FAILURES = 200
_TEMPLATE = "sweep.html.jinja"
_WIDTH = 420.0
_MARGIN = 8.0


class Line(Struct, frozen=True):
    """One point in a picture: the places of its median and of its interval, and what they say."""

    name: str
    middle: float
    low: float
    high: float
    words: str


class Picture(Struct, frozen=True):
    """One measure over all points, on one scale from 0."""

    measure: Measure
    lines: list[Line]
    end: str


def middle_words(middle: Middle | None, unit: str) -> str:
    """A median with its interval, for people."""
    if middle is None:
        return ""
    tail = f" {unit}" if unit else ""
    if middle.low is None or middle.high is None or middle.low == middle.high:
        return f"{middle.median:.4g}{tail}"
    return f"{middle.median:.4g} ({middle.low:.4g} to {middle.high:.4g}){tail}"


def render_sweep(
    scenario: Scenario, seeds: range, points: Sequence[PointSummary], failures: Sequence[Failure], command: str
) -> str:
    """The page."""
    violated = sorted({name for point in points for name in point.violated})
    return render(
        _TEMPLATE,
        scenario=scenario,
        seeds=seeds,
        points=points,
        met=all(point.met for point in points),
        asked=len(points) * len(seeds),
        done=sum(point.seeds for point in points),
        words=middle_words,
        measures=MEASURES,
        pictures=[picture for measure in MEASURES if (picture := _picture(measure, points)) is not None],
        width=_WIDTH,
        properties=[(name, PROPERTIES[name].name, PROPERTIES[name].report) for name in violated if name in PROPERTIES],
        failures=failures[:SHOWN_FAILURES],
        hidden=len(failures[SHOWN_FAILURES:]),
        command=command,
    )


def _picture(measure: Measure, points: Sequence[PointSummary]) -> Picture | None:
    there = [(point, point.measures[measure.name]) for point in points if measure.name in point.measures]
    end = max((value.median if value.high is None else value.high for _, value in there), default=0.0)
    if end <= 0:
        return None

    def place(value: float) -> float:
        return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * value / end, 1)

    lines = [
        Line(
            point.name,
            place(value.median),
            place(value.median if value.low is None else value.low),
            place(value.median if value.high is None else value.high),
            middle_words(value, measure.unit),
        )
        for point, value in there
    ]
    return Picture(measure, lines, f"{end:.4g} {measure.unit}".strip())
