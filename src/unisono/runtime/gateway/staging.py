"""Rows that were left with a gateway and are not part of a batch yet: a file for each stage, complete or not there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path

from unisono.errors import StorageError
from unisono.trace.log.retained import sync_directory
from unisono.wire.frames import frame, read_frames

KEPT_SECONDS = 86_400.0
"""A stage that nobody has asked for in so long is of a task that failed."""
_PART = ".part"


class StageFile:
    """One stage while its rows come; it is there when it was ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + _PART)
        self._file = self._part.open("wb")
        self.count = 0

    def add(self, rows: Sequence[bytes]) -> None:
        self._file.write(b"".join(frame(row) for row in rows))
        self.count += len(rows)

    def end(self) -> None:
        """Durable from here on."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._path)
        sync_directory(self._path.parent)

    def abandon(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


class Staging:
    """The stages in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for leftover in directory.glob(f"*{_PART}"):
                leftover.unlink()
        except OSError as error:
            raise StorageError(f"cannot use {directory}: {error.strerror}; choose another with --data") from error
        self.clean()

    def begin(self, name: str) -> StageFile:
        """A stage of this name; one that was begun before under it is replaced when this one ends."""
        return StageFile(self._directory / name)

    def rows(self, name: str) -> Iterator[bytes]:
        """The rows of a stage that was ended."""
        try:
            file = (self._directory / name).open("rb")
        except FileNotFoundError:
            raise StorageError(f"there is no stage {name}: it was discarded, or left with another gateway") from None
        with file:
            if not os.fstat(file.fileno()).st_size:
                return
            with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                frames = read_frames(data)
                yield from frames
        if frames.ending is None or frames.ending.why != "whole":
            raise StorageError(f"the stage {name} is damaged; start the query again, so that it is written anew")

    def discard(self, names: Sequence[str]) -> None:
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def clean(self, kept_seconds: float = KEPT_SECONDS) -> int:
        """Remove what has been there for too long; how many stages those were."""
        before = time.time() - kept_seconds
        old = [path.name for path in self._directory.iterdir() if path.stat().st_mtime < before]
        self.discard(old)
        return len(old)
