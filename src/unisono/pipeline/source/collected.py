"""A collector's retained log as columns: one row a trace row, of all families alike or of one with its own columns.

The offset is that of the report that brought the row. Rows of one process come in its order; those of several, as their
reports came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from unisono.errors import SettingError
from unisono.pipeline.source.logs import Columns
from unisono.pipeline.source.options import Options
from unisono.pipeline.tables import schema_of
from unisono.spelling import did_you_mean
from unisono.trace import reports
from unisono.trace.report_batches import record_batch
from unisono.trace.schema import FAMILIES, AnyRow, family_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

OFFSET = StructField("offset", LongType(), False)
COMMON = StructType(
    [
        OFFSET,
        StructField("run", StringType(), False),
        StructField("group", StringType(), False),
        StructField("process", StringType(), False),
        StructField("incarnation", LongType(), False),
        StructField("position", LongType(), False),
        StructField("at", LongType(), False),
        StructField("host", StringType(), False),
        StructField("truth", LongType()),
        StructField("family", StringType(), False),
        StructField("kind", StringType(), False),
        StructField("row", BinaryType(), False),
    ]
)
"""What rows of every family have; `row` is the whole row, as a spool has it."""

_PLAIN = COMMON.names[1:-3]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyRow).decode


def columns(options: Options) -> Columns:
    """The columns of the rows in reports; with `family`, those of that family."""
    family = options.text("family")
    if family is None:
        return RowColumns()
    if family not in FAMILIES:
        raise SettingError("family", f"there is no family {family!r}; {did_you_mean(family, tuple(FAMILIES))}")
    return FamilyColumns(family)


def decode_row(data: bytes) -> AnyRow:
    """The trace row in a value of the column `row`."""
    row: AnyRow = _decode(data)
    return row


class RowColumns:
    """Rows of all families."""

    def schema(self) -> StructType:
        return COMMON

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        found = [
            (place, row)
            for place, payload in enumerate(payloads, offset)
            for row in reports.rows(reports.decode(payload))
        ]
        values = [
            [place for place, _ in found],
            *([getattr(row, name) for _, row in found] for name in _PLAIN),
            [family_of(row) for _, row in found],
            [row.kind for _, row in found],
            [_encode(row) for _, row in found],
        ]
        schema = to_arrow_schema(COMMON)
        arrays = [pyarrow.array(column, field.type) for column, field in zip(values, schema, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


class FamilyColumns:
    """Rows of one family, with the columns of its table after the offset."""

    def __init__(self, family: str) -> None:
        self._family = family

    def schema(self) -> StructType:
        return StructType([OFFSET, *schema_of(self._family)])

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self.schema())
        for place, payload in enumerate(payloads, offset):
            report = reports.decode(payload)
            if self._family not in report.tables:
                continue
            batch = record_batch(report, self._family)
            offsets = pyarrow.array([place] * batch.num_rows, pyarrow.int64())
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, list(schema)[1:], strict=True)]
            yield pyarrow.RecordBatch.from_arrays([offsets, *arrays], schema=schema)
