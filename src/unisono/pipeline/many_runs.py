"""Many small runs: each is read and judged by the monitors in one task, and nothing is moved between tasks.

The forms of Spark cost the same for one run as for a thousand; a run of a few thousand rows is judged in a moment. What
both say is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.monitor_audit import audit_rows, told_apart
from unisono.pipeline.report import AuditReport, RunReport
from unisono.pipeline.runs import Progress, RunFiles, disk_bytes, read_rows

MANY_RUNS = 40
SMALL_RUN_BYTES = 400_000
"""About ten thousand rows, which the monitors judge in less than a second."""
RUNS_A_TASK = 25


def are_many_and_small(runs: Sequence[RunFiles]) -> bool:
    """Whether these runs are better judged one by one."""
    return len(runs) >= MANY_RUNS and all(disk_bytes([run]) <= SMALL_RUN_BYTES for run in runs)


def audit_many(session: SparkSession, runs: Sequence[RunFiles], progress: Progress = lambda *_: None) -> AuditReport:
    """Hold each of these runs to every property."""
    began = perf_counter()
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
    took = perf_counter() - began
    return AuditReport("spark", told_apart(reports), {"monitors": took}, took)


def _judge(run: RunFiles) -> tuple[bytes | None, str | None]:
    """The reports of one stored run, or why it cannot be read."""
    try:
        rows = read_rows(run)
        if not rows:
            return None, f"{run.path} is a run without a row: there is nothing in it to audit"
        return msgspec.msgpack.encode(audit_rows(rows)), None
    except UnisonoError as error:
        return None, str(error)
