"""Many small runs: each is read and judged by the monitors in one task, and nothing is moved between tasks.

The forms of Spark cost the same for one run as for a thousand; a run of a few thousand rows is judged in a moment. What
both say is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.report import RunReport
from unisono.pipeline.runs import Progress, RunFiles, disk_bytes, read_rows

MANY_RUNS = 40
SMALL_RUN_BYTES = 2_000_000
"""About 150,000 rows, which the monitors judge in a second or two, in some hundred megabytes."""
RUNS_A_TASK = 25


def many_and_small(runs: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs that are better judged one by one: the small ones, where they are many."""
    small = [run for run in runs if disk_bytes([run]) <= SMALL_RUN_BYTES]
    return small if len(small) >= MANY_RUNS else []


def audit_many(
    session: SparkSession, runs: Sequence[RunFiles], progress: Progress = lambda *_: None
) -> list[tuple[RunFiles, RunReport]]:
    """Hold each of these runs to every property; where two have the same name, so have their reports."""
    progress("runs audited", 0, len(runs))
    # A task of a cluster runs in a folder of its own.
    placed = [RunFiles(run.path.resolve(), tuple(spool.resolve() for spool in run.spools)) for run in runs]

    def judge(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            indexes = batch.column(0).to_pylist()
            found = [_judge(placed[index]) for index in indexes]
            yield pa.RecordBatch.from_pydict(
                {
                    "index": pa.array(indexes, pa.int64()),
                    "report": pa.array([report for report, _ in found], pa.binary()),
                    "refused": pa.array([refused for _, refused in found], pa.string()),
                }
            )

    tasks = session.range(0, len(runs), 1, -(-len(runs) // RUNS_A_TASK))
    reports: list[tuple[RunFiles, RunReport]] = []
    for row in sorted(tasks.mapInArrow(judge, "index bigint, report binary, refused string").collect()):
        if row["refused"] is not None:
            raise TraceError(row["refused"])
        told = msgspec.msgpack.decode(bytes(row["report"]), type=list[RunReport])
        reports.extend((runs[row["index"]], one) for one in told)
    return reports


def _judge(run: RunFiles) -> tuple[bytes | None, str | None]:
    """The reports of one stored run, or why it cannot be read."""
    try:
        rows = read_rows(run)
        if not rows:
            return None, f"{run.path} is a run without a row: there is nothing in it to audit"
        return msgspec.msgpack.encode(audit_rows(rows)), None
    except UnisonoError as error:
        return None, str(error)
