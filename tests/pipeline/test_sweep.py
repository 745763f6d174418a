"""`unisono sweep` on Spark: verdicts, traces and pages, commands that replay, calls that go on, workers that die."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.conftest import Call
from tests.unit.sweeping import SHORT, asked
from unisono.cli.sweep_report import SweepProgress
from unisono.sweeps.grid import points
from unisono.sweeps.planning import Plan
from unisono.sweeps.result import WORKER_ENDED
from unisono.sweeps.store import Store
from unisono.sweeps.task import Keep
from unisono.trace.run_directory import is_run_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOSSY = ("--set", "duration=500ms", "--set", "settle=2500ms", "--set", "loss=0,0.45")


def test_a_sweep_from_its_call_to_its_page(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    arguments = ("sweep", "quiet-lan", "--seeds", "0:3", *LOSSY, "--out", tmp_path / "sweep")
    code, out, _ = call(*arguments, "--json")
    told = json.loads(out)
    calm, lossy = told["points"]
    assert (code, told["exit"], told["met"]) == (1, 1, False)
    assert (calm["name"], calm["seeds"], calm["held"], calm["met"]) == ("loss=0", 3, 3, True)
    assert (lossy["name"], lossy["seeds"], lossy["met"]) == ("loss=0.45", 3, False)
    assert lossy["failing"] == len(told["failures"]) > 0

    failure = told["failures"][0]
    command = shlex.split(failure["replay"])
    assert command[:5] == ["unisono", "simulate", "quiet-lan", "--seed", str(failure["seed"])]
    code, out, _ = call(*command[1:], "--json")
    (replayed,) = json.loads(out)["runs"]
    assert code == 1
    assert sorted(name for name, count in replayed["verdicts"].items() if count) == failure["violated"]

    folder = tmp_path / "sweep" / "traces" / failure["trace"]
    assert is_run_directory(folder)
    code, out, _ = call("runs", folder.parent, "--json")
    listed = {entry["run"]: entry for entry in json.loads(out)["runs"]}
    assert listed[failure["trace"]]["command"] == failure["replay"]
    assert len(listed) == lossy["failing"]

    page = (tmp_path / "sweep" / "page.html").read_text(encoding="utf-8")
    assert failure["replay"].replace("'", "&#39;") in page
    assert "Not as expected at 1 of 2 points" in page
    assert not any(word in page for word in ("<script src", "<link", "http://", "https://"))

    pieces = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "results").iterdir()}
    code, out, _ = call(*arguments)
    assert code == 1
    assert failure["replay"] in out
    assert "2 points, 6 seeds" in out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "results").iterdir()} == pieces

    rows = spark.read.parquet(str(tmp_path / "sweep" / "results"))
    assert rows.where("point = 0 and violations['L2'] = 0 and counters['SEND'] = messages").count() == 3

    code, _, err = call("sweep", "quiet-lan", "--seeds", "0:4", *LOSSY, "--out", tmp_path / "sweep")
    assert code == 2
    assert "holds a sweep with --seeds 0:3; choose another directory" in err


def test_an_interrupt_leaves_what_is_done_and_says_how_to_go_on(
    spark: SparkSession, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = SweepProgress.advance
    counted: list[bool] = []

    def interrupted(self: SweepProgress, failed: bool) -> None:
        advance(self, failed)
        counted.append(failed)
        if len(counted) == 2:
            signal.raise_signal(signal.SIGINT)

    short = [part for change in SHORT for part in ("--set", change)]
    arguments = ("sweep", "quiet-lan", "--seeds", "0:6", *short, "--out", tmp_path / "sweep")
    monkeypatch.setattr(SweepProgress, "advance", interrupted)
    code, out, _ = call(*arguments)
    assert code == 130
    assert f"go on with: unisono sweep quiet-lan --seeds 0:6 {' '.join(short)} --out" in out
    monkeypatch.setattr(SweepProgress, "advance", advance)
    code, out, err = call(*arguments)
    assert code == 0
    assert "6 seeds, 6 held" in out
    assert "going on: 2 of 6 seeds are done" in err


def test_a_worker_that_dies_is_a_result(spark: SparkSession, tmp_path: Path) -> None:
    from unisono.pipeline.spark.spread import Spread
    from unisono.sweeps.sweep import Sweep
    from unisono.sweeps.task import run_task

    kill, once = signal.SIGKILL, str(tmp_path / "killed")

    # It travels by value: workers know nothing of tests.
    def deadly(data: bytes) -> Iterator[bytes]:
        import pickle

        seeds = {seed for span in pickle.loads(data).spans for seed in range(span.first, span.end)}
        if 5 in seeds and not os.path.exists(once):
            open(once, "w").close()
            os.kill(os.getpid(), kill)
        if 2 in seeds:
            os.kill(os.getpid(), kill)
        yield from run_task(data)

    (point,) = points("quiet-lan", SHORT)
    with Store(tmp_path / "sweep", asked()) as store:
        plan = Plan(1, range(8), store.rows())
        Sweep(Spread(spark, deadly), store, plan, {0: point.scenario}, Keep.FAILING).run()
        rows = {row.seed: row for row in store.rows()}
    assert sorted(rows) == list(range(8))
    assert rows[2].stopped == WORKER_ENDED
    assert {seed for seed, row in rows.items() if row.verdict != "held"} == {2}
    assert os.path.exists(once)
