"""The files of a retained log: segments of checksummed frames, each with positions to begin reading at.

A segment is named by the offset of its first payload. Its first frame says that offset, and which segment came before
it with how many bytes, so that a missing or shortened file is noticed. The index beside it only saves time: what is
missing in it is found by reading on.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from unisono.errors import LogError
from unisono.units import KIB
from unisono.wire.frames import (
    FRAME_LIMIT_BYTES,
    FRAME_OVERHEAD_BYTES,
    LENGTH_BYTES,
    Ending,
    FrameReader,
    frame,
    read_frames,
)

MAGIC = b"unisono log 1\n"
SEGMENT_SUFFIX = ".segment"
INDEX_SUFFIX = ".index"
INDEX_BYTES = 64 * KIB
"""A place to begin at is kept about every so many bytes."""
_READ_BYTES = 256 * KIB
_WORD = 8
_ENTRY_BYTES = 3 * _WORD


class Heading(Struct, frozen=True, array_like=True):
    """What stands in the first frame of a segment, after the magic word."""

    first: int
    previous: int
    previous_bytes: int


_decode_heading = msgspec.msgpack.Decoder(Heading).decode


def heading_frame(heading: Heading) -> bytes:
    return frame(MAGIC + msgspec.msgpack.encode(heading))


def segment_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020d}{SEGMENT_SUFFIX}"


def find_segments(directory: Path) -> list[int]:
    """The first offsets of the segments that are there, in order."""
    return sorted(
        int(path.stem) for path in directory.glob(f"*{SEGMENT_SUFFIX}") if path.stem.isdigit() and len(path.stem) == 20
    )


def index_entry(first: int, offset: int, position: int) -> bytes:
    words = offset.to_bytes(_WORD, "little") + position.to_bytes(_WORD, "little")
    return words + xxh3_64_intdigest(words, seed=first & ((1 << 64) - 1)).to_bytes(_WORD, "little")


class Segment:
    """One file, as it is read. The places in it are remembered."""

    def __init__(self, directory: Path, first: int) -> None:
        self.path = segment_path(directory, first)
        self.first = first
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.heading, start = self._read_heading()
        except BaseException:
            os.close(self._descriptor)
            raise
        self._offsets, self._positions = [first], [start]
        self._load_index()
        self._next = (first, start)
        """Where the last reading ended, for the one that goes on there."""

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """The offsets and positions that reading can begin at, in order."""
        return zip(self._offsets, self._positions, strict=True)

    def read(self, offset: int, end: int, limit_bytes: int) -> list[bytes]:
        """Payloads from `offset` to before `end`: at least one, and more as long as they stay under the limit."""
        assert self.first <= offset < end
        at, position = self._nearest(offset)
        payloads: list[bytes] = []
        taken = 0
        for payload, after in _Walk(self._descriptor, position):
            if at >= offset:
                if payloads and taken + len(payload) > limit_bytes:
                    break
                payloads.append(payload)
                taken += len(payload)
            at += 1
            self._remember(at, after)
            if at >= end:
                break
        if not payloads:
            raise LogError(
                f"{self.path} is damaged: it has no payload with the offset {offset}, which was written and synced;"
                " restore the file, or begin a new log elsewhere"
            )
        return payloads

    def recover(self, synced_bytes: int) -> tuple[int, int]:
        """How many payloads are whole, and where the last of them ends; damage before `synced_bytes` is an error."""
        self._offsets, self._positions = self._offsets[:1], self._positions[:1]
        at, position = self.first, self._positions[0]
        for _, after in _Walk(self._descriptor, position):
            at, position = at + 1, after
            self._remember(at, after)
        if position < synced_bytes:
            raise LogError(
                f"{self.path} is damaged at byte {position}, before its tail: {synced_bytes} bytes of it were synced;"
                " restore the file, or begin a new log elsewhere"
            )
        return at, position

    def _nearest(self, offset: int) -> tuple[int, int]:
        if self._next[0] == offset:
            return self._next
        place = bisect_right(self._offsets, offset) - 1
        return self._offsets[place], self._positions[place]

    def _remember(self, offset: int, position: int) -> None:
        if position >= self._positions[-1] + INDEX_BYTES:
            self._offsets.append(offset)
            self._positions.append(position)
        self._next = (offset, position)

    def _read_heading(self) -> tuple[Heading, int]:
        found = next(iter(_Walk(self._descriptor, 0)), None)
        if found is None or not found[0].startswith(MAGIC):
            raise LogError(f"{self.path} is no segment of a log of this version, or its beginning is damaged")
        try:
            heading = _decode_heading(found[0][len(MAGIC) :])
        except (msgspec.DecodeError, ValueError) as error:
            raise LogError(f"{self.path} has a heading that cannot be read: {error}") from None
        if heading.first != self.first:
            raise LogError(f"{self.path} was renamed: it begins with the offset {heading.first}")
        return heading, found[1]

    def _load_index(self) -> None:
        """Take the places that were written beside the segment, up to the first that is not whole."""
        try:
            data = self.path.with_suffix(INDEX_SUFFIX).read_bytes()
        except OSError:
            return
        size = self.size
        for start in range(0, len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            entry = data[start : start + _ENTRY_BYTES]
            offset = int.from_bytes(entry[:_WORD], "little")
            position = int.from_bytes(entry[_WORD : 2 * _WORD], "little")
            grows = offset > self._offsets[-1] and self._positions[-1] < position <= size
            if not grows or entry != index_entry(self.first, offset, position):
                return
            self._offsets.append(offset)
            self._positions.append(position)


class _Walk:
    """The payloads of whole frames from a position on, each with the position after it; ends where one is not whole."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        want = _READ_BYTES
        while True:
            data = os.pread(self._descriptor, want, self._position)
            frames: FrameReader = read_frames(data)
            base = self._position
            for payload in frames:
                self._position = base + frames.offset
                yield payload, self._position
            ending = frames.ending
            assert ending is not None, "every frame was taken"
            if ending.why == "damaged" or len(data) < want:
                return
            want = max(_READ_BYTES, _needed(data, ending))


def _needed(data: bytes, ending: Ending) -> int:
    """How many bytes the frame takes that did not fit."""
    prefix = data[ending.whole_bytes : ending.whole_bytes + LENGTH_BYTES]
    length = int.from_bytes(prefix, "little") if len(prefix) == LENGTH_BYTES else 0
    assert length <= FRAME_LIMIT_BYTES, "a longer one is damaged"
    return length + FRAME_OVERHEAD_BYTES
