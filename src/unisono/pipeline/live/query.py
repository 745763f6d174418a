"""The live query: Structured Streaming from a collector's log, through the monitors and measures, into the live tables.

The state of all runs is in Spark's state store, one value a bucket of runs, committed with the batch that made it;
the tables of a batch are written before that commit, and again in the same place should the batch be done again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from unisono.pipeline.live.batches import Results, advance, results
from unisono.pipeline.live.outputs import Line, Standing
from unisono.pipeline.live.stream import FORMAT, LiveSource
from unisono.pipeline.live.tables import LiveTables

if TYPE_CHECKING:
    import pandas

OUTPUT = "results binary, state_bytes long"
STATE = "runs binary"

_CONFIGURATION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "16",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}

Told = Callable[[int, list[Line], list[Standing]], None]
"""Called after a batch was written, with its number, its lines and how the runs stand."""


def start_live(
    session: SparkSession,
    collector: str,
    data: str | os.PathLike[str],
    told: Told = lambda *_: None,
    host: str | None = None,
    buckets: int = 1,
) -> StreamingQuery:
    """Start the query, or go on with it from the checkpoint in `data`, where its tables are too.

    `host` stands for the clock of this machine in traces: delays are measured against it.
    """
    directory = Path(data)
    tables = LiveTables(directory / "tables", host)
    own = session.newSession()
    for key, value in {**_CONFIGURATION, "spark.sql.shuffle.partitions": str(buckets)}.items():
        own.conf.set(key, value)
    own.dataSource.register(LiveSource)
    arrived = own.readStream.format(FORMAT).option("collector", collector).option("buckets", str(buckets)).load()
    advanced = arrived.groupBy("bucket").applyInPandasWithState(
        _advance, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
    )

    def write(frame: DataFrame, batch: int) -> None:
        found = [(results(bytes(row.results)), row.state_bytes) for row in frame.collect()]
        lines = tables.write(batch, [line for result, _ in found for line in result.lines])
        told(batch, lines, [standing for result, size in found for standing in _with_size(result, size)])

    return (
        advanced.writeStream.foreachBatch(write)
        .outputMode("append")
        .option("checkpointLocation", str((directory / "checkpoint").resolve()))
        .queryName(f"unisono live {collector}")
        .start()
    )


def _with_size(result: Results, size: int) -> list[Standing]:
    for standing in result.standings:
        standing.state_bytes = size
    return result.standings


def _advance(key: tuple[Any, ...], frames: Iterator[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
    """One bucket of runs, one batch."""
    import pandas

    # Spark joins our frames with empty ones of its own, of which pandas warns once a batch.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    rows = [row for frame in frames for row in zip(frame["offset"], frame["now"], frame["report"], strict=True)]
    rows.sort(key=lambda row: row[0])
    stored = bytes(state.get[0]) if state.exists else None
    arrived = [(int(now), bytes(report)) for _, now, report in rows if report is not None]
    data, found = advance(stored, arrived, int(rows[-1][1]))
    state.update((data,))
    yield pandas.DataFrame({"results": [found], "state_bytes": [len(data)]})
