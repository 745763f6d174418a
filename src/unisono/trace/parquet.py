"""Trace tables as Parquet: one file a family, its columns taken from the schema module.

Equal rows give equal bytes: row groups have a fixed size and the files hold no time and no name of a host. A
family without rows has a file too, so that readers need no special case.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

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
    return Path(directory) / f"{family}.parquet"


def arrow_schema(family: str) -> Any:
    """The columns of one table, in the order of the Struct."""
    pyarrow = _pyarrow()
    return pyarrow.schema(_arrow_fields(FAMILIES[family]), metadata={_VERSION_KEY: str(SCHEMA_VERSION)})


def write_tables(directory: str | os.PathLike[str], rows: Iterable[AnyRow]) -> None:
    """Write every family's table into an existing directory; rows keep their order within a family."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    writers: dict[str, Any] = {}
    waiting: dict[str, list[AnyRow]] = {family: [] for family in FAMILIES}

    def write_group(family: str) -> None:
        writers[family].write_table(_table(family, waiting[family]), row_group_size=ROW_GROUP_ROWS)
        waiting[family].clear()

    try:
        for family, kind in FAMILIES.items():
            writers[family] = parquet.ParquetWriter(
                table_path(directory, family), arrow_schema(family), compression="zstd", **_encodings(kind)
            )
        for row in rows:
            family = family_of(row)
            waiting[family].append(row)
            if len(waiting[family]) == ROW_GROUP_ROWS:
                write_group(family)
        for family, remainder in waiting.items():
            if remainder:
                write_group(family)
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot write tables into {os.fspath(directory)}: {error}") from error
    finally:
        for writer in writers.values():
            writer.close()


def read_tables(directory: str | os.PathLike[str]) -> list[AnyRow]:
    """All rows, family by family in the order of FAMILIES, each in the order in which it was written."""
    return [row for family in FAMILIES for row in read_table(table_path(directory, family), family)]


def read_table(path: str | os.PathLike[str], family: str) -> Iterator[AnyRow]:
    """The rows of one file."""
    pyarrow = _pyarrow()
    from pyarrow import parquet

    name = os.fspath(path)
    try:
        with parquet.ParquetFile(path) as file:
            _refuse_other_columns(name, file.schema_arrow, arrow_schema(family))
            kind = FAMILIES[family]
            readers = _value_readers(kind)
            for batch in file.iter_batches(batch_size=ROW_GROUP_ROWS):
                columns = [
                    [read(value) for value in column.to_pylist()] if read else column.to_pylist()
                    for column, read in zip(batch.columns, readers.values(), strict=True)
                ]
                for values in zip(*columns, strict=True):
                    yield kind(**dict(zip(readers, values, strict=True)))
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot read {name}: {error}") from error


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


def _table(family: str, rows: list[AnyRow]) -> Any:
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
