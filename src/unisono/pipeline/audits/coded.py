"""Columns of a table as numbers: what repeats becomes a code, so that rows are compared and grouped by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet

from unisono.errors import TraceError

Column = Any
"""A column of numbers: numpy's types are not checked here."""

_MOST = 1 << 40
"""Codes that are combined stay below this, so that one more factor fits."""


class TableFile(Struct, frozen=True):
    """A file of a table, and what is added to the names of its runs to tell them from others."""

    path: str
    suffix: str = ""


class Codes(Struct, eq=False):
    """A column as codes from 0 on, each the place of its value; -1 stands for null."""

    codes: Column
    values: list[Any]

    def where(self, holds: Sequence[bool], null: bool) -> Column:
        """For each row what is said of its value; `null` of those without one."""
        return np.asarray([*holds, null])[self.codes]

    def numbers(self, numbers: Sequence[int], null: int) -> Column:
        return np.asarray([*numbers, null], np.int64)[self.codes]


def read_file(file: TableFile, columns: Sequence[str], groups: Sequence[int] | None = None) -> Any:
    """These columns of a file, or of some of its row groups; text comes as dictionaries."""
    try:
        schema = parquet.read_schema(file.path)
        text = [name for name in columns if pa.types.is_string(schema.field(name).type)]
        with parquet.ParquetFile(file.path, read_dictionary=text) as opened:
            chosen = range(opened.num_row_groups) if groups is None else groups
            table = opened.read_row_groups(list(chosen), columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"cannot read {file.path}: {error}") from error
    table = as_dictionaries(table)
    if file.suffix:
        names = table["run"].combine_chunks()
        renamed = pa.DictionaryArray.from_arrays(
            names.indices, pa.array([f"{name}{file.suffix}" for name in names.dictionary.to_pylist()], pa.string())
        )
        table = table.set_column(table.schema.get_field_index("run"), "run", renamed)
    return table


def as_dictionaries(table: Any) -> Any:
    """The same table in one chunk, its text as dictionaries."""
    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            column = column.dictionary_encode()
        columns.append(column)
    return pa.table(columns, names=table.column_names).unify_dictionaries().combine_chunks()


def codes_of(column: Any) -> Codes:
    """A column of text or of numbers as codes."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Codes(codes, array.dictionary.to_pylist())


def numbers_of(column: Any) -> Column:
    """A column of whole numbers; null becomes 0, which `present` tells from 0."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy(zero_copy_only=False)


def present(column: Any) -> Column:
    """Where a column has a value."""
    return column.is_valid().to_numpy(zero_copy_only=False)


def combined(*columns: Codes) -> tuple[Column, Column]:
    """Columns taken together as one code from 0 on, and of each code the first row that has it."""
    codes, bound = columns[0].codes.astype(np.int64) + 1, len(columns[0].values) + 1
    for column in columns[1:]:
        size = len(column.values) + 1
        if bound * size > _MOST:
            codes, bound = _dense(codes)
        codes, bound = codes * size + (column.codes + 1), bound * size
    codes, count = _dense(codes)
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, first


def _dense(codes: Column) -> tuple[Column, int]:
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def by_code(codes: Column, count: int, position: Column) -> Column:
    """The rows sorted by code and then by position; quickly where they are in that order but for the codes."""
    small = codes.astype(np.uint16) if count < 1 << 16 else codes
    order = np.argsort(small, kind="stable")
    placed, sorted_codes = position[order], codes[order]
    if np.all((placed[1:] >= placed[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])):
        return order
    return np.lexsort((position, codes))


def slices(sorted_codes: Column) -> list[tuple[int, int]]:
    """Where each code begins and ends in a sorted column."""
    if not len(sorted_codes):
        return []
    edges = np.flatnonzero(np.diff(sorted_codes)) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(sorted_codes)], strict=True))
