"""The live tables on disk: plain Parquet, a folder a table, a file a batch, and every batch counts once.

A file is written aside and renamed, and its name has the number of its batch: a batch that is done again replaces
itself. Files of many small batches are put together now and then, under the numbers of the first and the last.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from unisono.errors import TraceError
from unisono.pipeline.live.outputs import TABLES, Flagged, Line

SMALL_FILES = 256
"""When a table has so many files of single batches, all but the newest become one."""

_KEPT_SINGLE = 8
_NAME = re.compile(r"batch-(\d{12})(?:-(\d{12}))?\.parquet")


class LiveTables:
    """The tables below one directory, written by one process."""

    def __init__(self, directory: str | os.PathLike[str], host: str | None = None) -> None:
        self.directory = Path(directory)
        self._host = host
        self._singles: dict[str, list[int]] = {}
        try:
            for table in TABLES:
                folder = self.directory / table
                folder.mkdir(parents=True, exist_ok=True)
                for leftover in folder.glob(".*.new"):
                    leftover.unlink()
                files = covering(folder)
                for path in set(folder.glob("batch-*.parquet")) - set(files):
                    path.unlink()
                self._singles[table] = [first for first, last in files.values() if first == last]
        except OSError as error:
            raise TraceError(f"cannot write live tables to {self.directory}: {error.strerror}") from error

    def write(self, batch: int, lines: Sequence[Line]) -> list[Line]:
        """Put the lines of a batch in place of whatever it wrote before; as they were written, with their delays."""
        stamped = self._stamped(lines)
        by_table: dict[str, list[Line]] = {table: [] for table in TABLES}
        for line in stamped:
            by_table[line.table].append(line)
        try:
            for table, mine in by_table.items():
                self._replace(table, batch, mine)
        except OSError as error:
            raise TraceError(f"cannot write live tables to {self.directory}: {error.strerror}") from error
        return stamped

    def read(self, table: str) -> list[Line]:
        """All lines of a table."""
        return read_lines(self.directory, table)

    def _stamped(self, lines: Sequence[Line]) -> list[Line]:
        now, here = time.time_ns(), time.monotonic_ns()
        return [
            replace(
                line,
                flagged=now,
                delay=here - line.moment if line.clock is not None and line.clock == self._host else None,
            )
            if isinstance(line, Flagged) and line.moment is not None
            else line
            for line in lines
        ]

    def _replace(self, table: str, batch: int, lines: list[Line]) -> None:
        folder, singles = self.directory / table, self._singles[table]
        path = folder / _name(batch, batch)
        if not lines:
            if batch in singles:
                singles.remove(batch)
                path.unlink(missing_ok=True)
            return
        _write(path, _as_arrow(table, lines))
        if batch not in singles:
            singles.append(batch)
        if len(singles) >= SMALL_FILES:
            self._put_together(table)

    def _put_together(self, table: str) -> None:
        import pyarrow
        from pyarrow import parquet

        folder, singles = self.directory / table, sorted(self._singles[table])
        old, self._singles[table] = singles[:-_KEPT_SINGLE], singles[-_KEPT_SINGLE:]
        paths = [folder / _name(batch, batch) for batch in old]
        merged = pyarrow.concat_tables([parquet.read_table(path) for path in paths], promote_options="default")
        _write(folder / _name(old[0], old[-1]), merged)
        for path in paths:
            path.unlink()


def read_lines(directory: str | os.PathLike[str], table: str) -> list[Line]:
    """All lines of a live table, batch by batch; none where there is no such table yet."""
    return [line for _, line in read_batches(directory, table)]


def read_batches(directory: str | os.PathLike[str], table: str) -> list[tuple[int, Line]]:
    """All lines of a live table, each with the last batch of its file; the newest batches have files of their own."""
    from pyarrow import parquet

    build: Callable[..., Line] = TABLES[table]
    files = covering(Path(directory) / table)
    return [
        (last, build(**values)) for path, (_, last) in files.items() for values in parquet.read_table(path).to_pylist()
    ]


def covering(folder: Path) -> dict[Path, tuple[int, int]]:
    """The files of a table, in order, with their first and last batch; without those that a longer one stands for."""
    found = []
    for path in folder.glob("batch-*.parquet"):
        named = _NAME.fullmatch(path.name)
        if named is not None:
            first = int(named[1])
            found.append((first, -int(named[2] or first), path))
    files: dict[Path, tuple[int, int]] = {}
    end = -1
    for first, last, path in sorted(found):
        if -last > end:
            files[path] = (first, -last)
            end = -last
    return files


def _name(first: int, last: int) -> str:
    return f"batch-{first:012}.parquet" if first == last else f"batch-{first:012}-{last:012}.parquet"


def _write(path: Path, table: Any) -> None:
    from pyarrow import parquet

    aside = path.with_name(f".{path.name}.new")
    parquet.write_table(table, aside, compression="zstd")
    aside.replace(path)


def _as_arrow(table: str, lines: list[Line]) -> Any:
    import pyarrow

    hints = get_type_hints(TABLES[table])
    names = TABLES[table].__struct_fields__
    schema = pyarrow.schema([pyarrow.field(name, _arrow_type(hints[name])) for name in names])
    columns = [pyarrow.array([getattr(line, field.name) for line in lines], field.type) for field in schema]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _arrow_type(annotation: Any) -> Any:
    import pyarrow

    if annotation == list[int]:
        return pyarrow.list_(pyarrow.int64())
    if annotation == list[str]:
        return pyarrow.list_(pyarrow.string())
    return pyarrow.int64() if int in (annotation, *get_args(annotation)) else pyarrow.string()
