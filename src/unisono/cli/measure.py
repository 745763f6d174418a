"""`unisono measure` and `unisono compare`: what runs achieved, each by itself and held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from unisono.cli.audit import INTERRUPTED
from unisono.cli.audit_report import AuditProgress
from unisono.cli.measure_report import show_comparison, show_measures
from unisono.cli.simulation_report import echo_json
from unisono.pipeline.measures.catalogue import what_is_missing
from unisono.pipeline.measures.comparison import CONFIDENCE, RESAMPLES, compare
from unisono.pipeline.measures.value import Value
from unisono.pipeline.spark.opening import spark_for

FORMAT = 1
"""Of the objects that --json prints: it grows when a key changes its meaning or goes."""

Master = Annotated[
    str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on all cores of this machine.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def measure(
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, folders of runs, or spools.", show_default=False)
    ],
    as_json: AsJson = False,
    master: Master = None,
) -> None:
    """Measure runs: throughput, latency, overhead, repairs, view changes, blocked time and control traffic.

    \b
    Examples:
      unisono measure runs/seed-17
      unisono measure runs --json
    """
    (values,) = _measured([directories], master)
    missing = what_is_missing(value.measure for value in values)
    if as_json:
        echo_json({"format": FORMAT, "measures": msgspec.to_builtins(values), "missing": missing, "exit": 0})
    else:
        show_measures(values, missing)


def compare_runs(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN...", help="A run or a folder of runs for each side.", show_default=False),
    ],
    as_json: AsJson = False,
    master: Master = None,
) -> None:
    """Hold runs against the first ones: both values of each measure, their ratio, and an interval for it.

    Each argument is one side: a run, or a folder of runs that were made alike. Where a side has several runs, the
    interval says how far their ratio could be chance.

    \b
    Examples:
      unisono compare runs/seed-17 runs/seed-18
      unisono compare before after --json
    """
    if len(directories) < 2:
        raise typer.BadParameter("name at least two runs, or two folders of runs", param_hint="RUN RUN...")
    sides = _measured([[directory] for directory in directories], master)
    compared = compare(sides)
    runs = [sorted({value.run for value in side}) for side in sides]
    if as_json:
        told = [{"path": str(path), "runs": names} for path, names in zip(directories, runs, strict=True)]
        echo_json(
            {
                "format": FORMAT,
                "sides": told,
                "confidence": CONFIDENCE,
                "resamples": RESAMPLES,
                "measures": msgspec.to_builtins(compared),
                "exit": 0,
            }
        )
    else:
        show_comparison([str(path) for path in directories], [len(names) for names in runs], compared)


def _measured(sides: Sequence[list[Path]], master: str | None) -> list[list[Value]]:
    try:
        with (
            AuditProgress() as progress,
            spark_for([path for side in sides for path in side], master, progress.tell) as session,
        ):
            from unisono.pipeline.measures.values import measure_runs

            return [measure_runs(session, side, progress.tell) for side in sides]
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
