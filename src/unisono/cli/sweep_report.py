"""What `unisono sweep` shows: progress with rate and time left on stderr, a line a point, and commands to paste."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from unisono.cli.status_line import StatusLine
from unisono.simulation.scenario import Scenario
from unisono.sweeps.page import middle_words
from unisono.sweeps.summary import MEASURES, Failure, PointSummary

_SHOWN_FAILURES = 20
_WIDEST = 240


class SweepProgress(StatusLine):
    """How far a sweep is."""

    def __init__(self, total: int) -> None:
        super().__init__("starting Spark")
        self._total = total
        self._done = self._failing = self._before = 0
        self._began = monotonic()

    def begin(self, done: int) -> None:
        """Work begins, with so many seeds done by earlier calls; the rate counts from the first that comes now."""
        self._before = self._done
        if done:
            typer.echo(f"going on: {done} of {self._total} seeds are done", err=True)

    def advance(self, failed: bool) -> None:
        self._done += 1
        self._failing += failed
        if self._done == self._before + 1:
            self._began = monotonic()
        self.update(self.line())

    def line(self) -> str:
        """Where it is, how fast, and how long it will take."""
        told = f"{self._done} of {self._total} seeds, {self._failing} failing"
        here, seconds = self._done - self._before - 1, monotonic() - self._began
        if here <= 0 or seconds <= 0:
            return told
        left = (self._total - self._done) * seconds / here
        return f"{told}, {here / seconds:.3g} a second, {_time_words(left)} left"


def show_failure(failure: Failure) -> None:
    what = f"stopped: {failure.stopped}" if failure.stopped else f"violates {', '.join(failure.violated)}"
    typer.echo(f"seed {failure.seed} {what}: {failure.replay}")


def show_sweep(
    scenario: Scenario, seeds: range, points: Sequence[PointSummary], failures: Sequence[Failure], asked: int
) -> None:
    """The table, the failing seeds, and the sum of it."""
    measures = [measure for measure in MEASURES if any(measure.name in point.measures for point in points)]
    table = Table("point", "seeds", "held", "failing", "violated", box=box.SIMPLE, pad_edge=False)
    for measure in measures:
        table.add_column(measure.name.replace("_", " "))
    for point in points:
        violated = ", ".join(f"{name} in {count}" for name, count in point.violated.items())
        stopped = f"{point.stopped} stopped" if point.stopped else ""
        table.add_row(
            point.name.replace(", ", "\n"),
            str(point.seeds),
            str(point.held),
            str(point.failing),
            ", ".join(filter(None, (violated, stopped))),
            *(middle_words(point.measures.get(measure.name), "") for measure in measures),
        )
    # A file or a pipe has no width to keep to.
    console = Console() if sys.stdout.isatty() else Console(width=_WIDEST)
    console.print(table, markup=False)
    for failure in failures[:_SHOWN_FAILURES]:
        show_failure(failure)
    if len(failures) > _SHOWN_FAILURES:
        typer.echo(f"and {len(failures) - _SHOWN_FAILURES} more, in the page and the table of results")
    for point in points:
        if point.missing_marks:
            typer.echo(f"{point.name} never reached: {', '.join(point.missing_marks)}")
    done, held, failing = (sum(getattr(point, name) for point in points) for name in ("seeds", "held", "failing"))
    ran = _counted(done, "seed") if done == asked else f"{done} of {asked} seeds"
    expected = "" if scenario.expect == "held" else f"; {scenario.expect} was to be violated"
    typer.echo(f"{scenario.name}: {_counted(len(points), 'point')}, {ran}, {held} held, {failing} failing{expected}")


def _time_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
