"""`unisono runs`: lists the runs in a directory from its catalogue; and how other commands write into it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table

from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError
from unisono.trace import catalogue
from unisono.trace.run_directory import is_run_directory


def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory of runs.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List the runs that simulate and demo wrote into a directory.

    \b
    Examples:
      unisono runs runs
      unisono runs runs --json
    """
    found = [(entry, is_run_directory(directory / entry.run)) for entry in catalogue.entries(directory)]
    if as_json:
        listed = [{**msgspec.to_builtins(entry), "held": entry.held, "there": there} for entry, there in found]
        echo_json({"runs": listed, "exit": 0})
        return
    table = Table("run", "made", "seed", "verdict", "command", box=box.SIMPLE, pad_edge=False)
    for entry, there in found:
        violated = ", ".join(f"{name} ({count})" for name, count in entry.violations.items() if count)
        verdict = f"violates {violated}" if violated else "held"
        name = entry.run if there else f"{entry.run} (gone)"
        table.add_row(name, entry.made, str(entry.seed), verdict, entry.command)
    Console().print(table, markup=False)


class Made(Struct, frozen=True):
    """A run that a command wrote."""

    out: Path
    command: str
    scenario: str
    seed: int
    violations: Mapping[str, int]


def add_to_catalogue(made: list[Made]) -> None:
    """Note runs in the catalogues of their directories; where that fails, the runs are still there, and it is said."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    commit = catalogue.checkout() if made else None
    by_folder: dict[Path, list[catalogue.Entry]] = {}
    for one in made:
        entry = catalogue.Entry(
            run=one.out.name,
            made=now,
            command=one.command,
            scenario=one.scenario,
            seed=one.seed,
            commit=commit,
            violations=dict(one.violations),
        )
        by_folder.setdefault(one.out.parent, []).append(entry)
    for folder, entries in by_folder.items():
        try:
            catalogue.append(folder, entries)
        except TraceError as error:
            typer.echo(f"not in the catalogue: {error}", err=True)
