"""`unisono report`: writes the page of a run, or of several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.audit import INTERRUPTED, AuditEngine, audit_with_what_is_there
from unisono.cli.audit_report import AuditProgress
from unisono.cli.simulation_report import echo_json
from unisono.errors import UnisonoError
from unisono.pipeline.pages.templating import why_no_page

COMPARISON = Path("comparison.html")


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="A run, or its spools; several are compared.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the page here; by default page.html in the run, or comparison.html for several."
        ),
    ] = None,
    engine: Annotated[
        AuditEngine | None, typer.Option(help="Who checks; by default Spark, and where it does not start the monitors.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on all cores of this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Audit a run and write a page about it; of several runs, one page that compares them with the first.

    The page is one file that loads nothing. Exits with 0 when the page is written, whatever it says, and
    with 2 when there is no whole run to write about.

    \b
    Examples:
      unisono report runs/seed-17
      unisono report runs/seed-17 --out seed-17.html --engine monitor
      unisono report runs/seed-17 runs/seed-18 --out both.html
    """
    if master is not None and engine is AuditEngine.MONITOR:
        raise typer.BadParameter("only Spark has a master", param_hint="--master")
    if (missing := why_no_page()) is not None:
        raise UnisonoError(missing)
    from unisono.pipeline.pages.comparison import one_run, write_comparison
    from unisono.pipeline.pages.page import page_place, write_page

    for directory in directories:
        one_run(directory)
    target = out if out is not None else page_place(directories[0]) if len(directories) == 1 else COMPARISON
    try:
        with AuditProgress() as progress:
            audited = audit_with_what_is_there(directories, progress, engine, master)
            if len(directories) == 1:
                write_page(directories[0], audited, target, progress.tell)
            else:
                write_comparison(directories, audited, target, progress.tell)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        echo_json({**audited.as_json(), "page": str(target), "exit": 0})
    else:
        typer.echo(f"{'every promise held' if audited.held else 'a promise was broken'}, audited by {audited.engine}")
        typer.echo(f"page: {target}")
