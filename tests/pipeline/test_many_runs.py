"""Many small runs are judged one by one in tasks, each as it would be alone.

That monitors and forms agree, run by run, is the matter of `test_forms_agree`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.traces import sampled
from unisono.errors import TraceError
from unisono.pipeline.audit import audit
from unisono.pipeline.many_runs import MANY_RUNS
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.trace.run_directory import write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = MANY_RUNS + 8


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


def test_one_that_cannot_be_read_is_named(spark: SparkSession, many: Path, tmp_path: Path) -> None:
    for entry in many.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "COMPLETE").write_text("99\n")
    with pytest.raises(TraceError, match="schema version 99"):
        audit(spark, [tmp_path])
