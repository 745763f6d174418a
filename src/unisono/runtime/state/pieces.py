"""A state that came in pieces, as a file to read: a piece that does not have its digest is not given."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.engine import Piece
from unisono.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class PieceReader(io.RawIOBase):
    """Reads pieces of a file in order, and notes the places of those that are not what they should be in `damaged`."""

    def __init__(self, path: Path, pieces: Sequence[Piece], damaged: list[int]) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if pieces else -1
        self._pieces = pieces
        self._next = 0
        self._data = memoryview(b"")
        self._damaged = damaged

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        into = memoryview(buffer).cast("B")
        if not self._data and self._next < len(self._pieces):
            self._data = memoryview(self._read(self._next, self._pieces[self._next]))
            self._next += 1
        size = min(len(into), len(self._data))
        into[:size] = self._data[:size]
        self._data = self._data[size:]
        return size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _read(self, place: int, piece: Piece) -> bytes:
        data = os.pread(self._descriptor, piece.size, piece.offset)
        if sha256(data).digest() != piece.digest:
            self._damaged.append(place)
            raise StorageError("the disk changed a piece of the state; it is asked for again")
        return data
