"""The chunks that a newcomer has, by their digests: none is asked for twice, whoever gave it."""

from __future__ import annotations

from unisono.engine import DropBlob, Effect, Piece, WriteBlob

WASTE_LIMIT = 3
"""When the chunks take this many times the room of the state that is wanted, they are thrown away."""


class Store:
    """Chunks of one group's state in a blob, one behind the other."""

    __slots__ = ("_end", "_pieces", "_writing", "blob")

    def __init__(self, blob: str) -> None:
        self.blob = blob
        self._end = 0
        self._pieces: dict[bytes, Piece] = {}
        self._writing: dict[int, Piece] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._pieces

    def piece(self, digest: bytes) -> Piece:
        return self._pieces[digest]

    def is_writing(self, digest: bytes) -> bool:
        """Whether a chunk is on its way to the disk."""
        return any(piece.digest == digest for piece in self._writing.values())

    def write(self, request: int, digest: bytes, data: bytes) -> WriteBlob:
        piece = self._writing[request] = Piece(self._end, len(data), digest)
        self._end += len(data)
        return WriteBlob(self.blob, request, piece.offset, data)

    def written(self, request: int) -> Piece | None:
        """A chunk is on disk."""
        piece = self._writing.pop(request, None)
        if piece is not None:
            self._pieces[piece.digest] = piece
        return piece

    def failed(self, request: int) -> Piece | None:
        """A chunk is not on disk; its room stays unused."""
        return self._writing.pop(request, None)

    def forget(self, digest: bytes) -> None:
        self._pieces.pop(digest, None)

    def trim(self, size: int) -> list[Effect]:
        """Throw everything away where most of it is of no use any more."""
        if self._end <= WASTE_LIMIT * size or self._writing:
            return []
        return self.drop()

    def drop(self) -> list[Effect]:
        used, self._end = self._end, 0
        self._pieces.clear()
        self._writing.clear()
        return [DropBlob(self.blob)] if used else []
