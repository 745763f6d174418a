"""What is no whole trace of this version is refused by every command, with a word and code 2, before Spark starts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet as pyarrow_parquet

from tests.pipeline.conftest import Call
from tests.unit.trace_samples import sample_rows
from unisono.errors import TraceError
from unisono.pipeline import runs
from unisono.pipeline.spark import opening
from unisono.trace.parquet import table_files, table_path
from unisono.trace.run_directory import MARKER, SPOOL, read_run, write_run
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION
from unisono.trace.spool import SpoolWriter

Spoil = Callable[[Path], None]

COMMANDS = [
    ("audit", "--engine", "monitor"),
    ("audit", "--engine", "spark"),
    ("report",),
    ("measure",),
    ("lake", "build"),
]


def parts(run: Path) -> None:
    write_run(run, sample_rows(40), scenario_text="", summary={}, form="parquet", part_rows=9)


def spool(run: Path) -> None:
    write_run(run, sample_rows(40), scenario_text="", summary={}, form="spool")


def lone_spool(run: Path) -> None:
    shutil.rmtree(run)
    with SpoolWriter(run, "r") as writer:
        for row in sample_rows(40):
            writer.write([row])


def empty(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def gone(run: Path) -> None:
    shutil.rmtree(run)


def file_of(content: bytes) -> Spoil:
    def spoil(run: Path) -> None:
        shutil.rmtree(run)
        run.write_bytes(content)

    return spoil


def unrelated_tables(run: Path) -> None:
    empty(run)
    pyarrow_parquet.write_table(pyarrow.table({"price": [1.5]}), run / "prices.parquet")


def without_marker(run: Path) -> None:
    (run / MARKER).unlink()


def marker(text: str | bytes) -> Spoil:
    def spoil(run: Path) -> None:
        (run / MARKER).write_bytes(text if isinstance(text, bytes) else text.encode())

    return spoil


def marker_is_a_folder(run: Path) -> None:
    (run / MARKER).unlink()
    (run / MARKER).mkdir()


def without_rows(run: Path) -> None:
    write_run(run, [], scenario_text="", summary={}, form="parquet")


def spool_without_rows(run: Path) -> None:
    write_run(run, [], scenario_text="", summary={}, form="spool")


def without_table(family: str) -> Spoil:
    return lambda run: table_path(run, family).unlink()


def cut_table(family: str) -> Spoil:
    def spoil(run: Path) -> None:
        path = table_path(run, family)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return spoil


def other_columns(run: Path) -> None:
    shutil.copy(table_path(run, "send"), table_path(run, "deliver"))


def foreign_columns(run: Path) -> None:
    pyarrow_parquet.write_table(pyarrow.table({"kind": ["SEND"]}), table_path(run, "send"))


def table_of_another_version(run: Path) -> None:
    table = pyarrow_parquet.read_table(table_path(run, "view"))
    told = {**(table.schema.metadata or {}), b"unisono.schema_version": b"99"}
    pyarrow_parquet.write_table(table.select(["kind"]).replace_schema_metadata(told), table_path(run, "view"))


def without_a_part(run: Path) -> None:
    parts(run)
    table_files(run, "deliver")[-1].unlink()


def without_any_part(run: Path) -> None:
    parts(run)
    for file in table_files(run, "deliver"):
        file.unlink()


def part_of_no_bytes(run: Path) -> None:
    parts(run)
    table_files(run, "deliver")[1].write_bytes(b"")


def cut_part(run: Path) -> None:
    parts(run)
    file = table_files(run, "deliver")[1]
    file.write_bytes(file.read_bytes()[:-9])


def cut_spool(run: Path) -> None:
    spool(run)
    (run / SPOOL).write_bytes((run / SPOOL).read_bytes()[:-1])


def spool_cut_in_the_middle(run: Path) -> None:
    spool(run)
    (run / SPOOL).write_bytes((run / SPOOL).read_bytes()[:900])


def empty_spool(run: Path) -> None:
    spool(run)
    (run / SPOOL).write_bytes(b"")


def lone_spool_cut(run: Path) -> None:
    lone_spool(run)
    run.write_bytes(run.read_bytes()[:-3])


def lone_spool_cut_in_its_header(run: Path) -> None:
    lone_spool(run)
    run.write_bytes(run.read_bytes()[:9])


def lone_spool_damaged(run: Path) -> None:
    lone_spool(run)
    data = bytearray(run.read_bytes())
    data[len(data) // 2] ^= 0x55
    run.write_bytes(data)


def damaged_among_spools(run: Path) -> None:
    lone_spool_damaged(run)
    data = run.read_bytes()
    run.unlink()
    run.mkdir()
    (run / "a.spool").write_bytes(data)


def link_to_itself(run: Path) -> None:
    shutil.rmtree(run)
    run.symlink_to(run)


def links_in_a_circle(run: Path) -> None:
    empty(run)
    (run / "again").symlink_to(run)
    (run / "below").mkdir()
    (run / "below" / "up").symlink_to(run)


def without_permission(run: Path) -> None:
    run.chmod(0)


def table_without_permission(run: Path) -> None:
    table_path(run, "send").chmod(0)


BAD: list[tuple[Spoil, str]] = [
    (empty, "is empty: there is no run in it"),
    (gone, "no such file or directory"),
    (file_of(b""), "ends within its header"),
    (file_of(b"years of work and more, as long as a header of a spool would be"), "is not a spool"),
    (file_of(b"hello"), "is not a spool"),
    (file_of(json.dumps({"runs": []}).encode()), "is not a spool"),
    (file_of(b"PAR1" + bytes(64) + b"PAR1"), "is not a spool"),
    (unrelated_tables, "holds no run of unisono"),
    (without_marker, f"not a complete run: it has no {MARKER} file"),
    (marker_is_a_folder, f"not a complete run: it has no {MARKER} file"),
    (marker("99\n"), f"schema version 99, this version reads {SCHEMA_VERSION}"),
    (marker("1\n"), "schema version 1, this version"),
    (marker(""), "is not the marker of a run"),
    (marker("complete!\n"), "is not the marker of a run"),
    (marker(b"\xff\xfe\x00"), "cannot read"),
    (marker(f"{SCHEMA_VERSION}\nsend some\n"), "is not the marker of a run"),
    (without_rows, "a run without a row"),
    (spool_without_rows, "a run without a row"),
    *[(without_table(family), f"{family}.parquet") for family in FAMILIES],
    *[(cut_table(family), f"{family}.parquet") for family in FAMILIES],
    (other_columns, "deliver.parquet has other columns"),
    (foreign_columns, "send.parquet is not a trace table of unisono"),
    (table_of_another_version, "view.parquet has schema version 99"),
    (without_a_part, "deliver.parquet has 4 parts where 5 were written"),
    (without_any_part, "deliver.parquet is a table without a part"),
    (part_of_no_bytes, "cannot read"),
    (cut_part, "part-000001.parquet"),
    (cut_spool, "is damaged"),
    (spool_cut_in_the_middle, "is damaged"),
    (empty_spool, "is damaged"),
    (lone_spool_cut, "the trace is not whole"),
    (lone_spool_cut_in_its_header, "ends within its header"),
    (lone_spool_damaged, "is damaged after"),
    (damaged_among_spools, "is damaged after"),
    (link_to_itself, "no such file or directory"),
    (links_in_a_circle, "holds no run of unisono"),
]


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets as far as to start Spark reads the rows first, as if it had: none of these may get further."""

    def stand_in(*_: object) -> None:
        raise TraceError("Spark was started")

    monkeypatch.setattr(opening, "running", stand_in)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("spoil", "words"), BAD)
