"""Events that wait on disk: what comes while the application is busy with a state takes no memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

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
_LENGTH_BYTES = 4
_READ_BYTES = MIB


class Spool:
    """Events in a file, oldest first. Written as a whole, then read as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0
        self._encoder = msgspec.msgpack.Encoder()
        self.count = 0

    def append(self, events: list[Event]) -> None:
        """Write events, all or none of them."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        data = bytearray()
        for event in events:
            body = self._encoder.encode(event)
            data += (len(body) + 1).to_bytes(_LENGTH_BYTES, "little") + _CODES[type(event)] + body
        left, offset = memoryview(data), self._size
        while left:
            written = os.pwrite(self._descriptor, left, offset)
            left, offset = left[written:], offset + written
        self._size = offset
        self.count += len(events)

    def events(self) -> Iterator[Event]:
        """All events, a part of the file at a time."""
        data, offset = bytearray(), 0
        while offset < self._size or data:
            needed = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
            while len(data) < needed or len(data) < _LENGTH_BYTES:
                assert self._descriptor is not None, "something was written"
                part = os.pread(self._descriptor, min(_READ_BYTES, self._size - offset), offset)
                if not part:
                    raise OSError(f"{self._path} is shorter than what was written to it")
                data += part
                offset += len(part)
                needed = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
            place = 0
            while len(data) - place >= _LENGTH_BYTES:
                end = place + _LENGTH_BYTES + int.from_bytes(data[place : place + _LENGTH_BYTES], "little")
                if end > len(data):
                    break
                body = place + _LENGTH_BYTES
                yield _DECODERS[data[body]].decode(memoryview(data)[body + 1 : end].tobytes())
                place = end
            del data[:place]

    def clear(self) -> None:
        """Forget all events, and free their room on disk."""
        self._size = self.count = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._path.unlink(missing_ok=True)
