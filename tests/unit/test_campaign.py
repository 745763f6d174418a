"""Campaigns: seeds over processes, and the judgement of what they came to."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from unisono.errors import TraceError
from unisono.marks import HIERARCHY_MARKS, MARKS
from unisono.properties.violation import Violation
from unisono.simulation.campaign import SeedJob, SeedResult, judge, run_seeds, usable_cores
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Scenario

SCENARIO = Scenario(name="x")


def outcome(seed: int, **fields: Any) -> Outcome:
    empty: dict[str, Any] = {"verdicts": {"D1": 0, "O2": 0}, "violations": [], "marks": {}, "counters": {}}
    return Outcome(scenario="x", seed=seed, events=0, seconds=0.0, **{**empty, **fields})


def result(seed: int, *violated: str, **fields: Any) -> SeedResult:
    violations = [Violation(name, "g", "p", 1, 0, None, "wrong") for name in violated]
    return SeedResult(seed, outcome(seed, violations=violations, verdicts=dict.fromkeys(violated, 1), **fields))


def fast(job: SeedJob) -> SeedResult:
    return SeedResult(job.seed, outcome(job.seed, counters={"process": os.getpid()}))


def dying(job: SeedJob) -> SeedResult:
    if job.seed == 3:
        os._exit(1)
    return fast(job)


def misused(job: SeedJob) -> SeedResult:
    raise TraceError("the directory is full")


def slow(job: SeedJob) -> SeedResult:
    if job.seed:
        time.sleep(60)
    return fast(job)


def jobs(count: int) -> list[SeedJob]:
    return [SeedJob(SCENARIO, seed) for seed in range(count)]


def test_every_seed_runs_once_in_other_processes() -> None:
    results = list(run_seeds(jobs(40), 2, fast))
    assert sorted(result.seed for result in results) == list(range(40))
    workers = {result.outcome.counters["process"] for result in results if result.outcome is not None}
    assert os.getpid() not in workers
    assert 1 <= len(workers) <= 2


def test_one_worker_is_this_process() -> None:
    results = list(run_seeds(jobs(3), 1, fast))
    assert [result.seed for result in results] == [0, 1, 2]
    assert all(result.outcome and result.outcome.counters["process"] == os.getpid() for result in results)


def test_a_worker_that_dies_ends_the_campaign_with_its_seeds_named() -> None:
    results = list(run_seeds(jobs(100), 2, dying))
    stopped = {result.seed for result in results if result.stopped == "the worker process ended"}
    assert 3 in stopped
    judgement = judge(SCENARIO, results, 100)
    assert not judgement.met
    assert 3 in judgement.failing


def test_misuse_in_a_worker_is_raised_here() -> None:
    with pytest.raises(TraceError, match="full"):
        list(run_seeds(jobs(4), 2, misused))


def test_giving_up_ends_the_workers_at_once() -> None:
    begin = time.monotonic()
    results = run_seeds(jobs(4), 2, slow)
    assert next(results).seed == 0
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert time.monotonic() - begin < 20
    assert multiprocessing.active_children() == []


ALONE = """
from tests.unit.test_campaign import jobs, run_seeds, slow

if __name__ == "__main__":
    for result in run_seeds(jobs(4), 2, slow):
        print(result.outcome.counters["process"], flush=True)
"""


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_campaign_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as campaign:
        assert campaign.stdout is not None
        worker = int(campaign.stdout.readline())
        assert is_running(worker)
        campaign.kill()
    until = time.monotonic() + 30
    while is_running(worker):
        assert time.monotonic() < until, "a worker outlives its campaign"
        time.sleep(0.01)


def test_held() -> None:
    judgement = judge(SCENARIO, [result(1), result(0, marks={"gap": 2})], 2)
    assert judgement.met
    assert (judgement.seeds, judgement.held, judgement.marks) == (2, 2, {"gap": 2})


def test_a_violation_fails() -> None:
    judgement = judge(SCENARIO, [result(0), result(1, "O2", "D1"), SeedResult(2, None, "AssertionError")], 3)
    assert not judgement.met
    assert judgement.failing == (1, 2)
    assert judgement.violated == {"D1": 1, "O2": 1}


@pytest.mark.parametrize(
    ("results", "met"),
    [
        ([result(0, "O2")], True),
        ([result(0), result(1, "O2")], True),
        ([result(0)], False),
        ([result(0, "O2", "D1")], False),
        ([result(0, "O2"), result(1, "D1")], False),
    ],
)
def test_an_expected_violation_shows_once_and_alone(results: list[SeedResult], met: bool) -> None:
    assert judge(replace(SCENARIO, expect="O2"), results, len(results)).met is met


def test_marks_are_asked_for_when_enough_seeds_ran() -> None:
    scenario = replace(SCENARIO, marks=("gap", "woke-up"), marks_seeds=2)
    one = [result(0, marks={"gap": 1})]
    assert judge(scenario, one, 1).met
    judgement = judge(scenario, [*one, result(1)], 2)
    assert not judgement.met
    assert judgement.missing_marks == ("woke-up",)
    assert judge(scenario, [*one, result(1, marks={"woke-up": 1})], 2).met
    everything = judge(replace(scenario, marks="all"), [*one, result(1)], 2)
    assert set(everything.missing_marks) == set(MARKS | HIERARCHY_MARKS) - {"gap"}


def test_an_interrupted_campaign_is_not_met() -> None:
    assert not judge(SCENARIO, [result(0)], 2).met


def test_there_is_a_core() -> None:
    assert usable_cores() >= 1
