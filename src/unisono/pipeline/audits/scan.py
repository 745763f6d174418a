"""The one scan of sends and deliveries: tasks read row groups and give what stands for them.

Rows of a process come mostly in the order of their positions. Where they do not, they are sorted by Spark first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from unisono.pipeline.audits.coded import TableFile, as_dictionaries, read_file
from unisono.pipeline.audits.condense import columns_of, condense, condensed_schema
from unisono.pipeline.audits.known import known
from unisono.pipeline.audits.pieces import PIECE_ROWS, Part, pieces
from unisono.pipeline.columns import PROCESS
from unisono.pipeline.tables import Tables

PARTITION_ROWS = 200_000
"""What is condensed is kept in parts of about so many rows."""


def scan(tables: Tables, family: str, reading: str) -> DataFrame:
    """What stands for the rows of a family, in few partitions; it is computed now, in the reading of one audit."""
    parts = pieces(tables.files[family])
    # Where there is so little that it is not worth a worker, it is done here and now.
    scan_parts = _scan_here if len(parts) <= 1 else _scan_files
    with _held(scan_parts(tables, family, parts, reading)) as found:
        if not _is_out_of_order(found):
            return _settled(found)
    with _held(_scan_sorted(tables, family, reading)) as found:
        return _settled(found)


@contextmanager
def _held(found: DataFrame) -> Iterator[DataFrame]:
    """A table that is computed once for a while."""
    found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield found
    finally:
        found.unpersist()


def _settled(found: DataFrame) -> DataFrame:
    return found.repartition(found.count() // PARTITION_ROWS + 1).localCheckpoint()


def _scan_here(tables: Tables, family: str, parts: list[list[Part]], reading: str) -> DataFrame:
    batches = [batch for piece in parts for batch in _condense_piece(family, piece, tables.files, reading)]
    schema = from_arrow_schema(condensed_schema(family))
    return tables.session.createDataFrame(_as_table(family, batches), schema)


def _scan_files(tables: Tables, family: str, parts: list[list[Part]], reading: str) -> DataFrame:
    """By tasks, each a piece at a time."""
    files = tables.files

    def condense_pieces(indexes: Iterator[Any]) -> Iterator[Any]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                yield from _condense_piece(family, parts[index], files, reading)

    tasks = tables.session.range(0, len(parts), 1, len(parts))
    return tasks.mapInArrow(condense_pieces, from_arrow_schema(condensed_schema(family)))


def _condense_piece(
    family: str, piece: Sequence[Part], files: dict[str, tuple[TableFile, ...]], reading: str
) -> Iterator[Any]:
    import pyarrow as pa

    tables = [read_file(part.file, columns_of(family), part.groups) for part in piece]
    together = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    for table in condense(family, together, known(reading, files)):
        yield from table.to_batches()


def _scan_sorted(tables: Tables, family: str, reading: str) -> DataFrame:
    """The same of rows that Spark has sorted: those of a process are together and in order."""
    files = tables.files

    def condense_sorted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for some in _gathered(batches):
            for table in condense(family, as_dictionaries(pa.Table.from_batches(some)), known(reading, files)):
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
