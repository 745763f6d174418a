"""Sweeps without Spark: the same verdicts as a campaign, nothing runs twice, nothing ends it but the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.sweeping import SHORT, Threads, asked, swept
from unisono.errors import TraceError, UnisonoError
from unisono.simulation.campaign import SeedJob, run_seeds
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.sweeps import packing, task
from unisono.sweeps.result import WORKER_ENDED, Returned, SeedRow, decode, encode
from unisono.sweeps.store import ASKED, RESULTS, Store, read_piece
from unisono.sweeps.task import Keep, run_seed
from unisono.trace.run_directory import is_run_directory, read_run
from unisono.trace.schema import DeliverRow, SendRow

pytest.importorskip("pyarrow")
LOSSY = ("duration=500ms", "settle=2500ms", "loss=0,0.45")


def test_a_sweep_finds_what_a_campaign_finds_and_keeps_the_traces_of_failures(tmp_path: Path) -> None:
    spread = Threads()
    rows = swept(tmp_path / "sweep", spread, range(3), LOSSY)
    found = {(row.point, row.seed): (row.verdict, row.violated, row.counters) for row in rows}
    for point, loss in enumerate(("0", "0.45")):
        jobs = [SeedJob(load("quiet-lan", [*LOSSY[:2], f"loss={loss}"]), seed) for seed in range(3)]
        for result in run_seeds(jobs, 1):
            assert result.outcome is not None
            verdict = "violated" if result.outcome.violated else "held"
            assert found[point, result.seed] == (verdict, result.outcome.violated, result.outcome.counters)
    failing = [row for row in rows if row.failed]
    assert failing, "the tests below mean nothing without a failure"
    assert {row.trace for row in rows if not row.failed} == {None}
    for row in failing:
        assert row.trace == f"point-{row.point}-seed-{row.seed}"
        folder = tmp_path / "sweep" / "traces" / row.trace
        assert is_run_directory(folder)
        assert sum(one.kind == "DELIVER" for one in read_run(folder)) == row.deliveries
    assert sorted(spread.ran) == sorted((row.point, row.seed) for row in rows)


def test_a_row_tells_the_latency_to_the_last_delivery(tmp_path: Path) -> None:
    (row,) = swept(tmp_path / "sweep", Threads(), range(1), keep=Keep.ALL)
    trace = read_run(tmp_path / "sweep" / "traces" / "point-0-seed-0")
    sent = {(one.process, one.number): one.truth or 0 for one in trace if isinstance(one, SendRow)}
    last = {(one.source, one.number): one.truth or 0 for one in trace if isinstance(one, DeliverRow)}
    taken = sorted(last[message] - sent[message] for message in last)
    assert (row.messages, row.rows) == (len(sent), len(trace))
    assert row.latency_highest_ms == taken[-1] / 1e6
    assert row.latency_p50_ms == taken[(len(taken) + 1) // 2 - 1] / 1e6


def test_a_second_call_runs_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    seen: list[SeedRow] = []

    def stop(row: SeedRow) -> None:
        seen.append(row)
        if len(seen) == 5:
            raise Enough

    first = Threads(slots=1)
    with pytest.raises(Enough):
        swept(tmp_path, first, range(12), on_row=stop)
    pieces = list((tmp_path / RESULTS).iterdir())
    done = {(row.point, row.seed) for path in pieces for row in read_piece(path)}
    assert len(done) >= 5
    second = Threads()
    rows = swept(tmp_path, second, range(12))
    assert not done & set(second.ran)
    assert len(second.ran) == 12 - len(done)
    assert [row.seed for row in rows] == list(range(12))
    third = Threads()
    assert swept(tmp_path, third, range(12)) == rows
    assert third.ran == []


PROGRAM = """
import sys
from pathlib import Path
from threading import Event
import unisono.sweeps.sweep
from unisono.sweeps import task
unisono.sweeps.sweep.COMMIT_SECONDS = 0.02
run = task.run
def stuck(scenario, *arguments):
    if scenario.seed >= 40:
        Event().wait()
    return run(scenario, *arguments)
