"""Runs as a collector writes them are audited as any other: what held holds, what is damaged is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.pipeline.traces import damaged_once
from unisono.pipeline.tables import read_tables
from unisono.properties.generator import good_trace
from unisono.trace.lake import Lake
from unisono.trace.reports import make_report
from unisono.trace.schema import FAMILIES, AnyRow, family_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Call = Callable[..., tuple[int, str, str]]
ROWS = 10
"""In one report."""


def collect(folder: Path, run: str, rows: list[AnyRow]) -> Path:
    """Store a trace by reports, of several processes in turns, in ranges of seven."""
    lives: dict[tuple[str, int], list[AnyRow]] = {}
    for row in rows:
        row.run, row.host = run, "h"
        lives.setdefault((row.process, row.incarnation), []).append(row)
    reports = [
        make_report(found[start : start + ROWS], start // ROWS)
        for found in lives.values()
        for start in range(0, len(found), ROWS)
    ]
    reports.sort(key=lambda report: (report.number, report.process))
    lake = Lake(folder)
    for first in range(0, len(reports), 7):
        lake.write(first, reports[first : first + 7])
    summary = {
        "processes": [
            {"process": process, "incarnation": incarnation, "ended": True, "missing": [[2, 3]] if not number else []}
            for number, (process, incarnation) in enumerate(lives)
        ]
    }
    return lake.complete(run, summary)


def test_spark_reads_a_collected_run(spark: SparkSession, tmp_path: Path) -> None:
    rows = good_trace(Random(5), events=60)
    tables = read_tables(spark, [collect(tmp_path, "r", rows)])
    counted = {family: tables.family(family).count() for family in FAMILIES}
    assert counted == {family: sum(family_of(row) == family for row in rows) for family in FAMILIES}
    assert counted["deliver"] > 0


def test_what_held_holds_and_what_is_damaged_is_named(call: Call, tmp_path: Path) -> None:
    good = collect(tmp_path / "a", "good", good_trace(Random(5), events=60))
    bad = collect(tmp_path / "b", "bad", damaged_once(Random(1), ["removed_delivery"]))
    assert call("audit", "--engine", "monitor", good)[0] == 0
    assert call("audit", "--engine", "monitor", bad)[0] == 1


def test_holes_are_told(call: Call, tmp_path: Path) -> None:
    path = collect(tmp_path, "r", good_trace(Random(5)))
    code, _, said = call("audit", "--engine", "monitor", str(path))
    assert code == 0
    assert "has a hole: its reports 2 to 3 never came" in said
