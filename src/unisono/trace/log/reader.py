"""Reading a retained log, from the process that writes it or from another."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from xxhash import xxh3_64_digest

from unisono.errors import LogError, LogGone
from unisono.trace.log.segments import Segment, find_segments
from unisono.units import MIB

_OPEN_LIMIT = 32
MARK = "synced"
_WORD = 8


class Mark(NamedTuple):
    """How far the log is synced: the offset after the last payload, and the bytes of the newest segment."""

    end: int
    segment: int
    position: int


NOTHING = Mark(0, 0, 0)


class LogReader:
    """Reads a log that this or another process writes; sees what was synced. May be used by several threads."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._firsts: list[int] = []
        self._open: dict[int, Segment] = {}
        self._lock = threading.Lock()
        if not self._directory.is_dir():
            raise LogError(f"{self._directory} is not a directory; name the directory of a log")

    @property
    def begin(self) -> int:
        """The oldest offset that is kept."""
        found = find_segments(self._directory)
        return found[0] if found else 0

    @property
    def end(self) -> int:
        """The offset after the last payload that was synced."""
        return self._mark().end

    def read(self, offset: int, limit_bytes: int = MIB) -> list[bytes]:
        """Payloads from this offset on: at least one if there is one, and more up to the limit; none at the end."""
        mark = self._mark()
        if not 0 <= offset <= mark.end:
            raise LogError(f"the log in {self._directory} has no offset {offset}; its end is {mark.end}")
        if offset == mark.end:
            return []
        with self._lock:
            try:
                return self._read(offset, mark, limit_bytes)
            except FileNotFoundError:  # the segment went while it was looked for
                self._refresh()
                return self._read(offset, mark, limit_bytes)
            except OSError as error:
                raise LogError(f"cannot read the log in {self._directory}: {error.strerror}") from error

    def close(self) -> None:
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, offset: int, mark: Mark, limit_bytes: int) -> list[bytes]:
        if not self._firsts or self._firsts[-1] < mark.segment:
            self._refresh()
        place = bisect_right(self._firsts, offset) - 1
        if place < 0:
            raise LogGone(offset, self._firsts[0] if self._firsts else mark.end)
        following = self._firsts[place + 1] if place + 1 < len(self._firsts) else mark.end
        return self._segment(self._firsts[place]).read(offset, min(following, mark.end), limit_bytes)

    def _segment(self, first: int) -> Segment:
        segment = self._open.pop(first, None) or Segment(self._directory, first)
        self._open[first] = segment  # used last, closed last
        if len(self._open) > _OPEN_LIMIT:
            self._open.pop(next(iter(self._open))).close()
        return segment

    def _refresh(self) -> None:
        self._firsts = find_segments(self._directory)

    def _forget(self, first: int) -> None:
        with self._lock:
            self._refresh()
            if (segment := self._open.pop(first, None)) is not None:
                segment.close()

    def _mark(self) -> Mark:
        for _ in range(100):  # a mark that is half written is soon whole
            if (mark := read_mark(self._directory)) is not None:
                return mark
        raise LogError(f"{self._directory / MARK} is damaged; opening the log for writing makes it anew")


def read_mark(directory: Path) -> Mark | None:
    """How far a log is synced; None where that is not known."""
    try:
        data = (directory / MARK).read_bytes()
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise LogError(f"cannot read {directory / MARK}: {error.strerror}") from error
    words = data[: 3 * _WORD]
    if data[3 * _WORD :] != xxh3_64_digest(words):
        return None
    return Mark(*(int.from_bytes(words[start : start + _WORD], "little") for start in range(0, 3 * _WORD, _WORD)))


def mark_bytes(mark: Mark) -> bytes:
    words = b"".join(word.to_bytes(_WORD, "little") for word in mark)
    return words + xxh3_64_digest(words)
