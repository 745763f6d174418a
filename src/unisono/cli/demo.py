"""`unisono demo`: the main job in one minute, with real processes on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.audit import INTERRUPTED, audit_with_what_is_there
from unisono.cli.audit_report import AuditProgress, show_audit
from unisono.cli.phases import Phases
from unisono.cli.runs import Made, add_to_catalogue
from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError
from unisono.pipeline.pages.templating import why_no_page
from unisono.properties.registry import PROPERTIES
from unisono.trace.run_directory import is_run_directory

DEFAULT_OUT = Path("unisono-demo")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write the trace and the page here.")] = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Let five real processes on this machine exchange messages, audit them, and write a page.

    One joins late, one is killed, the others part and meet again. Nothing leaves this machine. Exits with 0 when
    all properties held, with 1 when one did not, with 2 when it could not run.

    \b
    Examples:
      unisono demo
      unisono demo --out run
    """
    from unisono.trials.demonstration import SCENARIO, demonstrate

    if out.exists() and not is_run_directory(out) and not (out.is_dir() and not any(out.iterdir())):
        raise TraceError(f"{out} holds something that is not a run; choose another directory or empty this one")
    page: Path | None = None
    try:
        with Phases() as phases:
            facts = demonstrate(out, phases.show)
        if not as_json:
            typer.echo(f"five processes sent {facts.sent} messages and delivered {facts.delivered}")
            typer.echo("one joined late, one was killed, the others parted and met again")
        if not sys.stderr.isatty():
            typer.echo("auditing the trace", err=True)
        with AuditProgress() as progress:
            report = audit_with_what_is_there([out], progress)
            missing = why_no_page()
            if missing is None:
                from unisono.pipeline.pages.page import page_place, write_page

                page = page_place(out)
                write_page(out, report, page, progress.tell)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    violations = {name: report.count(name) for name in PROPERTIES if report.verdict(name) != "not promised"}
    add_to_catalogue([Made(out.absolute(), "unisono demo", SCENARIO.name, 0, violations)])
    code = 0 if report.held else 1
    if as_json:
        echo_json({**report.as_json(), "trace": str(out), "page": None if page is None else str(page), "exit": code})
        raise typer.Exit(code)
    show_audit(report)
    typer.echo(f"trace: {out}")
    typer.echo(f"no page: {missing}" if page is None else f"page: {page}")
    raise typer.Exit(code)
