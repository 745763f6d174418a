"""The lake of a collector: a run directory for each run, which grows in parts and is there when it is complete.

A part is named by the offsets of the log that it was made from, so the lake itself says how far it is. The parts of one
range are all written aside before the first is given its name: after a crash either all of them get theirs, or none.
A run that is not complete yet stands in `.open`, and is moved beside the others in one step.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from unisono.errors import TraceError
from unisono.trace.lake_parts import read_contents, write_part
from unisono.trace.log.retained import sync_directory
from unisono.trace.numbers import Numbers
from unisono.trace.parquet import table_path
from unisono.trace.reports import Report, column
from unisono.trace.run_directory import SUMMARY, canonical_json, is_run_directory, write_marker
from unisono.trace.schema import FAMILIES

OPEN = ".open"
REPLACED = ".replaced"
EMPTY = "empty.parquet"
"""The part of a family of which a run has no rows."""
_NEW = ".new"
_PART = re.compile(r"^(\d{20})-(\d{20})\.parquet$")
_ASIDE = re.compile(r"^\.(\d{20})-(\d{20})\.parquet\.new$")


class LifeKey(NamedTuple):
    """One life of one process."""

    process: str
    incarnation: int


class Life(Struct):
    """What the lake has of one life: which reports, how many rows, and whether its end is among them."""

    numbers: Numbers
    rows: int = 0
    ended: bool = False


class Content(Struct, array_like=True, frozen=True):
    """What one range of offsets brought of one life; stands in every part of that range."""

    process: str
    incarnation: int
    numbers: list[tuple[int, int]]
    rows: int
    ended: bool


class Range(NamedTuple):
    """Offsets from `first` to `last`."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first:020d}-{self.last:020d}"


def is_end(report: Report) -> bool:
    """Whether a report has the last row of its life."""
    return "membership" in report.tables and "END" in column(report, "membership", "kind").values  # type: ignore[union-attr]  # kinds are no spans


