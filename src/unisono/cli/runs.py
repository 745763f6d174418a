"""`unisono runs`: lists the runs in a directory from its catalogue; and how other commands write into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table

from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError
from unisono.properties.registry import PROPERTIES
from unisono.trace import catalogue
from unisono.trace.catalogue import MOMENT, Entry, Filter
from unisono.trace.parquet import table_files, table_metadata
from unisono.trace.run_directory import SPOOL, is_run_directory
from unisono.trace.schema import FAMILIES

FORMAT = 2
"""Of the object that --json prints: it grows when a key changes its meaning or goes."""

_AGES = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class SortKey(StrEnum):
    """What runs may be sorted by."""

    MADE = "made"
    RUN = "run"
    SCENARIO = "scenario"
    SEED = "seed"
    VERDICT = "verdict"
    ROWS = "rows"


def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory of runs.", show_default=False)],
    scenario: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this scenario.")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N|A:B", help="Only this seed, or those from A up to B, without B.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only runs made since: 2h, 3d, 2026-05-01, 2026-05-01T12:00:00Z.")
    ] = None,
    violated: Annotated[bool, typer.Option("--violated", help="Only runs that break some promise.")] = False,
    violates: Annotated[
        list[str] | None, typer.Option(metavar="PROPERTY", help="Only runs that break this one; may be repeated.")
    ] = None,
    held: Annotated[bool, typer.Option("--held", help="Only runs that were audited and broke nothing.")] = False,
    commit: Annotated[str | None, typer.Option(metavar="COMMIT", help="Only runs of this commit.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only runs made with this option; may be repeated."),
    ] = None,
    sort: Annotated[SortKey, typer.Option(help="What to sort by.")] = SortKey.MADE,
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List the runs that commands wrote into a directory: what, when, which seed, commit and options, and the verdict.

    \b
    Examples:
      unisono runs runs
      unisono runs runs --violated
      unisono runs runs --violates O2 --scenario chaos --seed 0:100
      unisono runs runs --since 2d --option loss=0.05 --sort rows --json
    """
    if held and (violated or violates):
        raise typer.BadParameter("a run holds or is violated; give one of the two", param_hint="--held")
    for name in violates or ():
        if name not in PROPERTIES:
            raise typer.BadParameter(f"there is no property {name!r}; there are {', '.join(PROPERTIES)}")
    wanted = Filter(
        scenario=scenario,
        seeds=_seeds(seed),
        since=_moment(since),
        verdict="held" if held else "violated" if violated or violates else None,
        violates=tuple(violates or ()),
        commit=commit,
        options=_options(option or []),
    )
    entries = [entry for entry in catalogue.entries(directory) if wanted.takes(entry)]
    entries.sort(key=_ORDERS[sort], reverse=reverse)
    found = [(entry, _is_there(directory / entry.run)) for entry in entries]
    if as_json:
        echo_json({"format": FORMAT, "runs": [_as_json(entry, there) for entry, there in found], "exit": 0})
    else:
        _show(found)


def _is_there(path: Path) -> bool:
    """As a run, or as a run in a lake."""
    return is_run_directory(path) or is_run_directory(path / "raw")


def _as_json(entry: Entry, there: bool) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(entry)
    return {**told, "verdict": entry.verdict, "held": entry.held, "there": there}


def _show(found: list[tuple[Entry, bool]]) -> None:
    heads = ("run", "made", "seed", "rows", "verdict", "options", "command")
    table = Table(*heads, box=box.SIMPLE, pad_edge=False)
    for entry, there in found:
        counts = entry.violations or {}
        violated = ", ".join(f"{name} ({counts[name]})" for name in entry.violated)
        table.add_row(
            entry.run if there else f"{entry.run} (gone)",
            entry.made,
            "" if entry.seed is None else str(entry.seed),
            "" if entry.rows is None else str(entry.rows),
            f"violates {violated}" if violated else entry.verdict,
            " ".join(f"{key}={value}" for key, value in entry.options.items()),
            entry.command,
        )
    Console().print(table, markup=False)


_ORDERS: dict[SortKey, Callable[[Entry], Any]] = {
    SortKey.MADE: lambda entry: entry.made,
    SortKey.RUN: lambda entry: entry.run,
    SortKey.SCENARIO: lambda entry: (entry.scenario, -1 if entry.seed is None else entry.seed),
    SortKey.SEED: lambda entry: -1 if entry.seed is None else entry.seed,
    SortKey.VERDICT: lambda entry: (entry.verdict, entry.violated),
    SortKey.ROWS: lambda entry: -1 if entry.rows is None else entry.rows,
}


def _seeds(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})(?::(\d{1,18}))?", text)
    if match is None:
        raise typer.BadParameter(f"expected a seed or A:B, such as 0:100, got {text!r}", param_hint="--seed")
    first = int(match[1])
    return first, first + 1 if match[2] is None else int(match[2])


def _moment(text: str | None) -> str | None:
    """A moment as entries have it, from an age or a date."""
    if text is None:
        return None
    age = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if age is not None:
        return (datetime.now(UTC) - timedelta(**{_AGES[age[2]]: int(age[1])})).strftime(MOMENT)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        complaint = f"expected 2h, 3d or a date such as 2026-05-01, got {text!r}"
        raise typer.BadParameter(complaint, param_hint="--since") from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).astimezone(UTC).strftime(MOMENT)


def _options(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise typer.BadParameter(f"expected KEY=VALUE, got {key!r}", param_hint="--option")
    return {key.strip(): value.strip() for key, _, value in pairs}


class Made(Struct, frozen=True):
    """A run that a command wrote; `violations` is None where nobody audited it."""

    out: Path
    command: str
    scenario: str
    seed: int | None
    violations: Mapping[str, int] | None
    options: Mapping[str, str] = {}


def add_to_catalogue(made: list[Made]) -> None:
    """Note runs in the catalogues of their directories; where that fails, the runs are still there, and it is said."""
    now = catalogue.now()
    commit = catalogue.checkout() if made else None
    by_folder: dict[Path, list[Entry]] = {}
    for one in made:
        entry = Entry(
            run=one.out.name,
            made=now,
            command=one.command,
            scenario=one.scenario,
            seed=one.seed,
            commit=commit,
            options=dict(one.options),
            rows=stored_rows(one.out),
            violations=None if one.violations is None else dict(one.violations),
        )
        by_folder.setdefault(one.out.parent, []).append(entry)
    for folder, entries in by_folder.items():
        try:
            catalogue.append(folder, entries)
        except TraceError as error:
            typer.echo(f"not in the catalogue: {error}", err=True)


def stored_rows(directory: Path) -> int | None:
    """How many rows a run has, as the ends of its tables tell; None where it has none, such as a spool."""
    if (directory / SPOOL).exists() or not is_run_directory(directory):
        return None
    try:
        files = [(family, file) for family in FAMILIES for file in table_files(directory, family)]
        return sum(int(table_metadata(file, family).num_rows) for family, file in files)
    except TraceError:
        return None  # the run was just written and is damaged already: whoever reads it is told
