"""The stream of the live query: its clock is part of the offset, rests where nothing is to be decided, and waits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.pipeline.running_trace import RunningTrace, Served
from unisono.pipeline.live import stream
from unisono.pipeline.live.lives import STEP_NANOSECONDS, TICKS
from unisono.pipeline.live.stream import Batch, LiveReader
from unisono.pipeline.source.options import ReadOptions

EVERYTHING = ReadAllAvailable()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the driver, in its only element."""
    clock = [10**12]
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic_ns=lambda: clock[0]))
    return clock


def reader(served: Served, buckets: int = 1) -> LiveReader:
    return LiveReader(ReadOptions(served.address, fail_on_data_loss=False), buckets)


def test_the_clock_moves_by_a_step_at_most_and_stops_after_some_ticks(tmp_path: Path, now: list[int]) -> None:
    with Served(tmp_path / "log") as served:
        source = reader(served)
        start = source.initialOffset()
        assert start == {"offset": 0, "now": 0}
        assert source.latestOffset(start, EVERYTHING) == start, "nothing to read and nothing to decide"
        served.take(RunningTrace("run").reports())
        found = source.latestOffset(start, EVERYTHING)
        assert found == {"offset": 4, "now": 0}
        now[0] += STEP_NANOSECONDS - 1
        assert source.latestOffset(found, EVERYTHING) == found, "not yet a tick"
        for tick in range(1, TICKS + 1):
            now[0] += 10 * STEP_NANOSECONDS
            found = source.latestOffset(found, EVERYTHING)
            assert found == {"offset": 4, "now": tick * STEP_NANOSECONDS}
        now[0] += 10 * STEP_NANOSECONDS
        assert source.latestOffset(found, EVERYTHING) == found, "the stream rests"
        source.stop()


def test_the_clock_stands_while_the_collector_does_not_answer_and_after_a_restart(
    tmp_path: Path, now: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "IMPATIENCE_SECONDS", 0.0)
    with Served(tmp_path / "log") as served:
        source = reader(served)
        served.take(RunningTrace("run").reports())
        found = source.latestOffset(source.initialOffset(), EVERYTHING)
        port = int(served.address.rpartition(":")[2])
    now[0] += 10 * STEP_NANOSECONDS
    assert source.latestOffset(found, EVERYTHING) == found
    assert source.reportLatestOffset() is None
    with Served(tmp_path / "log", port) as served:
        now[0] += 10 * STEP_NANOSECONDS
        assert source.latestOffset(found, EVERYTHING) == found, "what passed meanwhile does not count"
        now[0] += STEP_NANOSECONDS
        assert source.latestOffset(found, EVERYTHING) == {"offset": 4, "now": STEP_NANOSECONDS}
        source.stop()


def test_a_batch_has_its_reports_and_for_every_bucket_the_time(tmp_path: Path) -> None:
    with Served(tmp_path / "log") as served:
        for run in ("one", "two", "three", "four"):
            served.take(RunningTrace(run).reports())
        source = reader(served, buckets=3)
        (batch,) = source.partitions({"offset": 4, "now": 1}, {"offset": 12, "now": 7})
        assert isinstance(batch, Batch)
        rows = [row for part in source.read(batch) for row in part.to_pylist()]
        source.stop()
    assert [row["offset"] for row in rows if row["report"] is not None] == list(range(4, 12))
    assert {row["bucket"] for row in rows if row["report"] is None} == {0, 1, 2}
    assert {row["now"] for row in rows} == {7}
    assert len({row["bucket"] for row in rows if row["report"] is not None}) <= 2, "a run has one bucket"
