"""Trace tables as Parquet: a file or a folder of parts for each family, its columns taken from the schema module.

Equal rows give equal bytes: row groups have a fixed size and the files hold no time and no name of a host. A
family without rows has a file too, so that readers need no special case.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Struct, structs

from unisono.errors import TraceError
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow, family_of

ROW_GROUP_ROWS = 100_000
GROWING_COLUMNS = ("position", "at", "truth", "index", "timestamp")
"""Integers that mostly grow from row to row: stored as differences, which takes a fraction of a dictionary."""

_VERSION_KEY = b"unisono.schema_version"


def parquet_is_there() -> bool:
    """Whether this installation can write and read Parquet."""
    try:
        _pyarrow()
    except TraceError:
        return False
    return True


def table_path(directory: str | os.PathLike[str], family: str) -> Path:
    """Where a family's table is: a file, or a folder of parts."""
    return Path(directory) / f"{family}.parquet"


def part_path(directory: str | os.PathLike[str], family: str, number: int) -> Path:
    """Where a part is in a table that is a folder; parts are read in the order of their names."""
    return table_path(directory, family) / f"part-{number:06}.parquet"


def table_files(directory: str | os.PathLike[str], family: str) -> list[Path]:
    """The files of one table in the order of their rows; where there is no table, the file that should be there."""
    path = table_path(directory, family)
    try:
        if not path.is_dir():
            return [path]
        parts = sorted(part for part in path.glob("*.parquet") if not part.name.startswith((".", "_")))
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if not parts:
        raise TraceError(f"{path} is a table without a part: the run is not whole")
    return parts


@cache
def arrow_schema(family: str) -> Any:
    """The columns of one table, in the order of the Struct."""
    pyarrow = _pyarrow()
    return pyarrow.schema(_arrow_fields(FAMILIES[family]), metadata={_VERSION_KEY: str(SCHEMA_VERSION)})


def write_tables(directory: str | os.PathLike[str], rows: Iterable[AnyRow], *, part_rows: int | None = None) -> None:
    """Write every family's table into an existing directory; rows keep their order within a family.

    With `part_rows` every table is a folder of parts of so many rows; without, it is one file.
    """
    pyarrow = _pyarrow()
    with ExitStack() as open_tables:
        try:
            writers = {
                family: open_tables.enter_context(_TableWriter(directory, family, part_rows)) for family in FAMILIES
            }
            for row in rows:
                writers[family_of(row)].add(row)
            for writer in writers.values():
                writer.finish()
        except (OSError, pyarrow.ArrowException) as error:
            raise TraceError(f"cannot write tables into {os.fspath(directory)}: {error}") from error


def write_table(path: str | os.PathLike[str], family: str, rows: Sequence[AnyRow]) -> None:
    """Write one file of a family: a whole table, or a part of one."""
    pyarrow = _pyarrow()
    try:
        with open_table_writer(Path(path), family) as writer:
            if rows:
                writer.write_table(_table(family, rows), row_group_size=ROW_GROUP_ROWS)
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot write {os.fspath(path)}: {error}") from error


def merge_tables(directory: str | os.PathLike[str], sources: Sequence[str | os.PathLike[str]]) -> None:
    """Write the tables of several directories, one after the other, into the tables of an existing directory."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    try:
        for family in FAMILIES:
            schema = arrow_schema(family)
            with open_table_writer(table_path(directory, family), family) as writer:
                waiting: list[Any] = []
                for file in [file for source in sources for file in table_files(source, family)]:
                    waiting.append(parquet.read_table(file, schema=schema))
                    if sum(table.num_rows for table in waiting) >= ROW_GROUP_ROWS:
                        writer.write_table(pyarrow.concat_tables(waiting), row_group_size=ROW_GROUP_ROWS)
                        waiting.clear()
                if waiting:
                    writer.write_table(pyarrow.concat_tables(waiting), row_group_size=ROW_GROUP_ROWS)
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot put tables together in {os.fspath(directory)}: {error}") from error


def names_of_runs(directory: str | os.PathLike[str]) -> set[str]:
    """The names of all runs that have a row in these tables."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    names: set[str] = set()
    try:
        for family in FAMILIES:
            for file in table_files(directory, family):
                names.update(parquet.read_table(file, columns=["run"])["run"].unique().to_pylist())
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot read {os.fspath(directory)}: {error}") from error
    return names


