"""`unisono audit`: holds the traces of runs to every property and says whether each held."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.audit_report import AuditProgress, show_audit
from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.report import AuditReport
from unisono.pipeline.runs import cuts_of, find_runs
from unisono.pipeline.spark.opening import spark_for
from unisono.trace.holes import holes_of

INTERRUPTED = 130


class AuditEngine(StrEnum):
    """Who checks: Spark for long traces and many runs, or the monitors of the simulator, which need nothing."""

    SPARK = "spark"
    MONITOR = "monitor"


def audit(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Runs, folders of runs, or spools.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    engine: Annotated[AuditEngine, typer.Option(help="Who checks.")] = AuditEngine.SPARK,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on all cores of this machine.")
    ] = None,
) -> None:
    """Check the traces of runs against every property.

    Exits with 0 when all properties held, with 1 when one did not, with 2 when there is no whole trace to audit.

    \b
    Examples:
      unisono audit runs/seed-17
      unisono audit runs --json
      unisono audit runs --engine monitor
    """
    if master is not None and engine is not AuditEngine.SPARK:
        raise typer.BadParameter("only Spark has a master", param_hint="--master")
    try:
        with AuditProgress() as progress:
            report = _audit(directories, engine, master, progress)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    for run in find_runs(directories):
        holes = [f"{run.path}: {hole}" for hole in holes_of(run.path)]
        for lacking in (*holes, *cuts_of(run)):
            typer.echo(f"unisono: {lacking}; a violation may come of that", err=True)
    code = 0 if report.held else 1
    if as_json:
        echo_json({**report.as_json(), "exit": code})
    else:
        show_audit(report)
    raise typer.Exit(code)


def audit_with_what_is_there(
    directories: list[Path], progress: AuditProgress, engine: AuditEngine | None = None, master: str | None = None
) -> AuditReport:
    """By whom the caller chose, else by Spark; where it does not start here, by the monitors, and that is said."""
    if engine is not None or master is not None:
        return _audit(directories, engine or AuditEngine.SPARK, master, progress)
    try:
        return _audit(directories, AuditEngine.SPARK, None, progress)
    except TraceError:
        raise
    except UnisonoError as error:
        typer.echo(f"{error}; the monitors audit instead", err=True)
        return _audit(directories, AuditEngine.MONITOR, None, progress)


def _audit(directories: list[Path], engine: AuditEngine, master: str | None, progress: AuditProgress) -> AuditReport:
    if engine is AuditEngine.MONITOR:
        from unisono.pipeline.monitor_audit import audit_with_monitors

        return audit_with_monitors(directories, progress.tell)
    with spark_for(directories, master, progress.tell) as session:
        from unisono.pipeline.audit import audit as audit_with_spark

        return audit_with_spark(session, directories, progress.tell)
