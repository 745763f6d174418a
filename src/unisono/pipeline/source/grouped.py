"""A group as columns: one row an event that its gateway was given, in the gateway's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import structs
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from unisono.errors import TraceError
from unisono.pipeline.source.options import Options
from unisono.trace.group_log import Entry, decode_all

if TYPE_CHECKING:
    from pyarrow import RecordBatch

SCHEMA = StructType(
    [
        StructField("offset", LongType(), False),
        StructField("kind", StringType(), False),
        StructField("group", StringType(), False),
        StructField("source", StringType()),
        StructField("incarnation", LongType()),
        StructField("number", LongType()),
        StructField("timestamp", LongType()),
        StructField("view", StringType()),
        StructField("data", BinaryType(), False),
        StructField("query", StringType()),
        StructField("batch", LongType()),
        StructField("row", LongType()),
    ]
)
COLUMNS = SCHEMA.names[1:]
"""Those that stand in an entry of the log."""


class GroupColumns:
    """The entries of one group's log as columns."""

    def __init__(self, group: str) -> None:
        self._group = group

    def schema(self) -> StructType:
        return SCHEMA

    def batches(self, offset: int, payloads: list[bytes]) -> Iterator[RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        entries = decode_all(payloads)
        for entry in entries:
            if entry.group != self._group:
                raise TraceError(
                    f'this gateway is in group {entry.group!r}, not {self._group!r}; give .option("group",'
                    f' "{entry.group}"), or the address of another gateway'
                )
        columns = zip(*(structs.astuple(entry)[: len(COLUMNS)] for entry in entries), strict=True)
        places = range(offset, offset + len(entries))
        yield pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array(list(values), field.type)
                for values, field in zip([places, *columns], to_arrow_schema(SCHEMA), strict=True)
            ],
            schema=to_arrow_schema(SCHEMA),
        )


def columns(options: Options) -> GroupColumns:
    """The columns of the group that the options name."""
    return GroupColumns(options.needed("group", "orders"))


assert Entry.__struct_fields__[: len(COLUMNS)] == tuple(COLUMNS), "an entry has the columns of its table"
