"""The one scan of sends and deliveries: tasks read row groups and give what stands for them.

Rows of a process come mostly in the order of their positions. Where they do not, they are sorted by Spark first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from unisono.pipeline.audits.coded import TableFile, as_dictionaries, read_file
from unisono.pipeline.audits.condense import columns_of, condense, condensed_schema
from unisono.pipeline.audits.known import known
from unisono.pipeline.audits.pieces import PIECE_ROWS, Part, pieces
from unisono.pipeline.columns import PROCESS
from unisono.pipeline.tables import Tables

PARTITION_ROWS = 200_000
"""What is condensed is kept in parts of about so many rows."""


def scan(tables: Tables, family: str) -> DataFrame:
    """What stands for the rows of a family, in few partitions; it is computed now."""
    session = tables.family(family).sparkSession
    found = _scan_files(session, tables, family, pieces(tables.files[family]))
    if _is_out_of_order(found):
        found.unpersist()
        found = _scan_sorted(tables, family).persist(StorageLevel.MEMORY_AND_DISK)
    rows = found.count()
    settled = found.repartition(rows // PARTITION_ROWS + 1).localCheckpoint()
    found.unpersist()
    return settled


def _scan_files(session: SparkSession, tables: Tables, family: str, parts: list[list[Part]]) -> DataFrame:
    """By tasks, or here and now where there is so little that it is not worth a worker."""
    schema = from_arrow_schema(condensed_schema(family))
    files = tables.files
    if len(parts) <= 1:
        batches = [batch for piece in parts for batch in _condense_piece(family, piece, files)]
        return session.createDataFrame(_as_table(family, batches), schema)

    def condense_pieces(indexes: Iterator[Any]) -> Iterator[Any]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                yield from _condense_piece(family, parts[index], files)

    tasks = session.range(0, len(parts), 1, len(parts))
    return tasks.mapInArrow(condense_pieces, schema).persist(StorageLevel.MEMORY_AND_DISK)


def _condense_piece(family: str, piece: Sequence[Part], files: dict[str, tuple[TableFile, ...]]) -> Iterator[Any]:
    import pyarrow as pa

    tables = [read_file(part.file, columns_of(family), part.groups) for part in piece]
    together = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    for table in condense(family, together, known(files)):
        yield from table.to_batches()


def _scan_sorted(tables: Tables, family: str) -> DataFrame:
    """The same of rows that Spark has sorted: those of a process are together and in order."""
    files = tables.files

    def condense_sorted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for some in _gathered(batches):
            for table in condense(family, as_dictionaries(pa.Table.from_batches(some)), known(files)):
                yield from table.to_batches()

    ordered = tables.family(family).select(*columns_of(family)).repartition(*PROCESS)
    ordered = ordered.sortWithinPartitions(*PROCESS, "position")
    return ordered.mapInArrow(condense_sorted, from_arrow_schema(condensed_schema(family)))


def _gathered(batches: Iterable[Any]) -> Iterator[list[Any]]:
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(one) for one in waiting) >= PIECE_ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _is_out_of_order(found: DataFrame) -> bool:
    """Whether what one task has of a process stands among what another has of it."""
    chunks = found.where("part = 'chunk'").select(*PROCESS, "position", "last_position").collect()
    ranges = sorted(tuple(row) for row in chunks)
    return any(one[:3] == other[:3] and other[3] <= one[4] for one, other in pairwise(ranges))


def _as_table(family: str, batches: list[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches, condensed_schema(family))
