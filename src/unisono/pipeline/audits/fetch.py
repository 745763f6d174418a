"""Single rows out of large tables: tasks read row groups and give the rows of what is asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from unisono.pipeline.audits.coded import codes_of, combined, numbers_of, read_file
from unisono.pipeline.audits.pieces import Part, pieces
from unisono.pipeline.tables import Tables, schema_of
from unisono.trace.parquet import arrow_schema


def fetch(tables: Tables, family: str, asked: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows of a family whose key is among those that are asked for; these are few."""
    session = asked.sparkSession
    wanted = {tuple(row) for row in asked.select(*key).distinct().collect()}
    names = tuple(key)
    parts = pieces(tables.files[family])
    if len(parts) <= 1:
        found = [_chosen(family, part, wanted, names) for piece in parts for part in piece]
        table = pa.concat_tables(found) if found else arrow_schema(family).empty_table()
        return session.createDataFrame(table, schema_of(family))

    def choose(indexes: Iterator[Any]) -> Iterator[Any]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                for part in parts[index]:
                    yield from _chosen(family, part, wanted, names).to_batches()

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(choose, schema_of(family))


def _chosen(family: str, part: Part, wanted: set[tuple[Any, ...]], key: tuple[str, ...]) -> Any:
    """The rows that are wanted of some row groups."""
    schema = arrow_schema(family)
    table = read_file(part.file, schema.names, part.groups)
    if "number" in key:
        place = key.index("number")
        some = np.isin(numbers_of(table["number"]), np.asarray([one[place] for one in wanted], np.int64))
        table = table.filter(pa.array(some))
    if table.num_rows:
        columns = [codes_of(table[name]) for name in key]
        codes, first = combined(*columns)
        mine = [
            tuple(None if column.codes[row] < 0 else column.values[column.codes[row]] for column in columns) in wanted
            for row in first.tolist()
        ]
        table = table.filter(pa.array(np.asarray(mine, bool)[codes]))
    return table.cast(schema).replace_schema_metadata(None)
