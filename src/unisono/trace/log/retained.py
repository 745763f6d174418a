"""A retained log: payloads addressed by offset, which is how many were ever appended before.

One process appends; any number read meanwhile, in this process or in others. What was synced survives the machine, and
its offsets never change. The oldest segments go when the log grows beyond what is to be kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from unisono.errors import LogError
from unisono.trace.log.reader import MARK, NOTHING, LogReader, Mark, mark_bytes, read_mark
from unisono.trace.log.segments import (
    INDEX_BYTES,
    INDEX_SUFFIX,
    Heading,
    Segment,
    find_segments,
    heading_frame,
    index_entry,
    segment_path,
)
from unisono.units import KIB, MIB
from unisono.wire.frames import FRAME_LIMIT_BYTES, frame

__all__ = ["LogReader", "RetainedLog"]

_LOG = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * MIB
LEAST_SEGMENT_BYTES = 64 * KIB
_PARTS = 8
"""What is kept by size is kept in so many segments at least, so that the oldest part can go alone."""
LOCK = "lock"


class RetainedLog(LogReader):
    """The one writer of a log, which reads too. `append`, `sync` and what retains are for one thread at a time.

    `segment_bytes` is about the size of one file. `retain_bytes` is what is kept, give or take a segment; without it
    everything is. A reader in this process sees what was appended, others see what was synced.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        segment_bytes: int = SEGMENT_BYTES,
        retain_bytes: int | None = None,
    ) -> None:
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._guard = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LogError(f"cannot use {path} for a log: {error.strerror}; choose another directory") from error
        self._descriptor = self._index = self._marker = -1
        self._closed = False
        self._written = self._synced = NOTHING
        self._begin = self._indexed = 0
        try:
            super().__init__(path)
            self._take_lock()
            self._retain_bytes = retain_bytes
            if retain_bytes is not None:
                segment_bytes = min(segment_bytes, max(retain_bytes // _PARTS, LEAST_SEGMENT_BYTES))
            self._segment_bytes = segment_bytes
            self._held: int | None = None
            self._sizes: dict[int, int] = {}
            self._watchers: list[Callable[[], None]] = []
            self._marker = os.open(path / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._recover()
        except OSError as error:
            self.close()
            raise LogError(f"cannot use {path} for a log: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    @property
    def begin(self) -> int:
        return self._begin

    @property
    def end(self) -> int:
        """The offset after the last payload that was appended; that of the next one."""
        return self._written.end

    @property
    def synced(self) -> int:
        """The offset after the last payload that was synced."""
        return self._synced.end

    @property
    def kept_bytes(self) -> int:
        return sum(self._sizes.values())

    def append(self, payloads: Sequence[bytes]) -> int:
        """Write payloads behind the others; the offset of the first. All or none where it raises. Durable after `sync`.

        What one call brings is in one segment.
        """
        self._refuse_closed()
        first = self._written.end
        if self._written.position >= self._segment_bytes and first > self._written.segment:
            self._roll()
        _, segment, position = self._written
        frames, places, indexed = [], [], self._indexed
        end, start = first, position
        for payload in payloads:
            if len(payload) > FRAME_LIMIT_BYTES:
                raise LogError(f"a payload has {len(payload)} bytes, at most {FRAME_LIMIT_BYTES} fit")
            frames.append(frame(payload))
            position += len(frames[-1])
            end += 1
            if position >= indexed + INDEX_BYTES:
                places.append(index_entry(segment, end, position))
                indexed = position
        try:
            _write_all(self._descriptor, b"".join(frames))
            _write_all(self._index, b"".join(places))
        except OSError as error:
            os.ftruncate(self._descriptor, start)
            raise LogError(f"cannot write the log in {self._directory}: {error.strerror}") from error
        self._indexed = indexed
        self._sizes[segment] = position
        self._written = Mark(end, segment, position)
        self._retain()
        return first

    def sync(self) -> None:
        """Wait until everything that was appended is on disk; then others may read it."""
        self._refuse_closed()
        mark = self._written
        if mark == self._synced:
            return
        try:
            os.fsync(self._descriptor)
            self._publish(mark)
        except OSError as error:
            raise LogError(f"cannot sync the log in {self._directory}: {error.strerror}") from error
        for tell in tuple(self._watchers):
            tell()

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Be told whenever more is synced, in the thread that synced it. Call what this returns to be told no more."""
        self._watchers.append(tell)
        return lambda: self._watchers.remove(tell)

    def retain_from(self, offset: int) -> None:
        """Keep what has this offset or a later one, and whatever is in a segment with it."""
        self._refuse_closed()
        firsts = list(self._sizes)
        for first, following in pairwise(firsts):
            if following > offset:
                break
            self._drop(first)

    def hold_from(self, offset: int) -> None:
        """Retention by size keeps everything from this offset on, however much that is."""
        self._held = offset
        self._retain()

    def close(self) -> None:
        """Give the log to the next writer. What was appended and not synced stays, unless the machine fails."""
        if self._closed:
            return
        self._closed = True
        super().close()
        for descriptor in (self._descriptor, self._index, self._marker, self._guard):
            if descriptor >= 0:
                os.close(descriptor)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise LogError(f"the log in {self._directory} is closed")

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogError(
                f"another process writes the log in {self._directory}; end that first, or choose another directory"
            ) from None
        except OSError as error:  # a file system without locks: a second writer is not noticed here
            _LOG.warning("%s cannot be locked: %s", self._directory, error.strerror)

    def _recover(self) -> None:
        """Find the end: everything before the newest segment is complete, its cut tail is dropped."""
        for leftover in self._directory.glob("*.new"):
            leftover.unlink()
        mark = read_mark(self._directory) or NOTHING
        firsts = find_segments(self._directory)
        if mark.segment > (firsts[-1] if firsts else 0):
            raise LogError(f"{segment_path(self._directory, mark.segment)} is missing; restore it, or begin a new log")
        if not firsts:
            self._begin_segment(Heading(0, 0, 0))
            firsts = [0]
        else:
            self._check_chain(firsts)
            self._open_segment(firsts[-1])
        with Segment(self._directory, firsts[-1]) as newest:
            synced = mark.position if mark.segment == firsts[-1] else 0
            end, position = newest.recover(synced)
            if newest.size > position:
                _LOG.warning("%s: %d bytes of a cut tail dropped", newest.path, newest.size - position)
                os.ftruncate(self._descriptor, position)
            os.ftruncate(self._index, 0)
            places = list(newest.places)
        os.write(self._index, b"".join(index_entry(firsts[-1], *place) for place in places[1:]))
        self._indexed = places[-1][1]
        self._sizes[firsts[-1]] = position
        self._begin = firsts[0]
        self._written = Mark(end, firsts[-1], position)
        os.fsync(self._descriptor)
        self._publish(self._written)
        self._retain()

    def _check_chain(self, firsts: list[int]) -> None:
        previous = previous_size = None
        for first in firsts:
            with Segment(self._directory, first) as segment:
                heading = segment.heading
                if previous is not None and (heading.previous, heading.previous_bytes) != (previous, previous_size):
                    raise LogError(
                        f"{segment.path} does not follow the file before it, which is missing, or was cut or changed:"
                        f" it follows a segment {heading.previous} of {heading.previous_bytes} bytes;"
                        " restore that, or begin a new log elsewhere"
                    )
                previous, previous_size = first, segment.size
                self._sizes[first] = segment.size

    def _begin_segment(self, heading: Heading) -> None:
        path = segment_path(self._directory, heading.first)
        data = heading_frame(heading)
        new = path.with_name(path.name + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.rename(path)
        sync_directory(self._directory)
        path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
        self._open_segment(heading.first)
        self._indexed = self._sizes[heading.first] = len(data)
        self._written = Mark(heading.first, heading.first, len(data))

    def _open_segment(self, first: int) -> None:
        for descriptor in (self._descriptor, self._index):
            if descriptor >= 0:
                os.close(descriptor)
        path = segment_path(self._directory, first)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = self._index = -1
        self._descriptor = os.open(path, flags)
        self._index = os.open(path.with_suffix(INDEX_SUFFIX), flags | os.O_CREAT, 0o666)

    def _roll(self) -> None:
        """Go on in a new segment; the old one is on disk before it is followed."""
        self.sync()
        end, segment, position = self._written
        self._begin_segment(Heading(end, segment, position))
        self._publish(self._written)

    def _retain(self) -> None:
        if self._retain_bytes is None:
            return
        firsts = list(self._sizes)
        for first, following in pairwise(firsts):
            if self.kept_bytes <= self._retain_bytes or (self._held is not None and following > self._held):
                break
            self._drop(first)

    def _drop(self, first: int) -> None:
        path = segment_path(self._directory, first)
        try:
            path.unlink(missing_ok=True)
            path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
        except OSError as error:
            raise LogError(f"cannot remove {path}: {error.strerror}") from error
        del self._sizes[first]
        self._begin = next(iter(self._sizes))
        self._forget(first)

    def _publish(self, mark: Mark) -> None:
        os.pwrite(self._marker, mark_bytes(mark), 0)
        self._synced = mark

    def _mark(self) -> Mark:
        return self._written


def sync_directory(directory: Path) -> None:
    """A new file is durable when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
