"""A retained log behind a server, as Spark reads it: what a payload becomes is up to the columns, the rest is here.

An offset is {"offset": n}: the payloads before n were read. A range of offsets has the same rows whenever it is read,
as long as the log retains it, so a batch that is tried again is the same batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from unisono.errors import LogError, LogGone
from unisono.pipeline.source.options import ReadOptions
from unisono.trace.log.client import LogClient

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_LOG = logging.getLogger(__name__)

CHUNK_BYTES = 4 << 20
"""So much of a log is in memory at once, or one payload."""


class Log(Protocol):
    """What is asked of a retained log; `trace.log.client.LogClient` is one."""

    def bounds(self) -> tuple[int, int]: ...

    def read(self, offset: int, limit_bytes: int) -> list[bytes]: ...


class Connect(Protocol):
    """Opens a log. It goes to Spark's workers with the reader, so it must be picklable."""

    def __call__(self, address: str) -> AbstractContextManager[Log]: ...


class Columns(Protocol):
    """How payloads become columns: all in which one log differs from another. It must be picklable."""

    def schema(self) -> StructType:
        """The columns of what `batches` gives."""

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[RecordBatch]:
        """The rows of these payloads, of which the first has this offset; the same ones whenever it is called."""


def connect(address: str) -> AbstractContextManager[Log]:
    """The log that a server at this address serves."""
    return LogClient(address)


class Range(InputPartition):
    """The offsets that one task reads: from the first, up to but not including the end."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end


class LogReader:
    """What reading a log as a stream and as a batch have in common."""

    def __init__(self, columns: Columns, options: ReadOptions, connect: Connect = connect) -> None:
        self.columns = columns
        self.options = options
        self.connect = connect

    def ranges(self, first: int, end: int) -> list[Range]:
        """As many parts as the options ask for, of about the same size; none is empty."""
        if first >= end:
            return []
        count = min(self.options.partitions, end - first)
        edges = [first + (end - first) * part // count for part in range(count + 1)]
        return [Range(edges[part], edges[part + 1]) for part in range(count)]

    def read_range(self, part: Range) -> Iterator[RecordBatch]:
        """The rows of a range, a chunk of the log at a time."""
        with self.connect(self.options.address) as log:
            offset = self.retained_from(part.first, log.bounds()[0])
            while offset < part.end:
                try:
                    payloads = log.read(offset, CHUNK_BYTES)
                except LogGone as error:
                    offset = self.retained_from(offset, error.begin)
                    continue
                if not payloads:
                    raise LogError(
                        f"the log at {self.options.address} ends before offset {part.end}, at {offset}: it is another"
                        " log than the one that was read before; start the query with a new checkpoint"
                    )
                payloads = payloads[: part.end - offset]
                yield from self.columns.batches(offset, payloads)
                offset += len(payloads)

    def retained_from(self, offset: int, begin: int) -> int:
        """Where reading goes on: at the offset, or where the log begins if it was trimmed and that may be."""
        if offset >= begin:
            return offset
        gone = (
            f"offsets {offset} to {begin - 1} of the log at {self.options.address} are gone: it was trimmed before they"
            " were read"
        )
        if self.options.fail_on_data_loss:
            raise LogError(
                f'{gone}; retain more, or go on without them with .option("failOnDataLoss", "false")'
                " or with a new checkpoint"
            )
        _LOG.warning("%s; going on at %d without them (failOnDataLoss is false)", gone, begin)
        return begin


class LogBatchReader(LogReader, DataSourceReader):
    """All that a log has now, from the starting offset on."""

    def partitions(self) -> list[InputPartition]:
        with self.connect(self.options.address) as log:
            begin, end = log.bounds()
        return [*self.ranges(starting_offset(self.options, begin, end), end)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, Range), "a partition of this reader"
        return self.read_range(partition)


class LogStreamReader(LogReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A log as a stream; its retention is the server's affair, so that Spark's commits trim nothing."""

    def __init__(self, columns: Columns, options: ReadOptions, connect: Connect = connect) -> None:
        super().__init__(columns, options, connect)
        self._opened: AbstractContextManager[Log] | None = None
        self._log: Log | None = None
        self._target: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The connection of the driver stays with the driver."""
        return {**self.__dict__, "_opened": None, "_log": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        begin, end = self._bounds()
        return {"offset": starting_offset(self.options, begin, end)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self.options.offsets_limit is not None:
            return ReadMaxRows(self.options.offsets_limit)
        if self.options.bytes_limit is not None:
            return ReadMaxBytes(self.options.bytes_limit)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        begin, end = self._bounds()
        first = start["offset"]
        if first > end:
            raise LogError(
                f"the checkpoint is at offset {first} and the log at {self.options.address} ends at {end}: it is"
                " another log; start the query with a new checkpoint"
            )
        first = self.retained_from(first, begin)
        if self._target is not None:
            end = max(first, min(end, self._target))
        if not isinstance(limit, ReadAllAvailable) and first < end:
            end = min(end, self._admitted(first, end))
        # What was trimmed counts as read: an offset never goes back.
        return {"offset": end}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        return {"offset": self._bounds()[1]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._bounds()[1]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first = self.retained_from(start["offset"], self._bounds()[0])
        return [*self.ranges(first, end["offset"])]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, Range), "a partition of this reader"
        return self.read_range(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: others may read the same log, and Spark commits a batch late."""

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened = self._log = None

    def _admitted(self, first: int, end: int) -> int:
        """The end of a batch from `first` on that keeps to both limits of the options, with at least one payload."""
        if self.options.offsets_limit is not None:
            end = min(end, first + self.options.offsets_limit)
        left = self.options.bytes_limit
        if left is None:
            return end
        offset = first
        while offset < end:
            payloads = self._open().read(offset, min(left, CHUNK_BYTES))
            for payload in payloads:
                left -= len(payload)
                if left < 0 and offset > first:
                    return min(offset, end)
                offset += 1
            if left <= 0 or not payloads:
                break
        return min(offset, end)

    def _bounds(self) -> tuple[int, int]:
        return self._open().bounds()

    def _open(self) -> Log:
        if self._log is None:
            self._opened = self.connect(self.options.address)
            self._log = self._opened.__enter__()
        return self._log


def starting_offset(options: ReadOptions, begin: int, end: int) -> int:
    """Where a query begins that has no checkpoint."""
    if options.starting == "earliest":
        return begin
    if options.starting == "latest":
        return end
    if not begin <= options.starting <= end:
        raise LogError(
            f"startingOffset is {options.starting}, and the log at {options.address} has offsets {begin} to {end};"
            " give one of these, or earliest or latest"
        )
    return options.starting
