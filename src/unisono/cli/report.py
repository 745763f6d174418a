"""`unisono report`: writes the page of a run, with its verdicts and its plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.audit import INTERRUPTED, audit_with_what_is_there
from unisono.cli.audit_report import AuditProgress
from unisono.cli.simulation_report import echo_json
from unisono.errors import UnisonoError
from unisono.pipeline.templating import why_no_page


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run, or its spools.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page here; by default page.html in the run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Audit one run and write a page about it.

    The page is one file that loads nothing. Exits with 0 when the page is written, whatever it says, and
    with 2 when there is no whole run to write about.

    \b
    Examples:
      unisono report runs/seed-17
      unisono report runs/seed-17 --out seed-17.html
    """
    if (missing := why_no_page()) is not None:
        raise UnisonoError(missing)
    from unisono.pipeline.page import page_place, write_page

    target = page_place(directory) if out is None else out
    try:
        with AuditProgress() as progress:
            audited = audit_with_what_is_there([directory], progress)
            write_page(directory, audited, target, progress.tell)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        echo_json({**audited.as_json(), "page": str(target), "exit": 0})
    else:
        typer.echo(f"{'every promise held' if audited.held else 'a promise was broken'}, audited by {audited.engine}")
        typer.echo(f"page: {target}")
