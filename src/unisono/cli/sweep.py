"""`unisono sweep`: runs a scenario over seeds and settings on all cores of a machine or a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli.runs import Made, add_to_catalogue
from unisono.cli.simulate import INTERRUPTED, run_options, seed_range
from unisono.cli.simulation_report import echo_json
from unisono.cli.sweep_report import SweepProgress, show_sweep
from unisono.simulation.draw import draw
from unisono.sweeps.task import Keep
from unisono.trace.run_directory import canonical_json

if TYPE_CHECKING:
    from unisono.sweeps.grid import Point
    from unisono.sweeps.result import SeedRow
    from unisono.sweeps.store import Asked, Store


def sweep(
    scenario: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A scenario by its name, or a file.")],
    seeds: Annotated[str, typer.Option(metavar="A:B", help="The seeds from A up to B, without B, at each point.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go, and where a sweep is gone on with.")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=A,B,C", help="Try each of these values of a key; may be repeated for a grid."
        ),
    ] = None,
    keep: Annotated[
        Keep, typer.Option(help="Which traces to keep: of failing seeds, of every hundredth too, or all.")
    ] = Keep.FAILING,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="The Spark to use; by default one on all cores of this machine.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Cores of this machine to use; by default all. Not with --master.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a scenario with many seeds and settings, spread over a machine or a cluster, and check every promise.

    The same call again goes on where an earlier one was ended; no finished seed runs twice. Exits with 0 when every
    point is as the scenario expects, with 1 when one is not, with 2 when the call or the scenario is wrong, with 130
    when interrupted.

    \b
    Examples:
      unisono sweep chaos --seeds 0:1000 --out sweep
      unisono sweep lossy-lan --seeds 0:100 --set loss=0,0.01,0.05 --set members=3,8 --out loss
      unisono sweep chaos --seeds 0:10000 --master spark://head:7077 --out sweep --json
    """
    if master is not None and jobs is not None:
        raise typer.BadParameter("a master says itself how many cores there are", param_hint="--jobs")
    from unisono.pipeline.spark.shipping import code_digest
    from unisono.simulation.library import scenario_text
    from unisono.sweeps.grid import points
    from unisono.sweeps.store import Asked, Store

    chosen = seed_range(seeds)
    grid = points(scenario, changes or ())
    asked = Asked(
        scenario=grid[0].scenario.name,
        text=scenario_text(scenario)[0],
        changes=tuple(changes or ()),
        seeds=(chosen.start, chosen.stop),
        keep=keep.value,
        code=code_digest(),
        command=_command(scenario, seeds, out, changes or (), keep),
    )
    with Store(out, asked) as store:
        raise typer.Exit(_Call(scenario, grid, chosen, keep, store, asked).run(master, jobs, as_json))


class _Call:
    """One call of the command."""

    def __init__(self, name: str, grid: Sequence[Point], seeds: range, keep: Keep, store: Store, asked: Asked) -> None:
        from unisono.sweeps.summary import Failure, PointCount

        self._name = name
        self._grid = grid
        self._seeds = seeds
        self._keep = keep
        self._store = store
        self._asked = asked
        self._counts = [PointCount(point) for point in grid]
        self._failures: list[Failure] = []
        self._progress = SweepProgress(len(grid) * len(seeds))

    def run(self, master: str | None, jobs: int | None, as_json: bool) -> int:
        """Do what is left, then tell; the exit code."""
        interrupted = False
        try:
            with self._progress:
                self._run(master, jobs)
        except KeyboardInterrupt:
            interrupted = True
        return self._tell(interrupted, as_json)

    def _run(self, master: str | None, jobs: int | None) -> None:
        from unisono.sweeps.planning import Plan
        from unisono.sweeps.sweep import Sweep
        from unisono.sweeps.task import run_task

        plan = Plan(len(self._grid), self._seeds, map(self._count, self._store.rows()))
        if not plan.seeds_left:
            return
        place = master or (f"local[{jobs}]" if jobs else None)
        from unisono.pipeline.spark.session import profile_of, running
        from unisono.pipeline.spark.waves import QUICK

        with running(profile_of(place), place, more=QUICK) as session:
            from unisono.pipeline.spark.spread import Spread

            self._progress.begin(len(self._grid) * len(self._seeds) - plan.seeds_left)
            scenarios = {point.number: point.scenario for point in self._grid}
            spread = Spread(session, run_task)
            Sweep(spread, self._store, plan, scenarios, self._keep, self._count, self._list_traces).run()

    def _count(self, row: SeedRow) -> SeedRow:
        from unisono.sweeps.summary import Failure

        self._counts[row.point].add(row)
        self._progress.advance(row.failed)
        if row.failed:
            self._failures.append(
                Failure(
                    point=row.point,
                    seed=row.seed,
                    verdict=row.verdict,
                    violated=row.violated,
                    stopped=row.stopped,
                    trace=row.trace,
                    replay=self._replay(row),
                )
            )
        return row

    def _replay(self, row: SeedRow) -> str:
        changes = [part for change in self._grid[row.point].changes for part in ("--set", change)]
        return shlex.join(["unisono", "simulate", self._name, "--seed", str(row.seed), *changes])

    def _list_traces(self, rows: Sequence[SeedRow]) -> None:
        """Every trace that was written is in the catalogue beside it."""
        add_to_catalogue(
            [
                Made(
                    (self._store.traces / row.trace).absolute(),
                    self._replay(row),
                    self._asked.scenario,
                    row.seed,
                    row.violations,
                    run_options(draw(self._grid[row.point].scenario, row.seed), self._grid[row.point].changes),
                )
                for row in rows
                if row.trace is not None
            ]
        )

    def _tell(self, interrupted: bool, as_json: bool) -> int:
        from unisono.pipeline.pages.templating import why_no_page
        from unisono.sweeps.page import render_sweep
        from unisono.sweeps.store import PAGE, SUMMARY
        from unisono.sweeps.summary import sweep_json

        asked = len(self._grid) * len(self._seeds)
        scenario = self._grid[0].scenario
        told = [count.summary(len(self._seeds)) for count in self._counts]
        failures = sorted(self._failures, key=lambda failure: (failure.point, failure.seed))
        code = INTERRUPTED if interrupted else 0 if all(point.met for point in told) else 1
        page = None
        if why_no_page() is None:
            text = render_sweep(scenario, self._seeds, told, failures, self._asked.command)
            page = self._store.write(PAGE, text)
        said = sweep_json(
            scenario,
            {
                "command": self._asked.command,
                "asked": asked,
                "directory": str(self._store.directory),
                "page": str(page) if page else None,
            },
            told,
            failures,
        )
        self._store.write(SUMMARY, canonical_json({**said, "exit": code}))
        if as_json:
            echo_json({**said, "exit": code})
            return code
        show_sweep(scenario, self._seeds, told, failures, asked)
        if page is not None:
            typer.echo(f"page: {page}")
        if interrupted:
            typer.echo(f"go on with: {self._asked.command}")
        return code


def _command(scenario: str, seeds: str, out: Path, changes: Sequence[str], keep: Keep) -> str:
    """What to paste to go on with this sweep."""
    settings = [part for change in changes for part in ("--set", change)]
    kept = [] if keep is Keep.FAILING else ["--keep", keep.value]
    return shlex.join(["unisono", "sweep", scenario, "--seeds", seeds, *settings, *kept, "--out", str(out)])
