"""The directory of a sweep: what was asked, the results so far in committed pieces, and the traces that are kept.

A piece is a Parquet file that is written aside and renamed, so that a kill at any moment leaves whole ones. The traces
of a piece are there before it is; a seed counts as done when its piece is there.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, get_type_hints

import msgspec
from msgspec import Struct, structs

from unisono.errors import TraceError
from unisono.sweeps.packing import unpack
from unisono.sweeps.result import Returned, SeedRow

ASKED = "sweep.json"
RESULTS = "results"
TRACES = "traces"
SUMMARY = "summary.json"
PAGE = "page.html"
_LOCK = ".lock"
_PIECE = re.compile(r"part-(\d+)\.parquet")


class Asked(Struct, frozen=True, kw_only=True):
    """What a sweep was called with, as far as it decides the results."""

    scenario: str
    text: str
    changes: tuple[str, ...]
    seeds: tuple[int, int]
    keep: str
    code: str
    command: str


_DIFFERENCES = {
    "scenario": "of another scenario ({})",
    "text": "of a scenario file that has changed since",
    "changes": "with --set {}",
    "seeds": "with --seeds {}",
    "keep": "with --keep {}",
    "code": "with another version of this package",
}


class Store:
    """An open directory; nobody else writes into it meanwhile."""

    def __init__(self, directory: Path, asked: Asked) -> None:
        self.directory = directory
        self._asked = asked
        self._lock: IO[str] | None = None
        self._next = 0

    def __enter__(self) -> Self:
        try:
            self._refuse_something_else()
            self.directory.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._refuse_other_arguments()
            (self.directory / RESULTS).mkdir(exist_ok=True)
            for leftover in (self.directory / RESULTS).glob(".*"):
                leftover.unlink()
        except OSError as error:
            self._release()
            raise TraceError(f"cannot write into {self.directory}: {error.strerror or error}") from error
        except TraceError:
            self._release()
            raise
        self._next = 1 + max((int(match[1]) for match in map(_number, self._pieces()) if match), default=-1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    @property
    def traces(self) -> Path:
        return self.directory / TRACES

    def rows(self) -> Iterator[SeedRow]:
        """All results that are there, each seed once."""
        seen: set[tuple[int, int]] = set()
        for path in self._pieces():
            for row in read_piece(path):
                if (row.point, row.seed) not in seen:
                    seen.add((row.point, row.seed))
                    yield row

    def keep_trace(self, returned: Returned) -> SeedRow:
        """Unpack the trace of a result, and say in its row where it is."""
        row = returned.row
        if returned.packed is None:
            return row
        name = f"point-{row.point}-seed-{row.seed}"
        self.traces.mkdir(exist_ok=True)
        unpack(returned.packed, self.traces / name)
        return structs.replace(row, trace=name)

    def commit(self, rows: Sequence[SeedRow]) -> None:
        """Make these results a piece."""
        if not rows:
            return
        path = self.directory / RESULTS / f"part-{self._next:06d}.parquet"
        write_piece(path, rows)
        self._next += 1

    def write(self, name: str, text: str) -> Path:
        """A file of the directory, replaced whole."""
        path = self.directory / name
        aside = path.with_name(f".{name}.partial")
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            raise TraceError(f"cannot write {path}: {error.strerror or error}") from error
        return path

    def _pieces(self) -> list[Path]:
        return sorted(path for path in (self.directory / RESULTS).iterdir() if _number(path))

    def _refuse_something_else(self) -> None:
        directory = self.directory
        if directory.exists() and not directory.is_dir():
            raise TraceError(f"{directory} is a file; name a directory for the sweep")
        if directory.is_dir() and not (directory / ASKED).exists():
            others = [entry for entry in directory.iterdir() if not entry.name.startswith(".")]
            if others:
                raise TraceError(
                    f"{directory} holds something that is not a sweep; choose another directory or empty this one"
                )

    def _take_lock(self) -> None:
        self._lock = (self.directory / _LOCK).open("w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(f"another sweep is at work in {self.directory}; wait for it, or choose another") from None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _refuse_other_arguments(self) -> None:
        path = self.directory / ASKED
        if not path.exists():
            self.write(ASKED, msgspec.json.format(msgspec.json.encode(self._asked)).decode() + "\n")
            return
        try:
            before = msgspec.json.decode(path.read_bytes(), type=Asked)
        except msgspec.MsgspecError as error:
            raise TraceError(f"{path} is not what a sweep of this version was called with: {error}") from error
        for name, words in _DIFFERENCES.items():
            old = getattr(before, name)
            if old != getattr(self._asked, name):
                raise TraceError(
                    f"{self.directory} holds a sweep {words.format(_told(name, old))}; choose another directory, or go"
                    f" on with it as it was begun: {before.command}"
                )


def write_piece(path: Path, rows: Sequence[SeedRow]) -> None:
    """Rows as Parquet, whole or not there."""
    from pyarrow import ArrowException, Table, parquet

    schema = arrow_schema()
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    for name, column in columns.items():
        if name in _MAPS:
            columns[name] = [list(value.items()) for value in column]
    aside = path.with_name(f".{path.name}.partial")
    try:
        with aside.open("wb") as file:
            parquet.write_table(Table.from_pydict(columns, schema=schema), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except (OSError, ArrowException) as error:
        raise TraceError(f"cannot write {path}: {error}") from error


def read_piece(path: Path) -> Iterable[SeedRow]:
    """The rows of one file."""
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
    except (OSError, ArrowException) as error:
        raise TraceError(f"cannot read {path}: {error}; remove it to run its seeds again") from error
    if table.schema.names != arrow_schema().names:
        raise TraceError(f"{path} is not a piece of a sweep of this version")
    for values in table.to_pylist(maps_as_pydicts="strict"):
        yield SeedRow(**values)


def arrow_schema() -> Any:
    """The columns of the table of results: those of SeedRow."""
    import pyarrow

    kinds = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        dict[str, int]: pyarrow.map_(pyarrow.string(), pyarrow.int64()),
        float | None: pyarrow.float64(),
    }
    hints = get_type_hints(SeedRow)
    return pyarrow.schema([(name, kinds.get(hints[name], pyarrow.string())) for name in SeedRow.__struct_fields__])


_MAPS = tuple(name for name, hint in get_type_hints(SeedRow).items() if hint == dict[str, int])


def _number(path: Path) -> re.Match[str] | None:
    return _PIECE.fullmatch(path.name)


def _told(name: str, value: Any) -> str:
    if name == "seeds":
        return ":".join(map(str, value))
    return " --set ".join(value) if isinstance(value, tuple) else str(value)
