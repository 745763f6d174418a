"""A run directory: the trace, the scenario and the summary of one run, complete or not there at all.

Everything is written into a hidden sibling that is renamed at the end. The trace is Parquet where pyarrow is
installed and a spool where it is not; readers see the same rows in the same order either way. The marker has the
version of the schema, then a line `FAMILY PARTS` for each table that is a folder of so many parts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal

from unisono.errors import TraceError
from unisono.trace.parquet import parquet_is_there, read_tables, table_files, table_path, write_tables
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow
from unisono.trace.spool import BATCH_ROWS, SpoolWriter, read_spool

MARKER = "COMPLETE"
SCENARIO = "scenario.toml"
SPOOL = "trace.spool"
SUMMARY = "summary.json"

Form = Literal["parquet", "spool"]


def is_run_directory(directory: str | os.PathLike[str]) -> bool:
    return (Path(directory) / MARKER).is_file()


def write_run(
    directory: str | os.PathLike[str],
    rows: Iterable[AnyRow],
    *,
    scenario_text: str,
    summary: Mapping[str, Any],
    form: Form | None = None,
    part_rows: int | None = None,
) -> None:
    """Write one run; an earlier run in the same place, or an empty directory, is replaced.

    With `part_rows` Parquet tables are folders of parts of so many rows.
    """
    target = Path(os.path.abspath(directory))
    _refuse_to_replace(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    replaced = target.with_name(f".{target.name}.{os.getpid()}.replaced")
    try:
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            _write_trace(partial, rows, form or ("parquet" if parquet_is_there() else "spool"), part_rows)
            _write_text(partial / SCENARIO, scenario_text)
            _write_text(partial / SUMMARY, canonical_json(summary))
            write_marker(partial)
            if target.exists():
                target.rename(replaced)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            if replaced.exists() and not target.exists():
                replaced.rename(target)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise TraceError(f"cannot write the run {target}: {error.strerror or error}") from error


def read_run(directory: str | os.PathLike[str]) -> list[AnyRow]:
    """Every row of a run, in time order: the simulator's time, or the local clock of a real run.

    Rows of one process keep its local order; rows of several at the same instant are ordered by process. The
    local clocks of different hosts do not compare, so there the order between processes means nothing.
    """
    source = Path(directory)
    refuse_to_read(source)
    spool = source / SPOOL
    if spool.exists():
        trace = read_spool(spool)
        rows = list(trace)
        if trace.ending is None or trace.ending.why != "whole" or trace.header is None:
            raise TraceError(f"{spool} is damaged; the run is lost, make it again")
    else:
        rows = read_tables(source)
    return in_time_order(rows)


def in_time_order(rows: list[AnyRow]) -> list[AnyRow]:
    """These rows in time order, those of each process in its local order whatever their times say.

    A row that is earlier than one before it in its process comes right after that.
    """
    lives: dict[tuple[str, str, int], list[AnyRow]] = defaultdict(list)
    for row in rows:
        lives[row.run, row.process, row.incarnation].append(row)
    placed: list[tuple[int, str, int, AnyRow]] = []
    for (_, process, incarnation), mine in lives.items():
        mine.sort(key=_local_order)
        times = accumulate((row.at if row.truth is None else row.truth for row in mine), max)
        placed.extend((time, process, incarnation, row) for time, row in zip(times, mine, strict=True))
    placed.sort(key=_place)
    return [row for *_, row in placed]


def canonical_json(value: Mapping[str, Any]) -> str:
    """JSON that is equal, byte for byte, for equal values."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _local_order(row: AnyRow) -> tuple[int, int]:
    """Rows that claim one position, which only a broken trace has, are in the order of their times."""
    return (row.position, row.at if row.truth is None else row.truth)


def _place(placed: tuple[int, str, int, AnyRow]) -> tuple[int, str, int]:
    return placed[:3]


def _refuse_to_replace(target: Path) -> None:
    if not target.exists() or is_run_directory(target):
        return
    if not target.is_dir():
        raise TraceError(f"{target} is a file; name a directory for the run")
    if any(target.iterdir()):
        raise TraceError(f"{target} holds something that is not a run; choose another directory or empty this one")


def refuse_to_read(source: Path) -> None:
    """Raise where this is no complete run directory of this version."""
    if not source.is_dir():
        raise TraceError(f"{source} is not a directory; name the directory of a run")
    try:
        lines = (source / MARKER).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise TraceError(f"{source} is not a complete run: it has no {MARKER} file") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot read {source / MARKER}: {error}") from error
    version = lines[0].strip()
    if not version.isdecimal():
        raise TraceError(f"{source / MARKER} is not the marker of a run: it does not begin with a schema version")
    if version != str(SCHEMA_VERSION):
        raise TraceError(
            f"{source} has schema version {version}, this version reads {SCHEMA_VERSION};"
            " read it with the version that wrote it"
        )
    _refuse_missing_parts(source, [line for line in lines[1:] if line])


def write_marker(directory: str | os.PathLike[str]) -> None:
    """Say that everything in this directory is written; nothing may be added to it afterwards."""
    parts = [
        f"{family} {len(table_files(directory, family))}\n"
        for family in FAMILIES
        if table_path(directory, family).is_dir()
    ]
    _write_text(Path(directory) / MARKER, "".join([f"{SCHEMA_VERSION}\n", *parts]))


def _refuse_missing_parts(source: Path, lines: list[str]) -> None:
    for line in lines:
        family, _, count = line.partition(" ")
        if family not in FAMILIES or not count.isdecimal():
            raise TraceError(f"{source / MARKER} is not the marker of a run: it says {line[:40]!r}")
        there = len(table_files(source, family))
        if there != int(count):
            raise TraceError(
                f"{table_path(source, family)} has {there} parts where {count} were written: the run is not whole"
            )


def _write_trace(directory: Path, rows: Iterable[AnyRow], form: Form, part_rows: int | None) -> None:
    if form == "parquet":
        write_tables(directory, rows, part_rows=part_rows)
        return
    remaining = iter(rows)
    first = list(islice(remaining, BATCH_ROWS))
    with SpoolWriter(directory / SPOOL, run=first[0].run if first else "") as spool:
        batch = first
        while batch:
            spool.write(batch)
            batch = list(islice(remaining, BATCH_ROWS))


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
