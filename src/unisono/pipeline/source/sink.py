"""Rows of a streaming query into a group, each batch once: tasks leave rows with the gateway, the driver says "send".

A task does not know its batch, so it stages rows under a name that nobody else has. When all tasks of a batch are
through, the gateway is told the batch's number and its stages, in the order of the partitions, and takes each number of
a query once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from unisono.errors import SettingError, UnisonoError
from unisono.pipeline.source.options import Options
from unisono.rows import check_query
from unisono.spelling import split_endpoint
from unisono.trace.sink_client import SinkClient

if TYPE_CHECKING:
    from pyarrow import RecordBatch

DATA = "data"


class SinkOptions(Struct, frozen=True):
    """Where rows go, and what of a row is sent: the bytes of the column `data`, or all columns as JSON."""

    gateway: str
    group: str
    as_json: bool
    patience_seconds: float
    query: str | None
    checkpoint: str | None


class StagedRows(WriterCommitMessage):
    """What one task left with the gateway."""

    def __init__(self, partition: int, name: str, count: int) -> None:
        self.partition = partition
        self.name = name
        self.count = count


class GroupWriter(DataSourceStreamArrowWriter):
    """Writes the batches of one query."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._options = options
        self._check_columns(schema)

    def write(self, iterator: Iterator[RecordBatch]) -> StagedRows:
        """Leave the rows of one task with the gateway. Runs in Spark's workers, perhaps more than once."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        with self._client() as client:
            name, count = client.stage(row for batch in iterator for row in self._rows(batch))
        return StagedRows(partition, name, count)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Have the batch sent, if it was not. Runs in the driver."""
        query, checkpoint = identify(self._options)
        staged = sorted(_staged(messages), key=lambda message: message.partition)
        with self._client() as client:
            client.publish(query, checkpoint, batchId, [(message.name, message.count) for message in staged])

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Forget what the tasks left that succeeded; what failed tasks left is forgotten after a day."""
        with self._client() as client:
            client.discard([message.name for message in _staged(messages)])

    def _client(self) -> SinkClient:
        options = self._options
        return SinkClient(options.gateway, options.group, options.patience_seconds)

    def _check_columns(self, schema: StructType) -> None:
        if self._options.as_json:
            return
        if DATA not in schema.names:
            raise SettingError(
                DATA,
                f"a row is sent as the bytes of its column `data`, and there are {', '.join(schema.names)}; select one"
                ' as `data`, or send all as JSON with .option("encode", "json")',
            )
        kind = schema[DATA].dataType
        if not isinstance(kind, BinaryType | StringType):
            raise SettingError(DATA, f"the column is binary or string, not {kind.simpleString()}; cast it")
        if len(schema.names) > 1:
            raise SettingError(
                DATA,
                f"only the column `data` is sent, and there are {', '.join(schema.names)}; select it alone, or send all"
                ' as JSON with .option("encode", "json")',
            )

    def _rows(self, batch: RecordBatch) -> Iterator[bytes]:
        if self._options.as_json:
            for row in batch.to_pylist():
                yield json.dumps(row, ensure_ascii=False, default=_plain).encode()
            return
        for value in batch.column(batch.schema.get_field_index(DATA)).to_pylist():
            if value is None:
                raise UnisonoError("a row has no `data`; filter those out, or fill them in")
            yield value.encode() if isinstance(value, str) else value


def read_options(options: Options) -> SinkOptions:
    """Checked options of a sink."""
    options.check("sink")
    encode = options.text("encode") or "data"
    if encode not in ("data", "json"):
        raise SettingError("encode", f"expected data or json, got {encode!r}")
    gateway = options.needed("gateway", "127.0.0.1:7110")
    split_endpoint(gateway)
    query = options.text("query")
    found = SinkOptions(
        gateway=gateway,
        group=options.needed("group", "orders"),
        as_json=encode == "json",
        patience_seconds=options.seconds("patience", "60s"),
        query=None if query is None else check_query(query),
        checkpoint=options.text("checkpointLocation"),
    )
    if found.query is None and found.checkpoint is None:
        raise SettingError(
            "query",
            'a query that starts again must be known as the same: give .option("checkpointLocation", ...), or name it'
            ' with .option("query", "counts")',
        )
    return found


def identify(options: SinkOptions) -> tuple[str, str]:
    """What a query is called at the gateway, the same after every restart, and the identifier of its checkpoint.

    Spark writes an identifier into every checkpoint. Where it cannot be read from here, the query needs a name.
    """
    checkpoint = _checkpoint_id(options.checkpoint)
    query = options.query or checkpoint
    if not query:
        raise SettingError(
            "query",
            f"the identifier of the checkpoint at {options.checkpoint} cannot be read from here; give the query a name"
            ' that stays the same: .option("query", "counts")',
        )
    return query, checkpoint


def _checkpoint_id(location: str | None) -> str:
    """The identifier that Spark gave to a checkpoint on this machine's disk, or nothing."""
    if location is None:
        return ""
    parts = urlparse(location)
    if parts.scheme not in ("", "file"):
        return ""
    folder = Path(url2pathname(parts.path) if parts.scheme else location)
    try:
        known: dict[str, Any] = json.loads((folder / "metadata").read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    return str(known.get("id", ""))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [message for message in messages if isinstance(message, StagedRows)]


def _plain(value: object) -> object:
    """What JSON does not know: bytes as text if they are some, else in hexadecimal; the rest as it is printed."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value)