class Lake:
    """The runs below one directory. Used by one thread at a time."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._open = self._directory / OPEN
        self._replaced = self._directory / REPLACED
        try:
            self._open.mkdir(parents=True, exist_ok=True)
            self._positions: dict[str, int] = {}
            self._recover()
        except OSError as error:
            raise TraceError(f"cannot use {self._directory} for runs: {error.strerror or error}") from error

    @property
    def position(self) -> int:
        """Every report of the log before this offset is in the lake."""
        return max(self._positions.values(), default=0)

    @property
    def open_runs(self) -> list[str]:
        """The runs that are not complete."""
        return sorted(run_name(path) for path in self._open.iterdir() if path.name[0] != ".")

    @property
    def complete_runs(self) -> list[str]:
        return sorted(
            run_name(path) for path in self._directory.iterdir() if path.name[0] != "." and is_run_directory(path)
        )

    def path(self, run: str) -> Path:
        """Where a run is when it is complete."""
        return self._directory / folder_name(run)

    def lives(self, run: str) -> dict[LifeKey, Life]:
        """What the lake has of a run, complete or not."""
        found: dict[LifeKey, Life] = {}
        folder = self._open / folder_name(run)
        for contents in _contents(folder if folder.exists() else self.path(run)):
            _add(found, contents)
        return found

    def write(self, first: int, reports: Sequence[Report]) -> None:
        """Add reports, which have the offsets from `first` on; those that the lake has already are passed over."""
        runs: dict[str, list[Report]] = {}
        for offset, report in enumerate(reports, first):
            if offset >= self._positions.get(report.run, 0):
                runs.setdefault(report.run, []).append(report)
        span = Range(first, first + len(reports) - 1)
        aside: list[Path] = []
        try:
            for run, found in runs.items():
                folder = self._open_folder(run)
                contents = msgspec.json.encode(_describe(found))
                for family in FAMILIES:
                    wanted = [report for report in found if family in report.tables]
                    if wanted:
                        aside.append(write_part(folder, family, f".{span}.parquet{_NEW}", wanted, contents))
            self._name_parts(aside)
        except OSError as error:
            raise TraceError(f"cannot write into {self._directory}: {error.strerror or error}") from error
        for run in runs:
            self._positions[run] = span.last + 1

    def complete(self, run: str, summary: Mapping[str, Any]) -> Path:
        """Nothing more is expected of a run: it is moved beside the others, in place of what was there of it."""
        folder, target = self._open / folder_name(run), self.path(run)
        try:
            for family in FAMILIES:
                if not any(table_path(folder, family).glob("[!.]*.parquet")):
                    self._name_parts([write_part(folder, family, f".{EMPTY}{_NEW}", [], b"[]")])
            (folder / SUMMARY).write_text(canonical_json(summary), encoding="utf-8")
            write_marker(folder)
            _sync_all(folder)
            self._put_in_place(folder, target)
        except OSError as error:
            raise TraceError(f"cannot complete the run {target}: {error.strerror or error}") from error
        return target

    def _put_in_place(self, folder: Path, target: Path) -> None:
        if target.exists():
            self._replaced.mkdir(exist_ok=True)
            shutil.rmtree(self._replaced / target.name, ignore_errors=True)
            target.rename(self._replaced / target.name)
        folder.rename(target)
        sync_directory(self._directory)
        sync_directory(self._open)
        shutil.rmtree(self._replaced, ignore_errors=True)

    def _open_folder(self, run: str) -> Path:
        """Where the parts of a run go: a run that was complete goes on in a copy, which shares its parts."""
        folder, complete = self._open / folder_name(run), self.path(run)
        if folder.exists():
            return folder
        new = folder.with_name(f".{folder.name}")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for part in complete.glob("*.parquet/*.parquet") if complete.exists() else ():
            (new / part.parent.name).mkdir(exist_ok=True)
            os.link(part, new / part.parent.name / part.name)
        new.rename(folder)
        return folder

    def _name_parts(self, aside: Sequence[Path]) -> None:
        for path in aside:
            path.rename(path.with_name(path.name[1 : -len(_NEW)]))
        for folder in dict.fromkeys(path.parent for path in aside):
            sync_directory(folder)

    def _recover(self) -> None:
        """Finish what a crash left: parts that wait for their names, and runs between two places."""
        for leftover in self._open.glob(".*"):
            shutil.rmtree(leftover)
        for folder in [*self._open.iterdir()]:
            target = self._directory / folder.name
            if is_run_directory(folder) and not target.exists():
                folder.rename(target)
        if self._replaced.exists():
            for folder in [*self._replaced.iterdir()]:
                if not (self._directory / folder.name).exists():
                    folder.rename(self._directory / folder.name)
            shutil.rmtree(self._replaced)
        aside = [path for path in self._open.glob(f"*/*.parquet/.*{_NEW}") if _ASIDE.match(path.name)]
        named = {path.name for path in self._open.glob("*/*.parquet/*.parquet")}
        begun = {path.name for path in aside if path.name[1 : -len(_NEW)] in named}
        self._name_parts([path for path in aside if path.name in begun])
        for path in aside:
            if path.name not in begun:
                path.unlink()
        beside = [path for path in self._directory.iterdir() if path.name[0] != "." and path.is_dir()]
        for folder in (*self._open.iterdir(), *beside):
            position = max((span.last + 1 for span in _spans(folder)), default=0)
            name = run_name(folder)
            self._positions[name] = max(self._positions.get(name, 0), position)


def folder_name(run: str) -> str:
    """The name of a run as that of a folder."""
    name = "".join(f"%{ord(letter):02X}" if letter in "%/:\\" else letter for letter in run)
    return f"%2E{name[1:]}" if name.startswith(".") else name


def run_name(folder: Path) -> str:
    return unquote(folder.name)


def _spans(folder: Path) -> Iterator[Range]:
    for part in folder.glob("*.parquet/*.parquet"):
        if (match := _PART.match(part.name)) is not None:
            yield Range(int(match[1]), int(match[2]))


def _contents(folder: Path) -> Iterator[list[Content]]:
    """What each range brought: read once, from any part of it."""
    seen: set[str] = set()
    for part in sorted(folder.glob("*.parquet/*.parquet")):
        if part.name not in seen and _PART.match(part.name):
            seen.add(part.name)
            yield msgspec.json.decode(read_contents(part), type=list[Content])


def _add(lives: dict[LifeKey, Life], contents: Sequence[Content]) -> None:
    for content in contents:
        life = lives.setdefault(LifeKey(content.process, content.incarnation), Life(Numbers()))
        for first, last in content.numbers:
            life.numbers.add_all(first, last)
        life.rows += content.rows
        life.ended = life.ended or content.ended


def _describe(reports: Sequence[Report]) -> list[Content]:
    lives: dict[LifeKey, Life] = {}
    for report in reports:
        life = lives.setdefault(LifeKey(report.process, report.incarnation), Life(Numbers()))
        life.numbers.add(report.number)
        life.rows += report.count
        life.ended = life.ended or is_end(report)
    return [Content(*key, list(life.numbers), life.rows, life.ended) for key, life in lives.items()]


def _sync_all(folder: Path) -> None:
    """The small files of a run are durable before it is moved; its parts are already."""
    for path in folder.iterdir():
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                with contextlib.suppress(OSError):  # some file systems cannot
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_directory(folder)
