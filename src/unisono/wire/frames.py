"""Frames on a channel or in an append-only file: what was written whole is read back, nothing else is taken for it.

A frame is a 32-bit length, the payload, and a 64-bit xxh3 checksum over both; the length is little-endian. Reading
stops at the first frame that is cut short or damaged, since nothing after it can be placed with certainty.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Literal

from msgspec import Struct
from xxhash import xxh3_64

FRAME_LIMIT_BYTES = 1 << 27
"""The longest payload: twice the largest message, so that a log entry holds one with its header."""

LENGTH_BYTES = 4
CHECKSUM_BYTES = 8
FRAME_OVERHEAD_BYTES = LENGTH_BYTES + CHECKSUM_BYTES


class Ending(Struct, frozen=True):
    """How reading ended: where the last whole frame stops, what was left unread after it, and why.

    `cut` is what a crash in the middle of an append leaves. A length that was damaged into a larger one also
    reads as a cut: both mean that the rest is lost.
    """

    whole_bytes: int
    dropped_bytes: int
    why: Literal["whole", "cut", "damaged"]


class FrameReader:
    """The payloads of whole frames, in order. `ending` is None until the last one has been taken."""

    def __init__(self, data: bytes | bytearray | mmap) -> None:
        self._data = data
        self.offset = 0
        self.ending: Ending | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.ending is not None:
            raise StopIteration
        left = len(self._data) - self.offset
        if left == 0:
            raise self._stop("whole")
        if left < LENGTH_BYTES:
            raise self._stop("cut")
        start = self.offset + LENGTH_BYTES
        prefix = bytes(self._data[self.offset : start])
        length = int.from_bytes(prefix, "little")
        if length > FRAME_LIMIT_BYTES:
            raise self._stop("damaged")
        if length + FRAME_OVERHEAD_BYTES > left:
            raise self._stop("cut")
        payload = bytes(self._data[start : start + length])
        end = start + length + CHECKSUM_BYTES
        if _checksum(prefix, payload) != self._data[start + length : end]:
            raise self._stop("damaged")
        self.offset = end
        return payload

    def _stop(self, why: Literal["whole", "cut", "damaged"]) -> StopIteration:
        self.ending = Ending(self.offset, len(self._data) - self.offset, why)
        return StopIteration()


def read_frames(data: bytes | bytearray | mmap) -> FrameReader:
    """Read frames from the start of `data`; never raises for what the bytes hold."""
    return FrameReader(data)


def frame(payload: bytes) -> bytes:
    """One frame, ready to append."""
    if len(payload) > FRAME_LIMIT_BYTES:
        raise ValueError(f"a frame holds at most {FRAME_LIMIT_BYTES} bytes, this payload has {len(payload)}")
    prefix = len(payload).to_bytes(LENGTH_BYTES, "little")
    return prefix + payload + _checksum(prefix, payload)


def _checksum(prefix: bytes, payload: bytes) -> bytes:
    state = xxh3_64(prefix)
    state.update(payload)
    return state.digest()
