"""Runs one scenario over many seeds on all cores, and judges what came out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from itertools import islice
from pathlib import Path

from msgspec import Struct

from unisono.errors import UnisonoError
from unisono.marks import HIERARCHY_MARKS, MARKS, SESSION_MARKS
from unisono.properties.registry import in_order
from unisono.simulation.draw import draw
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Scenario


class Keep(StrEnum):
    """Which seeds of a campaign leave their trace."""

    FAILING = "failing"
    ALL = "all"


_JOBS_AHEAD = 4
"""Seeds handed out for each worker, so that none waits and memory does not grow with the campaign."""


class SeedJob(Struct, frozen=True):
    """One seed to run; the trace goes to `out`, always or only where the run fails."""

    scenario: Scenario
    seed: int
    out: Path | None = None
    keep: Keep = Keep.ALL


class SeedResult(Struct, frozen=True):
    """What became of one seed: an outcome, or the error that stopped the run and where it came from."""

    seed: int
    outcome: Outcome | None = None
    stopped: str | None = None
    out: Path | None = None
    origin: str | None = None

    def failed(self, expect: str) -> bool:
        """Whether it stopped, or violates something that the scenario does not expect."""
        if self.outcome is None:
            return True
        return any(name != expect for name in self.outcome.violated)


Runner = Callable[[SeedJob], SeedResult]


def run_seed(job: SeedJob) -> SeedResult:
    """Run one seed in this process, in simulation."""
    from unisono.simulation.world import run

    return run_seed_by(run, job)


def run_seed_by(run: Callable[[Scenario, Path | None], Outcome], job: SeedJob) -> SeedResult:
    """Draw one seed and run it. A run that breaks an assertion is a result; misuse is raised."""
    drawn = draw(job.scenario, job.seed)
    try:
        outcome = run(drawn, job.out if job.keep is Keep.ALL else None)
        result = SeedResult(job.seed, outcome, None, job.out if job.keep is Keep.ALL else None)
        if job.out is not None and job.keep is Keep.FAILING and result.failed(job.scenario.expect):
            run(drawn, job.out)
            result = SeedResult(job.seed, outcome, None, job.out)
    except (UnisonoError, OSError):
        raise
    except Exception as error:
        words = str(error).partition("\n")[0]
        return SeedResult(job.seed, None, f"{type(error).__name__}: {words}", None, traceback.format_exc())
    return result


def run_seeds(jobs: Sequence[SeedJob], workers: int, runner: Runner = run_seed) -> Iterator[SeedResult]:
    """The results as they come. Closing the iterator, or an interrupt, ends the workers at once."""
    if workers == 1 or len(jobs) == 1:
        yield from map(runner, jobs)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, initializer=_begin_worker)
    remaining = iter(jobs)
    running: dict[Future[SeedResult], SeedJob] = {}
    try:
        while True:
            try:
                for job in islice(remaining, workers * _JOBS_AHEAD - len(running)):
                    running[pool.submit(runner, job)] = job
            except BrokenProcessPool:
                remaining = iter(())
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield _result(future, running.pop(future))
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[SeedResult], job: SeedJob) -> SeedResult:
    try:
        return future.result()
    except BrokenProcessPool:
        return SeedResult(job.seed, None, "the worker process ended")


def _begin_worker() -> None:
    """Ctrl-C reaches the whole process group; the parent alone decides what follows. A worker ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Judgement(Struct, frozen=True, kw_only=True):
    """A campaign in sum: `met` says whether it came out as the scenario expects."""

    met: bool
    seeds: int
    held: int
    failing: tuple[int, ...]
    violated: dict[str, int]
    marks: dict[str, int]
    missing_marks: tuple[str, ...]


def every_mark(scenario: Scenario) -> tuple[str, ...]:
    """The marks that drawn faults are to reach in a scenario of this protocol."""
    if scenario.protocol == "virtual_synchrony":
        return tuple(SESSION_MARKS)
    return (*MARKS, *(HIERARCHY_MARKS if scenario.options.get("control", True) is not False else ()))


def missing_marks(scenario: Scenario, marks: Mapping[str, int], seeds: int) -> tuple[str, ...]:
    """The marks that the scenario asks for and that so many seeds, if they are enough, did not reach."""
    if not scenario.marks or seeds < scenario.marks_seeds:
        return ()
    wanted = every_mark(scenario) if scenario.marks == "all" else scenario.marks
    return tuple(mark for mark in wanted if not marks.get(mark))


def judge(scenario: Scenario, results: Iterable[SeedResult], asked: int) -> Judgement:
    """Hold the results against what the scenario expects; `asked` is how many seeds were to run.

    A violation that is expected has to show in one run at least. Marks are asked for only when enough seeds ran.
    """
    ordered = sorted(results, key=lambda result: result.seed)
    outcomes = [result.outcome for result in ordered if result.outcome is not None]
    failing = tuple(result.seed for result in ordered if result.failed(scenario.expect))
    violated = Counter(name for outcome in outcomes for name in outcome.violated)
    marks: Counter[str] = Counter()
    for outcome in outcomes:
        marks.update(outcome.marks)
    missing = missing_marks(scenario, marks, len(ordered))
    as_expected = scenario.expect == "held" or violated[scenario.expect] > 0
    return Judgement(
        met=not failing and as_expected and not missing and len(ordered) == asked,
        seeds=len(ordered),
        held=sum(not outcome.violated for outcome in outcomes),
        failing=failing,
        violated={name: violated[name] for name in in_order(violated)},
        marks=dict(sorted(marks.items())),
        missing_marks=missing,
    )
