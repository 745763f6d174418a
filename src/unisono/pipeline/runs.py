"""Finds the runs below a folder and makes each of them a folder of Parquet tables, without Spark.

A run is a run directory, a spool, or a folder of spools that the processes of one run wrote. What is cut short or
foreign is refused here, with a word on what it is, before any long work begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from unisono.errors import TraceError
from unisono.trace.parquet import table_files, table_metadata, table_path, write_tables
from unisono.trace.run_directory import MARKER, SPOOL, in_time_order, is_run_directory, read_run, refuse_to_read
from unisono.trace.schema import FAMILIES, AnyRow
from unisono.trace.spool import read_spool

SPOOL_SUFFIX = ".spool"

SMALL_BYTES = 4_000_000
"""Traces of less than this, about half a million deliveries in Parquet, are done faster by one task than by many."""

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


class RunFiles(Struct, frozen=True):
    """One run on disk: a run directory, or the spools of its processes."""

    path: Path
    spools: tuple[Path, ...] = ()

    @property
    def is_parquet(self) -> bool:
        return not self.spools and not (self.path / SPOOL).exists()


def find_runs(paths: Sequence[str | os.PathLike[str]]) -> list[RunFiles]:
    """The runs that these paths name, each once; a folder of many runs is taken as many runs."""
    found: dict[Path, RunFiles] = {}
    for path in paths:
        runs = list(_runs_at(Path(path)))
        if not runs:
            empty = not any(Path(path).iterdir())
            raise TraceError(f"{path} is empty: there is no run in it" if empty else f"{path} holds no run of unisono")
        found.update((run.path.resolve(), run) for run in runs)
    return list(found.values())


def _runs_at(path: Path, around: tuple[Path, ...] = ()) -> Iterator[RunFiles]:
    """The runs in a folder and below; a link to one of the folders around it leads nowhere new."""
    if path.is_file():
        yield RunFiles(path, (path,))
        return
    if not path.is_dir():
        raise TraceError(f"{path}: there is no such file or directory")
    if is_run_directory(path):
        yield RunFiles(path)
        return
    if any(table_path(path, family).exists() for family in FAMILIES):
        raise TraceError(f"{path} is not a complete run: it has no {MARKER} file")
    spools = tuple(sorted(path.glob(f"*{SPOOL_SUFFIX}")))
    if spools:
        yield RunFiles(path, spools)
        return
    here = (*around, path.resolve())
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and not entry.name.startswith(".") and entry.resolve() not in here:
            yield from _runs_at(entry, here)


def refuse_damaged(runs: Sequence[RunFiles]) -> None:
    """Raise for the first run that is cut short, damaged or foreign, as the ends of tables and whole spools tell."""
    for run in runs:
        if run.is_parquet:
            refuse_damaged_tables(run.path)
        elif not read_rows(run):
            raise TraceError(f"{run.path} is a run without a row: there is nothing in it to audit")


def read_rows(run: RunFiles) -> list[AnyRow]:
    """Every row of a run, each process in its own order."""
    if not run.spools:
        return read_run(run.path)
    return in_time_order([row for spool in run.spools for row in _spool_rows(spool, alone=run.path == spool)])


def cuts_of(run: RunFiles) -> list[str]:
    """In words, which spools of a folder end within an append, as a kill leaves them; they are audited up to there."""
    found = []
    for path in run.spools if run.path not in run.spools else ():
        ending = read_spool(path).read_to_the_end()
        if ending.why == "cut":
            found.append(f"{path} was cut after {ending.whole_bytes} bytes: what its process did last is missing")
    return found


def as_tables(
    runs: Sequence[RunFiles], folder: str | os.PathLike[str], progress: Progress = lambda *_: None
) -> list[Path]:
    """For each run a folder of Parquet tables: its own, or one below `folder` into which its spools are written."""
    tables = []
    for index, run in enumerate(runs):
        progress("runs opened", index, len(runs))
        if run.is_parquet:
            refuse_damaged_tables(run.path)
            tables.append(run.path)
        else:
            target = Path(folder) / f"run-{index}"
            target.mkdir(parents=True)
            rows = read_rows(run)
            if not rows:
                raise TraceError(f"{run.path} is a run without a row: there is nothing in it to audit")
            write_tables(target, rows)
            tables.append(target)
    return tables


def disk_bytes(runs: Sequence[RunFiles]) -> int:
    """What these runs take on disk."""
    files = [file for run in runs for file in run.spools or run.path.rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def stored_bytes(directories: Sequence[Path]) -> int:
    """What the tables in these folders take on disk."""
    files = [file for directory in directories for family in FAMILIES for file in table_files(directory, family)]
    return sum(file.stat().st_size for file in files)


def refuse_damaged_tables(directory: Path) -> None:
    """Raise where a table is missing, cut short, or has other columns than this version reads."""
    refuse_to_read(directory)
    if not sum(metadata.num_rows for metadata in _ends(directory)):
        raise TraceError(f"{directory} is a run without a row: there is nothing in it to audit")


def run_names(directory: Path) -> set[str] | None:
    """The names of the runs in these tables as far as the ends of the files tell; None where they do not."""
    names: set[str] = set()
    for metadata in _ends(directory):
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        columns = [group.column(index) for group in groups for index in range(group.num_columns)]
        for column in columns:
            if column.path_in_schema == "run":
                bounds = column.statistics
                if bounds is None or not bounds.has_min_max or bounds.min != bounds.max:
                    return None
                names.add(bounds.min)
    return names


def names_in(run: RunFiles) -> set[str]:
    """The names that the rows of a run have, from the ends of its files where these tell."""
    names = run_names(run.path) if run.is_parquet else None
    return {row.run for row in read_rows(run)} if names is None else names


def _ends(directory: Path) -> Iterator[Any]:
    """The end of every file of every table."""
    for family in FAMILIES:
        for file in table_files(directory, family):
            yield table_metadata(file, family)


def _spool_rows(path: Path, alone: bool) -> Iterator[AnyRow]:
    """The rows of one process. A last append that was cut is what a kill leaves; damage before it is not.

    A file that is the whole trace is as long as it was, or refused.
    """
    spool = read_spool(path)
    if spool.header is None:
        raise TraceError(f"{path} ends within its header: there is nothing in it to audit")
    yield from spool
    ending = spool.ending
    if ending is not None and ending.why == "damaged":
        raise TraceError(f"{path} is damaged after {ending.whole_bytes} bytes")
    if ending is not None and ending.why != "whole" and alone:
        raise TraceError(
            f"{path} was cut after {ending.whole_bytes} bytes: the trace is not whole; to audit what killed processes"
            " left, name the folder of their spools"
        )
