"""Large traces hold, and what is damaged in them is named, where most deliveries are condensed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.traces import of_run
from unisono.pipeline.audit import audit
from unisono.pipeline.audits import scan
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.large import LargeTrace, write_large_run
from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.tables import read_tables
from unisono.properties.damages import DAMAGES
from unisono.properties.registry import PROPERTIES
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import AnyRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_DAMAGES = 30
DELIVERIES = 12_000
WRONG_REFERENCE = "wrong reference"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large") / "run"
    assert write_large_run(directory, LargeTrace(DELIVERIES, processes=8)) >= DELIVERIES
    return directory


def test_a_large_trace_has_something_for_every_property(large: Path) -> None:
    rows = read_run(large)
    kinds = Counter(row.kind for row in rows)
    expected = "SEND DELIVER VIEW START JOIN CRASH END GRANT SUSPECT ROLE STATE CUT GC RTR RTX GAUGE FAULT ASKED HANDED"
    assert set(expected.split()) <= set(kinds)
    assert {row.service for row in rows if row.kind == "DELIVER"} == {"RTO", "RSO"}
    assert any(row.kind == "VIEW" and row.era is not None for row in rows)
    (report,) = audit_rows(rows)
    assert report.counts == {}


def test_equal_values_give_equal_rows(tmp_path: Path, large: Path) -> None:
    write_large_run(tmp_path / "again", LargeTrace(DELIVERIES, processes=8))
    write_large_run(tmp_path / "other", LargeTrace(DELIVERIES, processes=8, seed=1))
    assert read_run(tmp_path / "again") == read_run(large) != read_run(tmp_path / "other")


def test_faults_do_not_make_it_wrong(tmp_path: Path) -> None:
    write_large_run(tmp_path / "run", LargeTrace(DELIVERIES, processes=8, disturbed=True))
    rows = read_run(tmp_path / "run")
    assert any(row.kind == "FAULT" and row.fault == "loss" for row in rows)
    assert audit_rows(rows)[0].counts == {}


def without_one_at_the_first(rows: list[AnyRow]) -> list[AnyRow]:
    """The process that all others are held against is the one that is wrong."""
    first = min(row.process for row in rows if row.kind == "DELIVER")
    mine = [index for index, row in enumerate(rows) if row.kind == "DELIVER" and row.process == first]
    return [row for index, row in enumerate(rows) if index != mine[len(mine) // 2]]


def damaged(rows: list[AnyRow]) -> dict[str, list[AnyRow]]:
    """Every damage that fits the large trace."""
    found = {name: DAMAGES[name].apply(list(rows), Random(1)) for name in DAMAGES}
    fitting = {name: changed for name, changed in found.items() if changed is not None}
    return {WRONG_REFERENCE: without_one_at_the_first(rows), **fitting}


def test_each_damage_to_a_large_trace_is_named(
    spark: SparkSession, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tasks of their own, each with a piece of it; the damaged copies and the good one are runs of one audit."""
    monkeypatch.setattr(scan, "PIECE_ROWS", 100_000)
    copies = damaged(read_run(large))
    assert len(copies) >= LEAST_DAMAGES
    assert {"ring", "empty_deliveries", WRONG_REFERENCE} <= set(copies)
    good = of_run(read_run(large), "good")
    write_run(
        tmp_path / "run",
        [*good, *(row for name, rows in copies.items() for row in of_run(rows, name))],
        scenario_text="",
        summary={},
    )
    report = audit(spark, [tmp_path / "run"])
    found = {one.run: one for one in report.runs}
    assert found["good"].counts == {}
    expected = {one.run: one for rows in copies.items() for one in audit_rows(of_run(rows[1], rows[0]))}
    for name in copies:
        breaks = set(DAMAGES[name].breaks) if name in DAMAGES else {"D5", "O2", "O7"}
        assert breaks <= set(found[name].counts), name
        assert found[name].counts == expected[name].counts, name
        assert [one.place() for one in found[name].violations] == [one.place() for one in expected[name].violations]
    assert {property_id for one in report.runs for property_id in one.counts} >= set(PROPERTIES) - {"L8", "M7", "O5"}


def test_a_scan_condenses(spark: SparkSession, large: Path) -> None:
    """A row stands for many, and none is lost; rows that come in no order give the same."""
    trace = Projections(read_tables(spark, [large]))
    rows = [row for row in read_run(large) if row.kind == "DELIVER"]
    strides = trace.tables.deliver.collect()
    assert sum(row["got"] for row in strides) == len(rows)
    assert len(strides) < len(rows) / 5
    assert not any(row["remarkable"] for row in strides)
    assert trace.spoken_below is None
    trace.close()


def test_rows_in_no_order_are_sorted_first(spark: SparkSession, large: Path, tmp_path: Path) -> None:
    rows = read_run(large)
    Random(3).shuffle(rows)
    write_run(tmp_path / "run", rows, scenario_text="", summary={}, part_rows=4_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "PIECE_ROWS", 4_000)
        trace = Projections(read_tables(spark, [tmp_path / "run"]))
    assert sum(row["got"] for row in trace.tables.deliver.collect()) == sum(row.kind == "DELIVER" for row in rows)
    assert trace.tables.deliver.count() < len(rows) / 5
    trace.close()