def test_what_is_no_whole_trace_is_refused(
    call: Call, tmp_path: Path, command: tuple[str, ...], spoil: Spoil, words: str
) -> None:
    run = tmp_path / "run"
    write_run(run, sample_rows(40), scenario_text="", summary={}, form="parquet")
    spoil(run)
    extra = ("--into", tmp_path / "lake") if command[0] == "lake" else ()
    code, out, err = call(*command, run, *extra)
    assert (code, out) == (2, ""), err
    assert words in err
    assert str(run) in err
    assert "Traceback" not in err
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("spoil", [without_permission, table_without_permission])
def test_what_may_not_be_read_is_refused(call: Call, tmp_path: Path, command: tuple[str, ...], spoil: Spoil) -> None:
    run = tmp_path / "run"
    write_run(run, sample_rows(40), scenario_text="", summary={}, form="parquet")
    spoil(run)
    if os.access(run, os.R_OK) and os.access(table_path(run, "send"), os.R_OK):
        pytest.skip("this user may read everything")
    try:
        extra = ("--into", tmp_path / "lake") if command[0] == "lake" else ()
        code, out, err = call(*command, run, *extra)
    finally:
        run.chmod(0o700)
    assert (code, out) == (2, "")
    assert "ermission denied" in err or "is not readable" in err


def test_a_link_back_hides_no_run(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", sample_rows(), scenario_text="", summary={})
    (tmp_path / "runs" / "self").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "two").symlink_to(tmp_path / "runs" / "one")
    assert [run.path.name for run in runs.find_runs([tmp_path / "runs"])] == ["two"]  # one run by two names is one run
    assert len(read_run(tmp_path / "runs" / "two")) == len(sample_rows())


def test_what_a_killed_process_left_is_read_among_the_spools_of_others(tmp_path: Path) -> None:
    lone = tmp_path / "a.spool"
    lone.mkdir()
    lone_spool_cut(lone)
    (run,) = runs.find_runs([tmp_path])
    assert len(runs.read_rows(run)) == len(sample_rows(40)) - 1
    (alone,) = runs.find_runs([lone])
    with pytest.raises(TraceError, match="was cut after"):
        runs.read_rows(alone)
