"""An audit judges what stands on disk now: not what stood in the same place before, nor what another run says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from unisono.pipeline import audit as audits
from unisono.pipeline.audit import audit
from unisono.pipeline.audits import pieces
from unisono.pipeline.lake import build
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.pipeline.report import AuditReport
from unisono.pipeline.tables import read_tables
from unisono.properties.registry import PROPERTIES
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import AnyRow, SendRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LITTLE = ("duration=1s", "settle=2s", "workload[0].rate=5")
PART_ROWS = 30
FEW = ("D1", "D5", "D7", "D13", "L2", "M4", "O2", "W1")
"""One property of each family of forms: all that they share is read anew, or not, for these as for the others."""

Rows = list[AnyRow]
Judge = Callable[[Path], AuditReport]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Rows]:
    """Two runs whose messages have the same names and other bodies."""
    folder = tmp_path_factory.mktemp("traces")
    for seed in (0, 1):
        run(draw(load("quiet-lan", LITTLE), seed), folder / f"{seed}")
    return [read_run(folder / f"{seed}") for seed in (0, 1)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits by Spark judge a few properties, as each costs its own plans."""
    monkeypatch.setattr(audits, "PROPERTIES", {name: PROPERTIES[name] for name in FEW})


@pytest.fixture(params=["spark", "spark in tasks", "monitor"])
def judge(request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The Spark forms, which scan a small run here and a large one in tasks; and the monitors."""
    if request.param == "monitor":
        return lambda path: audit_with_monitors([path])
    if request.param == "spark in tasks":
        monkeypatch.setattr(pieces, "PIECE_ROWS", PART_ROWS)
    return lambda path: audit(spark, [path])


def with_other_bodies(rows: Rows) -> Rows:
    """Nothing that was delivered is what was sent."""
    return [replace(row, body=row.body + 1) if isinstance(row, SendRow) else row for row in rows]


def write(place: Path, rows: Rows) -> None:
    write_run(place, rows, scenario_text="", summary={}, form="parquet", part_rows=PART_ROWS)


def counts(report: AuditReport) -> list[dict[str, int]]:
    return [dict(run.counts) for run in report.runs]


@pytest.mark.usefixtures("few")
def test_a_run_that_was_made_anew_is_judged_anew(judge: Judge, traces: list[Rows], tmp_path: Path) -> None:
    place = tmp_path / "run"
    sent = sum(row.kind == "DELIVER" for row in traces[0])
    for rows, violated in ((traces[0], {}), (with_other_bodies(traces[0]), {"D1": sent}), (traces[1], {})):
        write(place, rows)
        assert counts(judge(place)) == [violated]


def test_a_table_that_the_session_keeps_does_not_stand_for_a_new_run(
    spark: SparkSession, traces: list[Rows], tmp_path: Path
) -> None:
    place = tmp_path / "run"
    write(place, traces[0])
    before = read_tables(spark, [place])
    kept = [before.family(name).persist() for name in ("view", "membership", "send", "deliver")]
    try:
        assert all(table.count() for table in kept)
        write(place, [row for row in traces[0] if row.kind != "VIEW"])
        assert counts(audit(spark, [place])) == counts(audit_with_monitors([place])) != [{}]
    finally:
        for table in kept:
            table.unpersist()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("engine", ["spark", "monitor"])
def test_every_run_of_a_lake_is_judged_by_its_own_rows(
    spark: SparkSession, traces: list[Rows], tmp_path: Path, engine: str
) -> None:
    runs = tmp_path / "runs"
    for index, rows in enumerate((*traces, [replace(row, run="bad") for row in with_other_bodies(traces[0])])):
        write(runs / f"{index}", rows)
    built = build(spark, [runs], tmp_path / "lake", engine=engine)  # type: ignore[arg-type]  # one of its words
    found = {one.name: {name: count for name, count in one.violations().items() if count} for one in built}
    bad = found.pop("bad")
    assert set(bad) == {"D1"}
    assert list(found.values()) == [{}, {}]


@pytest.mark.usefixtures("few")
def test_nothing_stays_in_the_session_after_an_audit(spark: SparkSession, traces: list[Rows], tmp_path: Path) -> None:
    place = tmp_path / "run"
    write(place, with_other_bodies(traces[0]))
    before = set(spark.sparkContext._jsc.getPersistentRDDs())
    assert counts(audit(spark, [place])) != [{}]
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= before
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
