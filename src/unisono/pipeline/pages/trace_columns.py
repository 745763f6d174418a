"""The tables of one run, read by column and in pieces, so that a run of any length fits into this process's memory.

Words become numbers: every text column of a piece has codes into one list of words, so that the name of a process is
the same number wherever it stands. Whole rows are made only of the few that somebody asks for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet

from unisono.errors import TraceError
from unisono.trace.parquet import arrow_schema, rows_of, table_files, table_metadata
from unisono.trace.schema import FAMILIES, AnyRow

Numbers = NDArray[np.int64]
Piece = dict[str, Numbers]
"""Columns of some rows by name."""

PIECE_ROWS = 100_000
NOTHING = -1
"""What stands for null: no text has this code, and no number that may be null is negative."""
TRUTH = -2
"""The clock of rows that have the simulator's time."""
MOMENT, CLOCK = "moment", "clock"
"""Columns that every family has besides its own: when a row was written, and by which clock (a host, or TRUTH)."""


class TraceTables:
    """The tables in one folder."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._files = {family: table_files(directory, family) for family in FAMILIES}
        self._codes: dict[str, int] = {}
        self._counts: dict[str, int] = {
            family: sum(int(table_metadata(path, family).num_rows) for path in paths)
            for family, paths in self._files.items()
        }
        self.words: list[str] = []

    def count(self, family: str) -> int:
        """How many rows a family has."""
        return self._counts[family]

    def code(self, word: str | None) -> int:
        """The number of a word, which it gets here if it has none."""
        if word is None:
            return NOTHING
        if word not in self._codes:
            self._codes[word] = len(self.words)
            self.words.append(word)
        return self._codes[word]

    def pieces(self, family: str, columns: Sequence[str]) -> Iterator[Piece]:
        """The rows of a family, so many at a time, in the order of the files."""
        for _, piece in self._numbered(family, columns):
            yield piece

    def rows(self, family: str, columns: Sequence[str], wanted: Callable[[Piece], NDArray[np.bool_]]) -> list[AnyRow]:
        """The rows for which `wanted`, which is given pieces with these columns, says true."""
        places: dict[int, list[Numbers]] = {}
        for (file, first), piece in self._numbered(family, columns):
            (found,) = np.nonzero(wanted(piece))
            if len(found):
                places.setdefault(file, []).append(found + first)
        return [row for file, some in places.items() for row in self._whole_rows(family, file, np.concatenate(some))]

    def all_rows(self, family: str, kinds: Sequence[str] | None = None) -> list[AnyRow]:
        """Every row of a family that is never long, or those of these kinds."""
        if kinds is None:
            return self.rows(family, ["kind"], lambda piece: np.ones(len(piece["kind"]), dtype=bool))
        codes = [self.code(kind) for kind in kinds]
        return self.rows(family, ["kind"], lambda piece: np.isin(piece["kind"], codes))

    def _numbered(self, family: str, columns: Sequence[str]) -> Iterator[tuple[tuple[int, int], Piece]]:
        """Pieces, each with its file and the place of its first row in it."""
        read = [name for name in columns if name not in (MOMENT, CLOCK)]
        if len(read) < len(columns):
            read += [name for name in ("truth", "at", "host") if name not in read]
        if not self._counts[family]:
            return
        texts = [field.name for field in arrow_schema(family) if pyarrow.types.is_string(field.type)]
        several = self._counts[family] > PIECE_ROWS
        for file, path in enumerate(self._files[family]):
            first = 0
            try:
                with parquet.ParquetFile(path, read_dictionary=[name for name in read if name in texts]) as opened:
                    for batch in opened.iter_batches(PIECE_ROWS, columns=read, use_threads=several):
                        yield (file, first), self._piece(batch, columns)
                        first += batch.num_rows
            except (OSError, pyarrow.ArrowException) as error:
                raise TraceError(f"cannot read {path}: {error}") from error

    def _piece(self, batch: Any, columns: Sequence[str]) -> Piece:
        piece = {name: self._numbers(batch.column(name)) for name in columns if name not in (MOMENT, CLOCK)}
        if MOMENT in columns or CLOCK in columns:
            truth = batch.column("truth")
            known = truth.is_valid().to_numpy(zero_copy_only=False)
            piece[MOMENT] = np.where(known, self._numbers(truth), self._numbers(batch.column("at")))
            piece[CLOCK] = np.where(known, TRUTH, self._numbers(batch.column("host")))
        return piece

    def _numbers(self, column: Any) -> Numbers:
        if pyarrow.types.is_dictionary(column.type):
            codes = np.array([*(self.code(word) for word in column.dictionary.to_pylist()), NOTHING], dtype=np.int64)
            places = column.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
            return np.asarray(codes[places], dtype=np.int64)
        if column.null_count:
            column = column.fill_null(NOTHING)
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _whole_rows(self, family: str, file: int, places: Numbers) -> Iterator[AnyRow]:
        path = self._files[family][file]
        try:
            with parquet.ParquetFile(path) as opened:
                first = 0
                for group in range(opened.num_row_groups):
                    last = first + opened.metadata.row_group(group).num_rows
                    here = places[(places >= first) & (places < last)] - first
                    if len(here):
                        yield from rows_of(opened.read_row_group(group).take(here), family)
                    first = last
        except (OSError, pyarrow.ArrowException) as error:
            raise TraceError(f"cannot read {path}: {error}") from error


def distinct(columns: Sequence[Numbers]) -> tuple[list[tuple[int, ...]], Numbers]:
    """The different tuples that these columns have side by side, and for each row which of them it is."""
    inverse = np.zeros(len(columns[0]), dtype=np.int64)
    keys: Numbers = np.zeros((1, 0), dtype=np.int64)
    for column in columns:
        if len(column) and bool((column == column[0]).all()):
            keys = np.column_stack([keys, np.full(len(keys), column[0])])
            continue
        values, place = np.unique(column, return_inverse=True)
        both, inverse = np.unique(inverse * len(values) + place, return_inverse=True)
        keys = np.column_stack([keys[both // len(values)], values[both % len(values)]])
    return [tuple(int(part) for part in key) for key in keys], inverse