task.run = stuck
from tests.unit.sweeping import Threads, swept
swept(Path(sys.argv[1]), Threads(), range(60))
"""


def test_a_kill_leaves_whole_pieces_to_go_on_from(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "sweep")], env=environment)
    try:
        deadline = time.monotonic() + 60
        while len(list((tmp_path / "sweep").glob("results/part-*.parquet"))) < 1:
            assert process.poll() is None, "it was to be killed before its end"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = {row.seed for path in (tmp_path / "sweep" / RESULTS).glob("part-*.parquet") for row in read_piece(path)}
    assert 0 < len(done) < 60
    spread = Threads()
    rows = swept(tmp_path / "sweep", spread, range(60))
    assert [row.seed for row in rows] == list(range(60))
    assert {seed for _, seed in spread.ran} == set(range(60)) - done
    assert not list((tmp_path / "sweep" / RESULTS).glob(".*"))


def test_a_seed_that_raises_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(scenario: object, *arguments: object) -> object:
        assert getattr(scenario, "seed", None) != 2, "seed 2\nbreaks"
        return run(scenario, *arguments)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(task, "run", breaking)
    rows = swept(tmp_path, Threads(), range(5))
    assert [row.verdict for row in rows] == ["held", "held", "stopped", "held", "held"]
    assert rows[2].stopped == "AssertionError: seed 2"
    assert rows[2].origin is not None
    assert "breaking" in rows[2].origin


@pytest.mark.parametrize("slots", [1, 40])
def test_a_seed_that_ends_its_worker_is_found_and_the_rest_goes_on(tmp_path: Path, slots: int) -> None:
    rows = swept(tmp_path, Threads(deadly={7, 13}, slots=slots), range(20))
    assert [row.seed for row in rows if row.verdict == "stopped"] == [7, 13]
    assert {row.stopped for row in rows if row.failed} == {WORKER_ENDED}
    assert len(rows) == 20


def test_a_worker_that_is_killed_once_costs_no_result(tmp_path: Path) -> None:
    rows = swept(tmp_path, Threads(once={3, 4, 9}), range(12))
    assert [row.verdict for row in rows] == ["held"] * 12


def test_where_no_worker_lives_the_sweep_ends_with_why(tmp_path: Path) -> None:
    with pytest.raises(UnisonoError, match="every worker does: crashed"):
        swept(tmp_path, Threads(deadly=range(20)), range(20))
    assert len(swept(tmp_path, Threads(), range(20))) == 20


def test_time_ends_a_task_and_the_rest_is_handed_out_again(tmp_path: Path) -> None:
    def two_at_a_time(data: bytes) -> Iterator[bytes]:
        for number, result in enumerate(task.run_task(data)):
            if number == 2:
                return
            yield result

    spread = Threads(two_at_a_time, slots=1)
    assert len(swept(tmp_path, spread, range(40))) == 40
    assert len(spread.ran) == 40


def test_a_task_that_is_out_of_time_still_does_one_seed() -> None:
    scenario = load("quiet-lan", SHORT)
    payload = task.Task((task.Span(0, 0, 9),), {0: scenario}, Keep.FAILING, 0, 1e-9).encode()
    assert [decode(data).row.seed for data in task.run_task(payload)] == [0]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"scenario": "chaos"}, r"of another scenario \(quiet-lan\)"),
        ({"text": "name"}, "scenario file that has changed"),
        ({"changes": ("loss=0",)}, "with --set loss=1 --set members=3,4"),
        ({"seeds": (0, 5)}, "with --seeds 0:4"),
        ({"keep": "all"}, "with --keep failing"),
        ({"code": "d"}, "another version of this package"),
    ],
)
def test_other_arguments_are_refused_with_those_of_before(
    tmp_path: Path, fields: dict[str, object], complaint: str
) -> None:
    before = {"changes": ("loss=1", "members=3,4")}
    with Store(tmp_path, asked(**before)):
        pass
    words = f"{complaint}.*go on with it as it was begun: unisono sweep quiet-lan"
    with pytest.raises(TraceError, match=words), Store(tmp_path, asked(**{**before, **fields})):
        pass
    with Store(tmp_path, asked(**before)):
        pass


def test_a_directory_is_for_one_sweep_at_a_time_and_for_nothing_else(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "a", asked()),
        pytest.raises(TraceError, match="another sweep is at work"),
        Store(tmp_path / "a", asked()),
    ):
        pass
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("", encoding="utf-8")
    with pytest.raises(TraceError, match="not a sweep"), Store(tmp_path / "b", asked()):
        pass
    with pytest.raises(TraceError, match="is a file"), Store(tmp_path / "b" / "thesis.txt", asked()):
        pass
    (tmp_path / "a" / ASKED).write_text("{}", encoding="utf-8")
    with pytest.raises(TraceError, match="is not what a sweep"), Store(tmp_path / "a", asked()):
        pass


def test_a_piece_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    rows = swept(tmp_path, Threads(), range(2))
    assert len(rows) == 2
    (piece,) = (tmp_path / RESULTS).iterdir()
    piece.write_bytes(piece.read_bytes()[:100])
    with pytest.raises(TraceError, match="remove it to run its seeds again"):
        swept(tmp_path, Threads(), range(2))


def test_of_a_sample_every_hundredth_leaves_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "SAMPLE_EVERY", 3)
    rows = swept(tmp_path, Threads(), range(5, 12), keep=Keep.SAMPLE)
    assert [row.seed for row in rows if row.trace] == [5, 8, 11]


def test_a_trace_that_is_too_large_is_not_sent_and_that_is_said(tmp_path: Path) -> None:
    packed = run_seed(load("quiet-lan", SHORT), 0, 0, wanted=True).packed
    assert packed is not None
    packing.unpack(packed, tmp_path / "run")
    packing.unpack(packed, tmp_path / "run")
    assert is_run_directory(tmp_path / "run")
    nothing, why = packing.pack(tmp_path / "run", limit_bytes=100)
    assert nothing is None
    assert why is not None
    assert "replay it with --out" in why
    with pytest.raises(TraceError, match="cannot write the run"):
        packing.unpack(b"not an archive", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["run"]


def test_results_travel_as_bytes() -> None:
    row = SeedRow(point=1, seed=2, verdict="held", failed=False, violations={"D1": 0}, latency_p50_ms=0.5)
    assert decode(encode(Returned(row, b"x"))) == Returned(row, b"x")
    assert replace(row, violations={"D1": 2, "O1": 0}).violated == ("D1",)
    assert textwrap.dedent(SeedRow.__doc__ or "").startswith("One seed at one point")
