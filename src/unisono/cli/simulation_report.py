"""What `unisono simulate` shows: tables for people, one JSON object for scripts, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from unisono.marks import ALL_MARKS, MARKS, SESSION_MARKS
from unisono.properties.registry import PROPERTIES, in_order
from unisono.properties.violation import Violation, process_name
from unisono.simulation.campaign import Judgement, SeedResult
from unisono.simulation.library import builtin_names, load
from unisono.simulation.scenario import Scenario

_SHOWN_VIOLATIONS = 20
_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """How far a campaign is: a bar on a terminal, else a line from time to time; always on stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._failing = 0
        self._last_line = monotonic()
        self._bar: RichProgress | None = None
        if sys.stderr.isatty():
            self._bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )
            self._task = self._bar.add_task("seeds", total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, failed: bool) -> None:
        self._done += 1
        self._failing += failed
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=f"seeds, {self._failing} failing")
        elif monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = monotonic()
            typer.echo(f"{self._done} of {self._total} seeds, {self._failing} failing", err=True)


def show_scenarios(as_json: bool) -> None:
    scenarios = [load(name) for name in builtin_names()]
    if as_json:
        echo_json({"scenarios": [{"name": scenario.name, "says": scenario.says} for scenario in scenarios]})
        return
    width = max(len(scenario.name) for scenario in scenarios)
    for scenario in scenarios:
        typer.echo(f"{scenario.name:<{width}}  {scenario.says}")


def echo_json(value: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def failing_line(result: SeedResult, command: str) -> str:
    return f"seed {result.seed} {_verdict(result)}: {command}"


def show_seed(scenario: Scenario, result: SeedResult, judgement: Judgement, command: str) -> None:
    """One run: verdicts, violations, counts, marks, and where the trace is."""
    outcome = result.outcome
    if outcome is None:
        typer.echo(result.origin or "", err=True)
        typer.echo(failing_line(result, command))
        return
    _show_table(
        ("property", "", "verdict"),
        [
            (name, PROPERTIES[name].name if name in PROPERTIES else "", _standing(outcome.verdicts[name]))
            for name in in_order(outcome.verdicts)
        ],
    )
    for violation in outcome.violations[:_SHOWN_VIOLATIONS]:
        typer.echo(_violation_line(violation))
    if len(outcome.violations) > _SHOWN_VIOLATIONS:
        typer.echo(f"and {len(outcome.violations) - _SHOWN_VIOLATIONS} more")
    if outcome.hierarchy is not None:
        _show_table(("hierarchy", ""), outcome.hierarchy.rows())
    _show_table(("count", ""), [(name, str(count)) for name, count in outcome.counters.items()])
    _show_marks(outcome.marks, tuple(outcome.marks))
    typer.echo(f"{outcome.events} events in {outcome.seconds:.1f} s")
    if result.out is not None:
        typer.echo(f"trace: {result.out}")
    typer.echo(f"{scenario.name} seed {result.seed} {_verdict(result)}{_as_expected(scenario, judgement)}")
    if not judgement.met:
        typer.echo(f"replay: {command}")


def show_campaign(scenario: Scenario, judgement: Judgement, asked: int, out: Path | None) -> None:
    """Many runs in sum."""
    usual = SESSION_MARKS if scenario.protocol == "virtual_synchrony" else MARKS
    _show_marks(judgement.marks, tuple(usual) if scenario.marks else tuple(judgement.marks))
    if judgement.violated:
        typer.echo("violated: " + ", ".join(f"{name} in {count}" for name, count in judgement.violated.items()))
    if judgement.missing_marks:
        typer.echo(f"never reached: {', '.join(judgement.missing_marks)}")
    if out is not None and out.is_dir():
        typer.echo(f"traces: {out}")
    ran = f"{judgement.seeds} seeds" if judgement.seeds == asked else f"{judgement.seeds} of {asked} seeds"
    typer.echo(
        f"{scenario.name}: {ran}, {judgement.held} held, {len(judgement.failing)} failing"
        f"{_as_expected(scenario, judgement)}"
    )


def campaign_json(
    scenario: Scenario, results: Sequence[SeedResult], judgement: Judgement, command: Callable[[int], str]
) -> dict[str, Any]:
    """The object that --json prints, but for the exit code; runs in the order of seeds."""
    runs = []
    for result in sorted(results, key=lambda result: result.seed):
        outcome = msgspec.to_builtins(result.outcome) if result.outcome is not None else {}
        outcome.pop("scenario", None)
        verdict = "stopped" if result.outcome is None else "violated" if result.outcome.violated else "held"
        runs.append(
            {
                "seed": result.seed,
                "verdict": verdict,
                **outcome,
                "stopped": result.stopped,
                "origin": result.origin,
                "trace": str(result.out) if result.out else None,
                "replay": command(result.seed),
            }
        )
    return {
        "scenario": scenario.name,
        "expect": scenario.expect,
        "runs": runs,
        **msgspec.to_builtins(judgement, str_keys=True),
    }


def _standing(violations: int) -> str:
    return f"violated ({violations})" if violations else "held"


def _verdict(result: SeedResult) -> str:
    if result.outcome is None:
        return f"stopped: {result.stopped}"
    if not result.outcome.violated:
        return "held"
    counts = result.outcome.verdicts
    return "violates " + ", ".join(f"{name} ({counts.get(name, 0)})" for name in result.outcome.violated)


def _as_expected(scenario: Scenario, judgement: Judgement) -> str:
    if scenario.expect == "held":
        return ""
    return f"; {scenario.expect} was to be violated, {'as it is' if judgement.met else 'and alone: not so'}"


def _violation_line(violation: Violation) -> str:
    who = process_name(violation.process, violation.incarnation) if violation.process else "the run"
    about = f" message {violation.message}" if violation.message is not None else ""
    return f"{violation.property} in {violation.group} at {who} position {violation.position}{about}: {violation.text}"


def _show_marks(marks: Mapping[str, int], names: Sequence[str]) -> None:
    _show_table(("mark", "times", ""), [(name, str(marks.get(name, 0)), ALL_MARKS.get(name, "")) for name in names])


def _show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(*heads, box=box.SIMPLE, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table, markup=False)
