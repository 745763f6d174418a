"""`unisono simulate`: runs a scenario with one seed or many and says whether its promises held."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.phases import Phases
from unisono.cli.runs import Made, add_to_catalogue
from unisono.cli.simulation_report import (
    Progress,
    campaign_json,
    echo_json,
    failing_line,
    show_campaign,
    show_scenarios,
    show_seed,
)
from unisono.errors import TraceError
from unisono.runtime.interfaces import LOOPBACK
from unisono.settings import SERVICE_CODES, Settings
from unisono.simulation.campaign import (
    Keep,
    Runner,
    SeedJob,
    SeedResult,
    judge,
    run_seed,
    run_seed_by,
    run_seeds,
    usable_cores,
)
from unisono.simulation.cast import cast_of
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import DEFAULT_GROUP, Scenario
from unisono.simulation.scenario_text import write_scenario
from unisono.trace.catalogue import CATALOGUE
from unisono.trace.run_directory import is_run_directory

INTERRUPTED = 130


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="A scenario by its name, or a file.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed; by default the scenario's own, or 0.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Run the seeds from A up to B, without B.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the scenario; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the trace here.")] = None,
    keep: Annotated[Keep, typer.Option(help="Of many seeds, which traces to write.")] = Keep.FAILING,
    listed: Annotated[bool, typer.Option("--list", help="List the scenarios that come with unisono.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the scenario as the seed draws it, and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes for many seeds; by default one for each core.")
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Run it on real processes, in namespaces of this machine; needs root.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Run it on real processes without root or bad networks; `unisono top` can watch groups of peers.",
        ),
    ] = False,
    realm: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --live, the realm of the processes; by default a new one.")
    ] = None,
) -> None:
    """Run a scenario in simulation, or on real processes, and check every promise.

    Exits with 0 when the run is as the scenario expects, with 1 when it is not, with 2 when the call or
    the scenario is wrong.

    \b
    Examples:
      unisono simulate quiet-lan
      unisono simulate chaos --seeds 0:500 --out runs
      unisono simulate chaos --seed 17 --set loss=0.05 --explain
      unisono simulate rough-ride --real --out run
      unisono simulate vs-servers --real --out run
      unisono simulate receiver-churn --live
    """
    if listed:
        show_scenarios(as_json)
        return
    if scenario is None:
        raise typer.BadParameter(
            "name a scenario or a file; --list shows the scenarios there are", param_hint="NAME|FILE"
        )
    if real and live:
        raise typer.BadParameter("give either --real or --live", param_hint="--live")
    if realm is not None and not live:
        raise typer.BadParameter("only processes that run live are in a realm; add --live", param_hint="--realm")
    changed = changes or []
    loaded = load(scenario, changed)
    if live and not any(_is_size(change) for change in changed):
        from unisono.trials.loopback import fit

        loaded = fit(loaded)
    chosen = _chosen_seeds(loaded, seed, seeds)
    if explain:
        if len(chosen) > 1:
            raise typer.BadParameter("explains one seed; give --seed", param_hint="--explain")
        _explain(loaded, chosen[0], as_json)
        return
    replay = ["unisono", "simulate", scenario, *(part for change in changed for part in ("--set", change))]
    runner: Runner = run_seed
    workers = jobs or usable_cores()
    if real:
        runner, workers, keep = _real_runner(), 1, Keep.ALL
        replay.append("--real")
    if live:
        realm = realm or f"live-{os.getpid()}"
        runner, workers, keep = _live_runner(realm), 1, Keep.ALL
        replay += ["--live", "--realm", realm]
    if seeds is None:
        _run_one(loaded, chosen[0], out, runner, replay, changed, as_json)
    else:
        _run_many(loaded, chosen, out, keep, runner, workers, replay, changed, as_json)


def _real_runner() -> Runner:
    """Trials take their time, one after another, and are not replayed: every trace is kept."""
    from unisono.trials.trial import run_trial

    def run(scenario: Scenario, out: Path | None) -> Outcome:
        with Phases() as phases:
            return run_trial(scenario, out, phases.show)

    return partial(run_seed_by, run)


def _is_size(change: str) -> bool:
    return change.partition("=")[0].strip() == "members"


def _live_runner(realm: str) -> Runner:
    """Says how the processes can be watched, then runs them by the clock."""
    from unisono.trials.loopback import refuse_what_needs_a_network, run_on_loopback

    def run(drawn: Scenario, out: Path | None) -> Outcome:
        refuse_what_needs_a_network(drawn)
        typer.echo("\n".join(_who_runs(drawn, realm)), err=True)
        with Phases() as phases:
            return run_on_loopback(drawn, out, phases.show, realm)

    return partial(run_seed_by, run)


def _who_runs(drawn: Scenario, realm: str) -> list[str]:
    """The processes on the loopback, and how they are watched; who is in a session does not answer `top`."""
    cast = cast_of(drawn)
    if cast.servers:
        parts = [f"{cast.members} clients", f"{cast.servers} membership servers"]
        parts += [f"{cast.controllers} controllers"] if cast.controllers else []
        return [f"{cast.size} processes on the loopback of this machine: {', '.join(parts)}"]
    groups = [group.name for group in drawn.groups] or [DEFAULT_GROUP]
    watches = [["unisono", "top", group, "--realm", realm, "--interface", LOOPBACK] for group in groups]
    first = f"{cast.size} processes on the loopback of this machine; watch them in another terminal:"
    return [first, *(f"  {shlex.join(watch)}" for watch in watches)]


def _chosen_seeds(scenario: Scenario, seed: int | None, seeds: str | None) -> range:
    if seeds is None:
        first = seed if seed is not None else scenario.seed or 0
        return range(first, first + 1)
    if seed is not None:
        raise typer.BadParameter("give either --seed or --seeds", param_hint="--seeds")
    return seed_range(seeds)


def seed_range(text: str) -> range:
    """The seeds that `--seeds` names."""
    match = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise typer.BadParameter(f"expected A:B with A below B, such as 0:100, got {text!r}", param_hint="--seeds")
    return range(int(match[1]), int(match[2]))


def _explain(scenario: Scenario, seed: int, as_json: bool) -> None:
    text = write_scenario(draw(scenario, seed))
    if as_json:
        echo_json({"scenario": scenario.name, "seed": seed, "text": text})
    else:
        typer.echo(text, nl=False)


def _run_one(
    scenario: Scenario,
    seed: int,
    out: Path | None,
    runner: Runner,
    replay: Sequence[str],
    changes: Sequence[str],
    as_json: bool,
) -> None:
    if out is not None and not is_run_directory(out):
        _refuse_what_is_there(out)
    try:
        results = list(run_seeds([SeedJob(scenario, seed, out)], 1, runner))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _note_in_catalogue(scenario, results, replay, changes)
    judgement = judge(scenario, results, 1)
    code = 0 if judgement.met else 1
    if as_json:
        echo_json({**campaign_json(scenario, results, judgement, lambda one: _command(replay, one)), "exit": code})
    else:
        show_seed(scenario, results[0], judgement, _command(replay, seed))
    raise typer.Exit(code)


def _run_many(
    scenario: Scenario,
    seeds: range,
    out: Path | None,
    keep: Keep,
    runner: Runner,
    workers: int,
    replay: Sequence[str],
    changes: Sequence[str],
    as_json: bool,
) -> None:
    if out is not None:
        _make_room_for_seeds(out)
    jobs = [SeedJob(scenario, seed, out / f"seed-{seed}" if out else None, keep) for seed in seeds]
    results: list[SeedResult] = []
    interrupted = False
    try:
        with Progress(len(jobs)) as progress:
            for result in run_seeds(jobs, workers, runner):
                results.append(result)
                failed = result.failed(scenario.expect)
                progress.advance(failed)
                if failed and not as_json:
                    typer.echo(failing_line(result, _command(replay, result.seed)))
    except KeyboardInterrupt:
        interrupted = True
    _note_in_catalogue(scenario, results, replay, changes)
    judgement = judge(scenario, results, len(seeds))
    code = INTERRUPTED if interrupted else 0 if judgement.met else 1
    if as_json:
        echo_json({**campaign_json(scenario, results, judgement, lambda one: _command(replay, one)), "exit": code})
    else:
        show_campaign(scenario, judgement, len(seeds), out)
    raise typer.Exit(code)


def _note_in_catalogue(
    scenario: Scenario, results: Sequence[SeedResult], replay: Sequence[str], changes: Sequence[str]
) -> None:
    """Every trace that was written is listed beside it."""
    add_to_catalogue(
        [
            Made(
                result.out.absolute(),
                _command(replay, result.seed),
                scenario.name,
                result.seed,
                result.outcome.verdicts,
                run_options(draw(scenario, result.seed), changes),
            )
            for result in results
            if result.out is not None and result.outcome is not None
        ]
    )


def run_options(drawn: Scenario, changes: Sequence[str]) -> dict[str, str]:
    """What the catalogue says of a run's options: services, members and message sizes, then what was changed."""
    plans = [drawn.options, *(plan.options for plan in drawn.member_plans)]
    sizes = [(load.size, load.size) if isinstance(load.size, int) else load.size for load in drawn.workloads]
    if drawn.protocol == "virtual_synchrony":
        semantics = {plan.get("semantics", Settings().semantics) for plan in plans}
        told = {"semantics": ",".join(sorted(semantics)), "members": str(drawn.members), "servers": str(drawn.servers)}
    else:
        services = {SERVICE_CODES[plan.get("service", Settings().service)] for plan in plans}
        told = {"service": ",".join(sorted(services)), "members": str(drawn.members)}
    if sizes:
        least, most = min(low for low, _ in sizes), max(high for _, high in sizes)
        told["size"] = str(least) if least == most else f"{least}:{most}"
    for change in changes:
        key, _, value = change.partition("=")
        told[key.strip()] = value.strip()
    return told


def _command(replay: Sequence[str], seed: int) -> str:
    """What to paste to see this seed again."""
    return shlex.join([*replay[:3], "--seed", str(seed), *replay[3:]])


def _refuse_what_is_there(out: Path) -> None:
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists():
        raise TraceError(f"{out} holds something that is not a run; choose another directory or empty this one")


def _make_room_for_seeds(out: Path) -> None:
    """Traces of an earlier campaign are removed; anything else that is there is not ours."""
    if not out.is_dir():
        _refuse_what_is_there(out)
        return
    earlier = [entry for entry in out.iterdir() if entry.name != CATALOGUE]
    for entry in earlier:
        if not (re.fullmatch(r"seed-\d+", entry.name) and is_run_directory(entry)):
            raise TraceError(f"{entry} is not the trace of a seed; choose another directory")
    for entry in earlier:
        shutil.rmtree(entry)
