"""The live query: Structured Streaming from a collector's log, through the monitors and measures, into the live tables.

The state of all runs is in Spark's state store, one value a bucket of runs, committed with the batch that made it;
the tables of a batch are written before that commit, and again in the same place should the batch be done again.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from unisono.errors import UnisonoError
from unisono.pipeline.live.batches import Results, advance, results
from unisono.pipeline.live.outputs import Line, Standing
from unisono.pipeline.live.stream import FORMAT, LiveSource
from unisono.pipeline.live.tables import LiveTables

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # it ships no types

TABLES_FOLDER = "tables"
CHECKPOINT_FOLDER = "checkpoint"

OUTPUT = "results binary, state_bytes long"
STATE = "runs binary"

_CONFIGURATION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "16",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # The checkpoint is on a disk, whose renames are atomic. Spark's own choice starts a process for every file's mode.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

_INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling collect: java.lang.InterruptedException"
"""Spark looks for these words to know that a batch was cut short by its own stop; in Java's long text it gets lost."""

_OUR_ERROR = re.compile(r"unisono\.errors\.\w+: (.+)")

Told = Callable[[int, list[Line], list[Standing]], None]
"""Called after a batch was written, with its number, its lines and how the runs stand."""


class LiveQuery:
    """The query of one collector. Start it, ask now and then whether it still runs, stop it."""

    def __init__(
        self,
        session: SparkSession,
        collector: str,
        data: str | os.PathLike[str],
        told: Told = lambda *_: None,
        host: str | None = None,
        buckets: int = 1,
    ) -> None:
        """`data` has checkpoint and tables, or will have them. Delays are measured where a row's host is `host`."""
        self._directory = Path(data)
        self._tables = LiveTables(self._directory / TABLES_FOLDER, host)
        self._told = told
        self._stopping = False
        own = session.newSession()
        for key, value in {**_CONFIGURATION, "spark.sql.shuffle.partitions": str(buckets)}.items():
            own.conf.set(key, value)
        own.dataSource.register(LiveSource)
        arrived = own.readStream.format(FORMAT).option("collector", collector).option("buckets", str(buckets)).load()
        advanced = arrived.groupBy("bucket").applyInPandasWithState(
            _advance, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
        )
        self._query = (
            advanced.writeStream.foreachBatch(self._write)
            .outputMode("append")
            .option("checkpointLocation", str((self._directory / CHECKPOINT_FOLDER).resolve()))
            .queryName(f"unisono live {collector}")
            .start()
        )

    @property
    def offset(self) -> int | None:
        """The first report that was not read yet, as of the last batch."""
        progress = self._query.lastProgress
        if not progress:
            return None
        end: dict[str, int] = json.loads(progress["sources"][0]["endOffset"] or "{}")
        return end.get("offset")

    def check(self) -> None:
        """Raise what ended the query, if anything did."""
        error = self._query.exception()
        if error is not None:
            raise UnisonoError(f"the live query ended: {_in_a_sentence(str(error))}") from error

    def stop(self) -> None:
        """End the query; what it had not finished is done again when it goes on."""
        self._stopping = True
        self._query.stop()

    def _write(self, frame: DataFrame, batch: int) -> None:
        found = [(results(bytes(row.results)), row.state_bytes) for row in self._collected(frame)]
        lines = self._tables.write(batch, [line for result, _ in found for line in result.lines])
        self._told(batch, lines, [standing for result, size in found for standing in _with_size(result, size)])

    def _collected(self, frame: DataFrame) -> list[Row]:
        try:
            return frame.collect()
        except Exception:
            if self._stopping:
                raise RuntimeError(_INTERRUPTED) from None
            raise


def _in_a_sentence(text: str) -> str:
    """What one of our errors says in Spark's long text, the innermost one; else the beginning of it."""
    own = _OUR_ERROR.findall(text)
    return own[-1] if own else text.strip().partition("\n")[0]


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
