"""The collector's log as the live query reads it: whole reports, and a clock that is part of the offset.

Since the time is stored with the offset, a batch that is done again after a crash judges as it did before. The clock
stands still while there is a backlog or the collector does not answer: nobody counts as silent because of that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from zlib import crc32

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from unisono.errors import LogError
from unisono.pipeline.live.lives import STEP_NANOSECONDS, TICKS
from unisono.pipeline.source.logs import Log, LogStreamReader, Range
from unisono.pipeline.source.options import ReadOptions
from unisono.trace import reports
from unisono.trace.log.client import LogClient

if TYPE_CHECKING:
    from pyarrow import RecordBatch

FORMAT = "unisono-live"
BATCH_BYTES = 8 << 20
"""So much of the log is in one batch at most, so that a backlog does not become one endless batch."""

PATIENCE_SECONDS = 60.0
"""A batch that is being read waits so long for a collector that restarts."""

IMPATIENCE_SECONDS = 1.0
"""Whoever only asks whether there is more does not wait longer than this."""

SCHEMA = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("now", LongType(), False),
        StructField("report", BinaryType()),
    ]
)
"""One row a report; and for each bucket one row without a report, which says only what time it is."""


class Batch(Range):
    """The offsets of a batch, and its time."""

    def __init__(self, first: int, end: int, now: int) -> None:
        super().__init__(first, end)
        self.now = now


class ReportColumns:
    """Reports as rows; runs are spread over buckets by their names."""

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.now = 0

    def schema(self) -> StructType:
        return SCHEMA

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[RecordBatch]:
        buckets = [self._bucket(payload) for payload in payloads]
        yield _rows(buckets, list(range(offset, offset + len(payloads))), self.now, list(payloads))

    def _bucket(self, payload: bytes) -> int:
        return 0 if self.buckets == 1 else crc32(reports.decode(payload).run.encode()) % self.buckets


class LiveReader(LogStreamReader):
    """A stream of reports that ticks while something may still be decided by time."""

    columns: ReportColumns

    def __init__(self, options: ReadOptions, buckets: int) -> None:
        super().__init__(ReportColumns(buckets), options, patient)
        self._seen = 0
        """When the last offset was asked for, on this machine's clock."""
        self._caught_up = False
        self._ticks = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {**super().initialOffset(), "now": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        here = time.monotonic_ns()
        try:
            end = super().latestOffset(start, limit)["offset"]
            caught_up = end == self._bounds()[1]
        except LogError:
            self.stop()
            self._caught_up = False
            return start
        passed = here - self._seen if self._caught_up else 0
        more = end > start["offset"]
        if not more and (passed < STEP_NANOSECONDS or self._ticks >= TICKS):
            self._begin_to_wait(here, caught_up)
            return start
        self._ticks = 0 if more else self._ticks + 1
        self._seen, self._caught_up = here, caught_up
        return {"offset": end, "now": start["now"] + min(passed, STEP_NANOSECONDS)}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """Only told in the progress of the query, so it may be unknown for a while."""
        try:
            return super().reportLatestOffset()
        except LogError:
            self.stop()
            return None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One; whether all of it is still there shows when it is read, which waits for a collector that restarts."""
        return [Batch(start["offset"], end["offset"], end["now"])]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, Batch), "a partition of this reader"
        self.columns.now = partition.now
        yield from self.read_range(partition)
        buckets = list(range(self.columns.buckets))
        yield _rows(buckets, [partition.end] * len(buckets), partition.now, [None] * len(buckets))

    def _open(self) -> Log:
        """The connection of the driver gives up soon, and is asked for again with the next batch."""
        if self._log is None:
            self._opened = self._log = LogClient(self.options.address, IMPATIENCE_SECONDS)
        return self._log

    def _begin_to_wait(self, here: int, caught_up: bool) -> None:
        if not self._caught_up:
            self._seen, self._caught_up = here, caught_up


class LiveSource(DataSource):
    """What Spark makes of `.format("unisono-live")`; the query of this package is its only user."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> LiveReader:  # noqa: N802 - Spark's name
        options = ReadOptions(self.options["collector"], bytes_limit=BATCH_BYTES, fail_on_data_loss=False)
        return LiveReader(options, int(self.options["buckets"]))


def patient(address: str) -> AbstractContextManager[Log]:
    """A client that outlives a restart of the collector."""
    return LogClient(address, PATIENCE_SECONDS)


def _rows(buckets: list[int], offsets: list[int], now: int, payloads: Sequence[bytes | None]) -> RecordBatch:
    import pyarrow

    columns = (buckets, offsets, [now] * len(buckets), payloads)
    schema = to_arrow_schema(SCHEMA)
    arrays = [pyarrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