class _TableWriter:
    """One table while it is written: rows wait until a row group is full, parts follow one another."""

    def __init__(self, directory: str | os.PathLike[str], family: str, part_rows: int | None) -> None:
        self._directory = directory
        self._family = family
        self._part_rows = part_rows
        self._parts = 0
        self._rows_in_part = 0
        self._waiting: list[AnyRow] = []
        if part_rows is not None:
            table_path(directory, family).mkdir()
        self._writer = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()

    def add(self, row: AnyRow) -> None:
        if self._rows_in_part == self._part_rows:
            self.finish()
            self._writer.close()
            self._writer = self._open()
        self._waiting.append(row)
        self._rows_in_part += 1
        if len(self._waiting) == ROW_GROUP_ROWS:
            self.finish()

    def finish(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._writer.write_table(_table(self._family, self._waiting), row_group_size=ROW_GROUP_ROWS)
            self._waiting.clear()

    def _open(self) -> Any:
        if self._part_rows is None:
            return open_table_writer(table_path(self._directory, self._family), self._family)
        self._parts += 1
        self._rows_in_part = 0
        return open_table_writer(part_path(self._directory, self._family, self._parts - 1), self._family)


def open_table_writer(path: Path, family: str, notes: Mapping[bytes, bytes] | None = None) -> Any:
    """A writer of pyarrow for one file of a family; `notes` stand in its end, beside the version of the schema."""
    from pyarrow import parquet

    schema = arrow_schema(family)
    if notes is not None:
        schema = schema.with_metadata({**schema.metadata, **notes})
    return parquet.ParquetWriter(path, schema, compression="zstd", **_encodings(FAMILIES[family]))


def read_tables(directory: str | os.PathLike[str]) -> list[AnyRow]:
    """All rows, family by family in the order of FAMILIES, each in the order in which it was written."""
    files = [(family, file) for family in FAMILIES for file in table_files(directory, family)]
    return [row for family, file in files for row in read_table(file, family)]


def read_table(path: str | os.PathLike[str], family: str) -> Iterator[AnyRow]:
    """The rows of one file."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    name = os.fspath(path)
    try:
        with parquet.ParquetFile(path) as file:
            _refuse_other_columns(name, file.schema_arrow, arrow_schema(family))
            for batch in file.iter_batches(batch_size=ROW_GROUP_ROWS):
                yield from rows_of(batch, family)
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot read {name}: {error}") from error


def rows_of(batch: Any, family: str) -> Iterator[AnyRow]:
    """The rows of an Arrow batch or table that has all columns of a family."""
    kind = FAMILIES[family]
    readers = _value_readers(kind)
    columns = [
        [read(value) for value in column.to_pylist()] if read else column.to_pylist()
        for column, read in zip(batch.columns, readers.values(), strict=True)
    ]
    for values in zip(*columns, strict=True):
        yield kind(**dict(zip(readers, values, strict=True)))


def table_metadata(path: str | os.PathLike[str], family: str) -> Any:
    """The end of one file: its columns are as expected, its row groups with their counts and bounds."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    name = os.fspath(path)
    try:
        with parquet.ParquetFile(path) as file:
            _refuse_other_columns(name, file.schema_arrow, arrow_schema(family))
            return file.metadata
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot read {name}: {error}") from error


def _refuse_other_columns(name: str, found: Any, expected: Any) -> None:
    if found.equals(expected):
        return
    version = (found.metadata or {}).get(_VERSION_KEY)
    if version is None:
        raise TraceError(f"{name} is not a trace table of unisono")
    if version != str(SCHEMA_VERSION).encode():
        raise TraceError(
            f"{name} has schema version {version.decode(errors='replace')}, this version reads {SCHEMA_VERSION};"
            " read it with the version that wrote it"
        )
    raise TraceError(f"{name} has other columns than schema version {SCHEMA_VERSION}")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise TraceError("Parquet needs pyarrow; install it with: pip install 'unisono[lab]'") from None
    return pyarrow


def _arrow_fields(kind: type[Struct]) -> list[Any]:
    pyarrow = _pyarrow()
    hints = get_type_hints(kind)
    return [
        pyarrow.field(name, _arrow_type(hints[name]), nullable=_nullable(hints[name]))
        for name in kind.__struct_fields__
    ]


def _arrow_type(annotation: Any) -> Any:
    """The one mapping from annotations to column types."""
    pyarrow = _pyarrow()
    annotation = _without_none(annotation)
    origin = get_origin(annotation)
    if annotation is bool:
        return pyarrow.bool_()
    if annotation is int:
        return pyarrow.int64()
    if annotation is float:
        return pyarrow.float64()
    if annotation is str or (origin is Literal and all(isinstance(value, str) for value in get_args(annotation))):
        return pyarrow.string()
    if origin is list:
        (item,) = get_args(annotation)
        return pyarrow.list_(pyarrow.field("element", _arrow_type(item), nullable=_nullable(item)))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return pyarrow.struct(_arrow_fields(annotation))
    raise TypeError(f"no column type for {annotation}")


def _encodings(kind: type[Struct]) -> dict[str, Any]:
    """Dictionaries for what repeats, differences for what grows."""
    hints = get_type_hints(kind)
    growing = [name for name in GROWING_COLUMNS if name in hints]
    nested = [name for name, hint in hints.items() if get_origin(_without_none(hint)) is list]
    return {
        "use_dictionary": [name for name in kind.__struct_fields__ if name not in growing and name not in nested],
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    }


def _table(family: str, rows: Sequence[AnyRow]) -> Any:
    pyarrow = _pyarrow()
    schema = arrow_schema(family)
    columns = []
    for field in schema:
        values = [getattr(row, field.name) for row in rows]
        if pyarrow.types.is_list(field.type) and pyarrow.types.is_struct(field.type.value_type):
            values = [None if value is None else [structs.asdict(item) for item in value] for value in values]
        try:
            columns.append(pyarrow.array(values, type=field.type))
        except (OverflowError, TypeError, pyarrow.ArrowException) as error:
            raise TraceError(f"{family}.{field.name} has a value that is no {field.type}: {error}") from error
        if not field.nullable and columns[-1].null_count:
            raise TraceError(f"{family}.{field.name} has a null")
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _value_readers(kind: type[Struct]) -> dict[str, Callable[[Any], Any] | None]:
    """By column, how its values become what the Struct holds; None where they already are."""
    hints = get_type_hints(kind)
    return {name: _value_reader(hints[name]) for name in kind.__struct_fields__}


def _value_reader(annotation: Any) -> Callable[[Any], Any] | None:
    annotation = _without_none(annotation)
    if get_origin(annotation) is not list:
        return None
    item = get_args(annotation)[0]
    if not (isinstance(item, type) and issubclass(item, Struct)):
        return None
    build = cast(Callable[..., Any], item)
    return lambda values: None if values is None else [build(**value) for value in values]


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    options = [option for option in get_args(annotation) if option is not type(None)]
    if len(options) != 1:
        raise TypeError(f"no column type for {annotation}")
    return options[0]


def _nullable(annotation: Any) -> bool:
    return type(None) in get_args(annotation)
