"""Large traces hold, and what is damaged in them is named, where most deliveries are condensed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.traces import of_run
from unisono.pipeline.audit import audit
from unisono.pipeline.audits import pieces
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.large import LargeTrace, write_large_run
from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.tables import read_tables
from unisono.properties.damages import DAMAGES
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import AnyRow, FaultRow, ViewRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_DAMAGES = 30
DELIVERIES = 9_000
PROCESSES = 6
WRONG_REFERENCE = "wrong reference"
TO_LARGE_TRACES = (
    "removed_delivery",
    "late_duplicate",
    "swapped_deliveries",
    "changed_body",
    "removed_send",
    "wrong_view",
    "sent_below_delivered",
    "empty_deliveries",
    "ring",
    "moved_across_the_view",
    "cut_message_left_out",
    "era_message_left_out",
)
"""Every kind of follow-up to what is condensed; all other damages are applied to small traces, and by the campaign."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large") / "run"
    assert write_large_run(directory, LargeTrace(DELIVERIES, processes=PROCESSES)) >= DELIVERIES
    return directory


def test_a_large_trace_has_something_for_every_property(large: Path) -> None:
    rows = read_run(large)
    kinds = Counter(row.kind for row in rows)
    expected = "SEND DELIVER VIEW START JOIN CRASH END GRANT SUSPECT ROLE STATE CUT GC RTR RTX GAUGE FAULT ASKED HANDED"
    assert set(expected.split()) <= set(kinds)
    assert {row.service for row in rows if row.kind == "DELIVER"} == {"RTO", "RSO"}
    assert any(isinstance(row, ViewRow) and row.era is not None for row in rows)
    (report,) = audit_rows(rows)
    assert report.counts == {}


def test_equal_values_give_equal_rows(tmp_path: Path, large: Path) -> None:
    write_large_run(tmp_path / "again", LargeTrace(DELIVERIES, processes=PROCESSES))
    write_large_run(tmp_path / "other", LargeTrace(DELIVERIES, processes=PROCESSES, seed=1))
    assert read_run(tmp_path / "again") == read_run(large) != read_run(tmp_path / "other")


def test_faults_do_not_make_it_wrong(tmp_path: Path) -> None:
    write_large_run(tmp_path / "run", LargeTrace(DELIVERIES, processes=PROCESSES, disturbed=True))
    rows = read_run(tmp_path / "run")
    assert any(isinstance(row, FaultRow) and row.fault == "loss" for row in rows)
    assert audit_rows(rows)[0].counts == {}


def without_one_at_the_first(rows: list[AnyRow]) -> list[AnyRow]:
    """The process that all others are held against is the one that is wrong."""
    first = min(row.process for row in rows if row.kind == "DELIVER")
    mine = [index for index, row in enumerate(rows) if row.kind == "DELIVER" and row.process == first]
    return [row for index, row in enumerate(rows) if index != mine[len(mine) // 2]]


def test_there_are_damages_of_many_kinds() -> None:
    assert len(DAMAGES) >= LEAST_DAMAGES
    assert {"ring", "forged_ring", "empty_deliveries"} <= set(DAMAGES)


def test_damages_to_a_large_trace_are_named(
    spark: SparkSession, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tasks of their own, each with a piece of it; the damaged copies and the good one are runs of one audit."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 30_000)
    rows = read_run(large)
    copies = {name: DAMAGES[name].apply(list(rows), Random(1)) or [] for name in TO_LARGE_TRACES}
    copies |= {"good": rows, WRONG_REFERENCE: without_one_at_the_first(rows)}
    everything = [row for name, changed in copies.items() for row in of_run(changed, name)]
    write_run(tmp_path / "run", everything, scenario_text="", summary={})
    report = audit(spark, [tmp_path / "run"])
    found = {one.run: one for one in report.runs}
    expected = {one.run: one for one in audit_rows(everything)}
    assert found["good"].counts == {}
    assert set(found[WRONG_REFERENCE].counts) >= {"D5", "O2", "O7"}
    for name in copies:
        assert name not in DAMAGES or set(DAMAGES[name].breaks) <= set(found[name].counts), name
        assert found[name].counts == expected[name].counts, name
        assert [one.place() for one in found[name].violations] == [one.place() for one in expected[name].violations]


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
        patch.setattr(pieces, "PIECE_ROWS", 4_000)
        trace = Projections(read_tables(spark, [tmp_path / "run"]))
    assert sum(row["got"] for row in trace.tables.deliver.collect()) == sum(row.kind == "DELIVER" for row in rows)
    assert trace.tables.deliver.count() < len(rows) / 5
    trace.close()
