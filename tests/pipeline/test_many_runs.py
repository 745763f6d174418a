"""Many small runs are judged one by one in tasks, each as it would be alone.

That monitors and forms agree, run by run, is the matter of `test_forms_agree`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.traces import sampled
from unisono.errors import TraceError
from unisono.pipeline import many_runs
from unisono.pipeline.audit import audit
from unisono.pipeline.many_runs import MANY_RUNS
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.pipeline.tables import read_tables
from unisono.properties.registry import PROPERTIES
from unisono.trace.run_directory import write_run
from unisono.trace.schema import FAMILIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = MANY_RUNS + 8
NOTHING: dict[str, Any] = {"scenario_text": "", "summary": {}}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for seed in range(RUNS):
        rows = sampled(seed).rows
        if rows:
            write_run(folder / f"{seed}", rows, scenario_text="", summary={}, form="spool" if seed % 5 == 0 else None)
    return folder


def test_many_small_runs_are_judged_in_tasks_as_alone(spark: SparkSession, many: Path) -> None:
    in_tasks = audit(spark, [many])
    assert (in_tasks.engine, set(in_tasks.seconds)) == ("spark", {"monitors"})
    assert len(in_tasks.runs) >= MANY_RUNS
    assert {bool(run.counts) for run in in_tasks.runs} == {True, False}
    assert in_tasks.runs == audit_with_monitors([many]).runs


def test_a_large_run_among_them_is_judged_by_the_forms_and_told_apart(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    for entry in many.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    rows = sampled(1).rows
    write_run(tmp_path / "large", rows, scenario_text="", summary={"more": "x" * many_runs.SMALL_RUN_BYTES})
    write_run(tmp_path / "other", rows, scenario_text="", summary={"more": "x" * many_runs.SMALL_RUN_BYTES})
    report = audit(spark, [tmp_path])
    assert set(report.seconds) == {"monitors", "reading", *PROPERTIES}
    alone = audit_with_monitors([tmp_path])
    assert [(run.run, run.counts, run.facts) for run in report.runs] == [
        (run.run, run.counts, run.facts) for run in alone.runs
    ]
    assert sum(run.run.startswith(f"{rows[0].run} in ") for run in report.runs) == 3


def test_many_runs_of_one_name_are_one_scan_of_each_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = sampled(1).rows
    places = ["a b", "c%20d", "e#f?g", "\u00fc+x&[1]{2}", "q:z", *map(str, range(8))]
    for place in places:
        write_run(tmp_path / place, rows[: -int(place)] if place > "1" and place.isdecimal() else rows, **NOTHING)
    tables = read_tables(spark, sorted(tmp_path.iterdir()))
    for family in FAMILIES:
        plan = tables.family(family)._jdf.queryExecution().optimizedPlan().toString()
        assert plan.count("Relation [") == 1, family
    report = audit(spark, [tmp_path])
    alone = audit_with_monitors([tmp_path])
    assert [(run.run, run.counts, run.facts) for run in report.runs] == [
        (run.run, run.counts, run.facts) for run in alone.runs
    ]
    assert [run.run for run in report.runs] == sorted(f"{rows[0].run} in {tmp_path / place}" for place in places)


def test_one_that_cannot_be_read_is_named(spark: SparkSession, many: Path, tmp_path: Path) -> None:
    for entry in many.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "COMPLETE").write_text("99\n")
    with pytest.raises(TraceError, match="schema version 99"):
        audit(spark, [tmp_path])
