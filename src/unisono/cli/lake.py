"""`unisono lake`: brings runs into a lake of plain Parquet, joined, audited and measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli.audit import INTERRUPTED, AuditEngine
from unisono.cli.audit_report import AuditProgress
from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError
from unisono.pipeline.spark.opening import spark_for
from unisono.trace import catalogue
from unisono.trace.catalogue import Entry
from unisono.trace.run_directory import SUMMARY

if TYPE_CHECKING:
    from unisono.pipeline.lake import Built

RAW = "raw"

FORMAT = 1
"""Of the object that --json prints: it grows when a key changes its meaning or goes."""

lake = typer.Typer(
    help="Keep runs as plain Parquet: raw, joined, and with verdicts and measures.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@lake.callback()
def _lake() -> None:
    pass


@lake.command()
def build(
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, folders of runs, or spools.", show_default=False)
    ],
    into: Annotated[Path, typer.Option(metavar="LAKE", help="The directory of the lake; it is made if needed.")],
    batch: Annotated[
        str | None, typer.Option(metavar="NAME", help="Put all runs together into one directory of this name.")
    ] = None,
    engine: Annotated[AuditEngine, typer.Option(help="Who audits; Spark does the rest.")] = AuditEngine.SPARK,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on all cores of this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Bring runs into a lake: their tables, messages and views joined, verdicts and measures.

    A run that is in the lake already is replaced as a whole. Exits with 0 when all are in the lake, whatever their
    verdicts, and with 2 when one of them is no whole run; then none is brought in.

    \b
    Examples:
      unisono lake build runs/seed-17 --into lake
      unisono lake build runs --into lake --batch campaign
      unisono runs lake --violated
    """
    try:
        with AuditProgress() as progress, spark_for(directories, master, progress.tell) as session:
            from unisono.pipeline.lake import build as build_lake

            built = build_lake(session, directories, into, batch, progress.tell, engine.value)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    command = shlex.join(["unisono", "lake", "build", *map(str, directories), "--into", str(into)])
    catalogue.append(into, [_entry(one, command) for one in built])
    if as_json:
        told = [{"name": one.name, "path": str(one.path), "runs": list(one.runs), "rows": one.rows} for one in built]
        echo_json({"format": FORMAT, "lake": str(into), "built": told, "exit": 0})
    else:
        for one in built:
            broken = ", ".join(name for name, count in one.violations().items() if count)
            typer.echo(
                f"{one.path}: {len(one.runs)} runs, {one.rows} rows, {f'violates {broken}' if broken else 'held'}"
            )


def _entry(one: Built, command: str) -> Entry:
    """What the lake's catalogue says: what the run's own catalogue knows of it, or its summary."""
    known = None if one.source is None else _known(one.source)
    summary = _summary(one.path)
    scenario, seed = summary.get("scenario"), summary.get("seed")
    return Entry(
        run=one.name,
        made=catalogue.now(),
        command=command,
        scenario=known.scenario if known else scenario if isinstance(scenario, str) else "",
        seed=known.seed if known else seed if isinstance(seed, int) else None,
        commit=known.commit if known else None,
        options=known.options if known else {},
        rows=one.rows,
        violations=one.violations(),
    )


def _known(source: Path) -> Entry | None:
    try:
        return next((entry for entry in catalogue.entries(source.parent) if entry.run == source.name), None)
    except TraceError:
        return None  # it was not made beside a catalogue


def _summary(path: Path) -> dict[str, Any]:
    try:
        told = json.loads((path / RAW / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # a batch, or spools: there is none
    return told if isinstance(told, dict) else {}
