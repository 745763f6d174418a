"""`unisono damage`: writes a copy of a run that is wrong in one named way, to see an audit find it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import monotonic
from typing import Annotated

import typer
from msgspec.structs import replace
from rich import box
from rich.console import Console
from rich.table import Column, Table

from unisono.cli.simulation_report import echo_json
from unisono.errors import TraceError
from unisono.pipeline.runs import find_runs, read_rows
from unisono.properties.damages import COMMON_DAMAGES, DAMAGES, SESSION_DAMAGES, Damage
from unisono.properties.promises import SESSIONS
from unisono.properties.registry import MonitorSuite
from unisono.trace.run_directory import SCENARIO, write_run
from unisono.trace.schema import AnyRow

FORMAT = 1
"""Of the objects that --json prints: it grows when a key changes its meaning or goes."""
TRIES = 20
"""Where a damage finds nothing to break with a seed, so many seeds are tried."""
NAMED_KINDS = 5
"""Where a kind has nothing to break, so many others are named that have,"""
SEARCH_SECONDS = 5.0
"""if they are found within this time."""


def damage(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run, or its spools.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="What to break; --list shows the kinds.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the damaged copy here.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the place that is damaged.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds of damage.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Write a damaged copy of a run, so that an audit has something to find.

    \b
    Examples:
      unisono damage --list
      unisono damage runs/seed-17 --kind removed_delivery --out damaged
      unisono audit damaged
    """
    if listed:
        _show_kinds(as_json)
        return
    if run is None or kind is None or out is None:
        raise typer.BadParameter("name a run, the kind of damage and where to write the copy; --list shows the kinds")
    if kind not in DAMAGES:
        raise typer.BadParameter(
            f"there is no damage {kind!r}; unisono damage --list shows the kinds", param_hint="--kind"
        )
    found = find_runs([run])
    if len(found) > 1:
        raise TraceError(f"{run} holds {len(found)} runs; name one of them")
    rows, used = damaged(read_rows(found[0]), DAMAGES[kind], seed)
    scenario = run / SCENARIO
    summary = {"damage": kind, "breaks": list(DAMAGES[kind].breaks), "seed": used}
    text = scenario.read_text(encoding="utf-8") if scenario.is_file() else ""
    write_run(out, rows, scenario_text=text, summary=summary)
    if as_json:
        echo_json({"format": FORMAT, "run": str(run), "out": str(out), **summary, "exit": 0})
    else:
        typer.echo(f"{DAMAGES[kind].says}; it breaks {', '.join(DAMAGES[kind].breaks)}")
        typer.echo(f"trace: {out}")


def damaged(rows: list[AnyRow], kind: Damage, seed: int) -> tuple[list[AnyRow], int]:
    """A damaged copy under a name of its own, and the first seed from this one on for which the damage fits."""
    for used in range(seed, seed + TRIES):
        changed = kind.apply(rows, Random(used))
        if changed is not None and _is_noticed(changed, kind):
            return [replace(row, run=f"{row.run}-{kind.name}") for row in changed], used
    fitting = _fitting_kinds(rows, seed)
    advice = f"these kinds have: {', '.join(fitting)}" if fitting else "nor was another kind found that has"
    raise TraceError(f"{kind.name} has nothing to break in this run; {advice}")


def _is_noticed(rows: list[AnyRow], kind: Damage) -> bool:
    """Whether the monitors find every property broken that the damage names."""
    suite = MonitorSuite(kind.breaks)
    for row in rows:
        suite.observe(row)
    suite.finish()
    return set(suite.counts) == set(kind.breaks)


def _fitting_kinds(rows: list[AnyRow], seed: int) -> list[str]:
    """The first kinds that have something to break in a run, as many as are found in a short time."""
    end = monotonic() + SEARCH_SECONDS
    in_sessions = any(row.service in SESSIONS for row in rows)
    # Those that are made for such a run come first: they tell more about it.
    meant = sorted(DAMAGES.values(), key=lambda one: one.name in COMMON_DAMAGES)
    found: list[str] = []
    for one in meant:
        if len(found) == NAMED_KINDS or monotonic() > end:
            break
        if one.name in COMMON_DAMAGES or (one.name in SESSION_DAMAGES) == in_sessions:
            changed = one.apply(rows, Random(seed))
            if changed is not None and _is_noticed(changed, one):
                found.append(one.name)
    return found


def _meant_for(kind: Damage) -> str:
    if kind.name in COMMON_DAMAGES:
        return "both"
    return "sessions" if kind.name in SESSION_DAMAGES else "groups"


def _show_kinds(as_json: bool) -> None:
    if as_json:
        kinds = [
            {"name": one.name, "says": one.says, "breaks": list(one.breaks), "for": _meant_for(one)}
            for one in DAMAGES.values()
        ]
        echo_json({"format": FORMAT, "kinds": kinds, "exit": 0})
        return
    kind = Column("kind", no_wrap=True, min_width=max(len(name) for name in DAMAGES))
    meant = Column("for", no_wrap=True, min_width=len("sessions"))
    table = Table(kind, meant, "breaks", "", box=box.SIMPLE, pad_edge=False)
    for one in DAMAGES.values():
        table.add_row(one.name, _meant_for(one), " ".join(one.breaks), one.says)
    Console().print(table, markup=False)
    typer.echo("for: runs of sessions, of groups with any other service, or both")
