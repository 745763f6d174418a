"""Parquet tables: the columns of the schema module, the same rows back, equal bytes for equal rows."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet as pyarrow_parquet

from tests.unit.trace_samples import LARGEST, sample_rows
from unisono.errors import TraceError
from unisono.trace import parquet
from unisono.trace.parquet import (
    arrow_schema,
    parquet_is_there,
    part_path,
    read_table,
    read_tables,
    table_files,
    table_path,
    write_table,
    write_tables,
)
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow, SendRow, family_of


def by_family(rows: list[AnyRow]) -> list[AnyRow]:
    order = list(FAMILIES)
    return sorted(rows, key=lambda row: order.index(family_of(row)))


def test_rows_come_back_family_by_family(tmp_path: Path) -> None:
    write_tables(tmp_path, iter(sample_rows(50)))
    assert read_tables(tmp_path) == by_family(sample_rows(50))


def test_a_family_without_rows_has_a_table_without_rows(tmp_path: Path) -> None:
    write_tables(tmp_path, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{family}.parquet" for family in FAMILIES)
    assert read_tables(tmp_path) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_columns_of_its_struct(family: str) -> None:
    assert tuple(arrow_schema(family).names) == FAMILIES[family].__struct_fields__


def test_columns_have_the_types_of_their_annotations() -> None:
    view = arrow_schema("view")
    start = pyarrow.struct(
        [
            pyarrow.field(name, kind, nullable=False)
            for name, kind in [
                ("source", pyarrow.string()),
                ("incarnation", pyarrow.int64()),
                ("sequence", pyarrow.int64()),
                ("number", pyarrow.int64()),
            ]
        ]
    )
    starts = pyarrow.list_(pyarrow.field("element", start, nullable=False))
    assert view.field("start") == pyarrow.field("start", starts, nullable=False)
    lives = [
        pyarrow.field(name, kind, nullable=False)
        for name, kind in [("process", pyarrow.string()), ("incarnation", pyarrow.int64())]
    ]
    members = pyarrow.list_(pyarrow.field("element", pyarrow.struct(lives), nullable=False))
    assert view.field("transitional") == pyarrow.field("transitional", members)
    assert view.field("truth") == pyarrow.field("truth", pyarrow.int64())
    assert view.field("process") == pyarrow.field("process", pyarrow.string(), nullable=False)
    assert arrow_schema("fault").field("edge").type == pyarrow.string()


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 20)
    write_tables(tmp_path, sample_rows(50))
    metadata = pyarrow_parquet.ParquetFile(table_path(tmp_path, "deliver")).metadata
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [20, 20, 10]
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert read_tables(tmp_path) == by_family(sample_rows(50))


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_tables(tmp_path / name, sample_rows(50))
    for family in FAMILIES:
        first, second = (table_path(tmp_path / name, family).read_bytes() for name in ("first", "second"))
        assert first == second


def test_a_table_may_be_a_folder_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 3)
    write_tables(tmp_path, sample_rows(50), part_rows=7)
    files = table_files(tmp_path, "deliver")
    assert [pyarrow_parquet.ParquetFile(file).metadata.num_rows for file in files] == [7] * 7 + [1]
    assert [file.name for file in files[:2]] == ["part-000000.parquet", "part-000001.parquet"]
    assert len(table_files(tmp_path, "proxy")) == 1
    assert read_tables(tmp_path) == by_family(sample_rows(50))


def test_parts_can_be_added_one_by_one_and_other_files_between_them_are_passed_over(tmp_path: Path) -> None:
    write_tables(tmp_path, [])
    table_path(tmp_path, "send").unlink()
    table_path(tmp_path, "send").mkdir()
    sent = [row for row in sample_rows(12) if isinstance(row, SendRow)]
    for number in range(11):
        write_table(part_path(tmp_path, "send", number), "send", sent[number : number + 1])
    for other in ("_SUCCESS", ".part-000000.parquet.crc", "_temporary.parquet", "notes.txt"):
        (table_path(tmp_path, "send") / other).write_bytes(b"something else")
    write_table(part_path(tmp_path, "send", 11), "send", [])
    assert read_tables(tmp_path) == sent[:11]


def test_where_a_table_is_not_there_its_file_is_named(tmp_path: Path) -> None:
    assert table_files(tmp_path, "send") == [table_path(tmp_path, "send")]
    table_path(tmp_path, "send").mkdir()
    with pytest.raises(TraceError, match="without a part"):
        table_files(tmp_path, "send")


def test_a_value_that_fits_no_column_is_named(tmp_path: Path) -> None:
    def send(body: int, process: str = "a") -> SendRow:
        return SendRow(kind="SEND", process=process, sequence=1, number=1, timestamp=1, size=1, body=body)

    write_tables(tmp_path, [send(LARGEST)])
    with pytest.raises(TraceError, match=r"send\.body"):
        write_tables(tmp_path, [send(LARGEST + 1)])
    with pytest.raises(TraceError, match=r"send\.process has a null"):
        write_tables(tmp_path, [send(1, process=None)])  # type: ignore[arg-type] # what an untyped caller may do


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = table_path(tmp_path, "send")
    with pytest.raises(TraceError, match="cannot read"):
        list(read_table(path, "send"))
    path.write_bytes(b"not a table at all")
    with pytest.raises(TraceError, match="cannot read"):
        list(read_table(path, "send"))
    table = pyarrow.table({"kind": ["SEND"]})
    pyarrow_parquet.write_table(table, path)
    with pytest.raises(TraceError, match="not a trace table"):
        list(read_table(path, "send"))
    for version, word in (("99", "schema version 99"), (str(SCHEMA_VERSION), "other columns")):
        pyarrow_parquet.write_table(table.replace_schema_metadata({"unisono.schema_version": version}), path)
        with pytest.raises(TraceError, match=word):
            list(read_table(path, "send"))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pyarrow(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the signature of __import__
        locals: Mapping[str, object] | None = None,  # noqa: A002 - the signature of __import__
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    assert not parquet_is_there()
    with pytest.raises(TraceError, match=r"unisono\[lab\]"):
        write_tables(tmp_path, [])
