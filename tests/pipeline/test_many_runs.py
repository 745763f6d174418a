"""Many small runs are judged one by one in tasks, with the same verdicts as by the forms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.traces import sampled
from unisono.errors import TraceError
from unisono.pipeline import audit as auditing
from unisono.pipeline.audit import audit
from unisono.pipeline.many_runs import MANY_RUNS
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


def test_many_small_runs_are_judged_alike(spark: SparkSession, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = audit(spark, [many])
    assert set(one_by_one.seconds) == {"monitors"}
    monkeypatch.setattr(auditing, "are_many_and_small", lambda runs: False)
    together = audit(spark, [many])
    assert "D1" in together.seconds
    assert len(one_by_one.runs) == len(together.runs) >= MANY_RUNS
    for one, other in zip(one_by_one.runs, together.runs, strict=True):
        assert (one.run, one.facts, one.verdicts, one.counts) == (other.run, other.facts, other.verdicts, other.counts)
        assert [item.place() for item in one.violations] == [item.place() for item in other.violations]


def test_one_that_cannot_be_read_is_named(spark: SparkSession, many: Path, tmp_path: Path) -> None:
    for entry in many.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "COMPLETE").write_text("99\n")
    with pytest.raises(TraceError, match="schema version 99"):
        audit(spark, [tmp_path])
