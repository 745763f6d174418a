"""Events that wait on disk: what comes while the application is busy with a state takes no memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from unisono.events import (
    DroppedOut,
    Event,
    Excluded,
    Gap,
    LeftBehind,
    Message,
    SourceUnavailable,
    Unrecovered,
    View,
)
from unisono.units import MIB

_KINDS: tuple[type[Event], ...] = (
    Message,
    View,
    Excluded,
    DroppedOut,
    LeftBehind,
    SourceUnavailable,
    Gap,
    Unrecovered,
)
_CODES = {kind: bytes((code,)) for code, kind in enumerate(_KINDS)}
_DECODERS = tuple(msgspec.msgpack.Decoder(kind) for kind in _KINDS)
_MARK_CODE = 255
_LENGTH_BYTES = 4
_READ_BYTES = MIB
SEGMENT_BYTES = 16 * MIB
"""A file of about this size goes when it was read."""


class Mark:
    """A place between two events."""

    __slots__ = ()


MARK: Final = Mark()


class Segment:
    """One file of a spool."""

    __slots__ = ("descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.size = 0

    def write(self, data: bytearray) -> None:
        """Write behind what is there, all or nothing."""
        left, offset = memoryview(data), self.size
        while left:
            written = os.pwrite(self.descriptor, left, offset)
            left, offset = left[written:], offset + written
        self.size = offset

    def read(self, offset: int) -> bytes:
        part = os.pread(self.descriptor, min(_READ_BYTES, self.size - offset), offset)
        if not part:
            raise OSError(f"{self.path} is shorter than what was written to it")
        return part

    def remove(self) -> None:
        os.close(self.descriptor)
        self.path.unlink(missing_ok=True)


class Spool:
    """A queue of events in files, oldest first; it may grow while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._segments: deque[Segment] = deque()
        self._files = 0
        self._data = bytearray()
        """A part of the oldest file, of which everything before `_place` was taken; `_offset` is where it ends."""
        self._place = self._offset = 0
        self._encoder = msgspec.msgpack.Encoder()
        self.count = 0
        """How many wait."""

    def append(self, events: Sequence[Event | Mark]) -> None:
        """Write events, all or none of them."""
        data = bytearray()
        for event in events:
            code, body = (
                (bytes((_MARK_CODE,)), b"")
                if isinstance(event, Mark)
                else (_CODES[type(event)], self._encoder.encode(event))
            )
            data += (len(body) + 1).to_bytes(_LENGTH_BYTES, "little") + code + body
        if not self._segments or self._segments[-1].size >= SEGMENT_BYTES:
            self._files += 1
            self._segments.append(Segment(self._path.with_name(f"{self._path.name}-{self._files}")))
        self._segments[-1].write(data)
        self.count += len(events)

    def take(self, limit: int) -> list[Event | Mark]:
        """The oldest events, at most so many; none when none is left. What was taken is here no more."""
        taken: list[Event | Mark] = []
        while self.count and len(taken) < limit:
            body = self._place + _LENGTH_BYTES
            end = body + int.from_bytes(self._data[self._place : body], "little")
            if body > len(self._data) or end > len(self._data):
                self._read_on()
                continue
            taken.append(_read(self._data[body], bytes(self._data[body + 1 : end])))
            self._place = end
            self.count -= 1
        return taken

    def _read_on(self) -> None:
        """Read the next part of the oldest file, or go on to the next one."""
        del self._data[: self._place]
        self._place = 0
        if self._offset == self._segments[0].size:
            assert not self._data, "an event is in one file"
            self._segments.popleft().remove()
            self._offset = 0
        part = self._segments[0].read(self._offset)
        self._data += part
        self._offset += len(part)

    def clear(self) -> None:
        """Forget all events, and free their room on disk."""
        self.count = self._offset = self._place = 0
        self._data.clear()
        while self._segments:
            self._segments.pop().remove()


def _read(code: int, body: bytes) -> Event | Mark:
    return MARK if code == _MARK_CODE else _DECODERS[code].decode(body)
