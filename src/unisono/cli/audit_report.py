"""What `unisono audit` shows: a line for each property, the first violations, and progress on stderr."""

from __future__ import annotations

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from unisono.cli.status_line import StatusLine
from unisono.pipeline.report import AuditReport, RunReport
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation, process_name

_SHOWN_VIOLATIONS = 20
_SHOWN_RUNS = 20


class AuditProgress(StatusLine):
    """How far an audit is."""

    def __init__(self) -> None:
        super().__init__("reading")

    def tell(self, what: str, done: int, total: int) -> None:
        self.update(f"{what}: {done} of {total}" if total else what)


def show_audit(report: AuditReport) -> None:
    """The verdicts, then the first violations of the first runs that have any."""
    table = Table("property", "", "verdict", box=box.SIMPLE, pad_edge=False)
    for item in PROPERTIES.values():
        verdict, count = report.verdict(item.id), report.count(item.id)
        table.add_row(item.id, item.name, f"{verdict} ({count})" if count else verdict)
    Console().print(table, markup=False)
    for item in PROPERTIES.values():
        if report.count(item.id):
            typer.echo(f"{item.id}: {item.report}")
    broken = [run for run in report.runs if not run.held]
    for run in broken[:_SHOWN_RUNS]:
        _show_run(run)
    if len(broken) > _SHOWN_RUNS:
        typer.echo(f"and {len(broken) - _SHOWN_RUNS} more runs with violations")
    deliveries = sum(run.facts.rows["deliver"] for run in report.runs)
    typer.echo(f"{deliveries} deliveries audited in {report.wall_seconds:.1f} s by {report.engine}")
    typer.echo(f"{_counted(len(report.runs), 'run')}, {len(report.runs) - len(broken)} held, {len(broken)} violated")


def _show_run(run: RunReport) -> None:
    typer.echo(f"{run.run} violates " + ", ".join(f"{name} ({count})" for name, count in run.counts.items()))
    for violation in run.violations[:_SHOWN_VIOLATIONS]:
        typer.echo(f"  {violation_line(violation)}")
    hidden = sum(run.counts.values()) - len(run.violations[:_SHOWN_VIOLATIONS])
    if hidden:
        typer.echo(f"  and {hidden} more")


def violation_line(violation: Violation) -> str:
    """Property, process, message and position of one violation, as far as it has them."""
    if not violation.process:
        return f"{violation.property} in the whole run: {violation.text}"
    group = f" in {violation.group}" if violation.group else ""
    about = f" message {violation.message}" if violation.message is not None else ""
    who = process_name(violation.process, violation.incarnation)
    return f"{violation.property}{group} at {who} position {violation.position}{about}: {violation.text}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
